package reconcile

import (
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestStoppedProgramIsRestored: its device and routes stay as they are.
func TestStoppedProgramIsRestored(t *testing.T) {
	tunnel := netstate.Link{
		Name: "tulle.udp", Kind: netstate.TunnelUDP, MTU: 1472, Group: netstate.Mark, Up: true,
		UDP: netstate.UDP{Local: netip.MustParseAddrPort("192.0.2.1:8285"), Network: netip.MustParsePrefix("10.0.0.0/16"), Source: netip.MustParseAddr("10.0.1.0")},
	}
	at := func(n byte) netstate.UDPPeer {
		return netstate.UDPPeer{Link: tunnel.Name, Prefix: subnet(int(n)), Endpoint: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 8285)}
	}
	to := func(dst byte) netstate.Route { return netstate.Route{Dst: subnet(int(dst)), Link: tunnel.Name} }
	running(t, []netstate.Object{tunnel}, func(l *lab) {
		l.set("two", at(2), to(2))
		l.set("three", at(3), to(3))
		l.synced()
		ops := l.ops()
		moved := at(2)
		moved.Endpoint = at(4).Endpoint
		l.set("two", moved, to(2))
		if got, want := ops(), "replace udppeer 10.0.2.0/24 dev tulle.udp"; got != want {
			l.Errorf("for another host it did %s, want %s", got, want)
		}
		l.healed(0, 0, 0, 0, 0, 0)
		if !l.f.StopProgram(tunnel.Name) {
			l.Fatal("no program moves the packets")
		}
		l.synced()
		l.has(tunnel, moved, at(3), to(2), to(3))
		l.healed(1, 0, 0, 0, 0, 0, 0, 2, 0)
	})
}
