package reconcile

import (
	"errors"
	"net/netip"
	"strings"
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

// TestSilentProgramDelaysOnlyItsOwn: what its kernel has is healed while it does not answer, and
// what it holds itself is left alone.
func TestSilentProgramDelaysOnlyItsOwn(t *testing.T) {
	tunnel := netstate.Link{
		Name: "tulle-wg", Kind: netstate.TunnelWireGuardTUN, MTU: 1420, Group: netstate.Mark, Up: true,
		WireGuard: netstate.WireGuard{Key: netstate.PublicKeyOf([32]byte{1}), Port: 51820},
	}
	wgPeer := func(n byte) netstate.WGPeer {
		return netstate.WGPeer{Link: tunnel.Name, Peer: netstate.PublicKeyOf([32]byte{n}), Endpoint: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, n}), 51820)}
	}
	peer := func(n byte) []netstate.Object {
		return []netstate.Object{wgPeer(n), netstate.WGAllowed{Link: tunnel.Name, Prefix: subnet(int(n)), Peer: wgPeer(n).Peer}, netstate.Route{Dst: subnet(int(n)), Link: tunnel.Name}}
	}
	running(t, []netstate.Object{tunnel, forward}, func(l *lab) {
		l.set("two", peer(2)...)
		l.set("three", peer(3)...)
		l.synced()
		goOn := l.f.Silence(tunnel.Name, errors.New("no answer"))
		ops := l.ops()
		l.f.Delete(peer(2)[2].Key())
		off := forward
		off.Value = "0"
		if err := l.f.Put(off); err != nil {
			l.Fatal(err)
		}
		l.r.Resync()
		l.wait(time.Minute)
		if got := ops(); strings.Contains(got, "wgpeer") || strings.Contains(got, "wgallowed") || strings.Contains(got, "link ") {
			l.Errorf("while the program is silent, the loop did %s", got)
		}
		l.has(tunnel, forward)
		l.has(peer(2)...)
		if s := l.r.Status(); s.InSync || s.DumpError == nil || len(s.Failing) > 0 {
			l.Errorf("the status is %s", l.dumpStatus())
		}

		// Changes wait, also those that come during a resync, and through others.
		release := l.f.BlockDump()
		l.r.Resync()
		l.wait(time.Second)
		l.remove("three")
		l.set("four", peer(4)...)
		release()
		l.wait(time.Second)
		l.r.Resync()
		l.wait(time.Second)
		l.has(peer(4)[2])
		l.hasNot(peer(3)[2])
		if s := l.r.Status(); len(s.Failing) != 4 {
			l.Errorf("of four changes are failing: %s", l.failing())
		}
		goOn()
		l.wait(time.Second)
		l.synced()
		l.has(peer(4)...)
	})
}
