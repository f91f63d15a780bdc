package reconcile

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestWireGuardPeers follows a peer whose key changes, whose subnet moves, which roams,
// and which another program removes.
func TestWireGuardPeers(t *testing.T) {
	tunnel := netstate.Link{
		Name: "tulle-wg", Kind: netstate.TunnelWireGuard, MTU: 1420, Group: netstate.Mark, Up: true,
		WireGuard: netstate.WireGuard{Key: netstate.PublicKeyOf([32]byte{1}), Port: 51820},
	}
	at := func(n byte) netip.AddrPort { return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 51820) }
	key := func(n byte) netstate.PublicKey { return netstate.PublicKeyOf([32]byte{n}) }
	wgPeer := func(n byte) netstate.WGPeer {
		return netstate.WGPeer{Link: tunnel.Name, Peer: key(n), Endpoint: at(n)}
	}
	allowed := func(dst, peer byte) netstate.WGAllowed {
		return netstate.WGAllowed{Link: tunnel.Name, Prefix: subnet(int(dst)), Peer: key(peer)}
	}
	to := func(dst byte) netstate.Route { return netstate.Route{Dst: subnet(int(dst)), Link: tunnel.Name} }
	nameOf := func(n byte) string { return "wgpeer " + key(n).String() + " dev tulle-wg" }

	running(t, []netstate.Object{tunnel}, func(l *lab) {
		l.set("two", wgPeer(2), allowed(2, 2), to(2))
		l.set("three", wgPeer(3), allowed(3, 3), to(3))
		l.synced()

		ops := l.ops()
		l.set("two", wgPeer(4), allowed(2, 4), to(2))
		if got, want := ops(), "create "+nameOf(4)+", replace wgallowed 10.0.2.0/24 dev tulle-wg, delete "+nameOf(2); got != want {
			l.Errorf("for another key it did %s\nwant %s", got, want)
		}

		l.r.Update(func(d *Desired) {
			d.Set("two", []netstate.Object{wgPeer(4)})
			d.Set("three", []netstate.Object{wgPeer(3), allowed(2, 3), allowed(3, 3), to(2), to(3)})
		})
		l.synced()
		l.has(allowed(2, 3), to(2))

		// What has roamed stays where it is, until its lease changes.
		l.f.Roam(wgPeer(3).Key(), at(99))
		roamed := wgPeer(3)
		roamed.Endpoint, roamed.Roamed = at(99), true
		l.r.Resync()
		l.wait(time.Minute)
		l.has(roamed)
		if s := l.r.Status(); !s.InSync {
			l.Error("not in sync because of a peer that has roamed")
		}
		moved := wgPeer(3)
		moved.Endpoint = at(33)
		l.set("three", moved, allowed(3, 3), to(3))
		l.synced()
		l.has(moved)
		l.healed(0, 0, 0, 0, 0, 0)

		// The kernel does not report what another program does to a peer.
		l.f.Delete(moved.Key())
		l.hasNot(allowed(3, 3))
		l.wait(10 * time.Minute)
		l.has(moved, allowed(3, 3))
		l.healed(0, 0, 0, 0, 0, 1, 1, 0)
	})
}
