package network

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const hostGWConfig = `{"Network": "10.5.0.0/16", "Backend": {"Type": "host-gw"}}`

// TestMoveWaitsForThePeer moves a node step by step, as its peer does. A daemon that is
// restarted in between goes on.
func TestMoveWaitsForThePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.StateDir = t.TempDir()
		peer := l.peer(9)
		direct := netstate.Route{Dst: netip.MustParsePrefix("10.5.9.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"}
		sends := func(by string) {
			t.Helper()
			if l.host.Has(direct) != (by == "host-gw") {
				t.Errorf("sends by another way than %s:\n%s", by, l.host.Snapshot())
			}
			l.wantRoute("10.5.9.0/24", true)
		}
		publishes := func(kind string, parts ...string) {
			t.Helper()
			own := l.own()
			for _, part := range parts {
				if own.BackendType != kind || !strings.Contains(own.Move, part) {
					t.Errorf("publishes %s %s, which lacks %s %s", own.BackendType, own.Move, kind, part)
				}
			}
		}
		l.start()
		l.after(time.Minute)
		l.store.SetConfig(hostGWConfig)
		l.after(time.Minute)
		sends("vxlan")
		publishes("vxlan", `"Type":"host-gw"`, `"Ready":true`, `"Without":["10.5.9.0-24"]`)
		l.wantReady(true)
		if text := l.view().checkConfig().Text; !strings.Contains(text, "moving from vxlan: sending to 0 of 1 peers by the new backend; waiting for 10.5.9.0-24: its lease has only vxlan") {
			t.Errorf("says %q", text)
		}

		l.stop()
		l.start()
		l.after(time.Minute)
		sends("vxlan")
		publishes("vxlan", `"Type":"host-gw"`)

		offer := subnet.Offer{Type: "host-gw"}
		offers := func() {
			peer.Move = subnet.FormatMove(subnet.Move{Round: 1, Offers: []subnet.Offer{offer}})
			peer = l.store.Put(peer)
			l.after(time.Minute)
		}
		offers()
		sends("vxlan")
		publishes("vxlan", `"Ready":true}`)
		offer.Ready = true
		offers()
		sends("host-gw")
		publishes("host-gw", `"Type":"vxlan"`)
		if d := l.host.device(); d.Name == "" {
			t.Error("the tunnel is gone, and the peer still sends through it")
		}

		peer.BackendType, peer.BackendData, peer.Move = "host-gw", subnet.Pair[string]{}, ""
		peer.Node.MTU = 1500
		l.store.Put(peer)
		l.after(time.Minute)
		sends("host-gw")
		if own := l.own(); own.BackendType != "host-gw" || own.Move != "" {
			t.Errorf("publishes %s %s", own.BackendType, own.Move)
		}
		if d := l.host.device(); d.Name != "" {
			t.Errorf("the tunnel is still there: %s", d)
		}
		l.wantReady(true)
		if text := l.view().checkConfig().Text; strings.Contains(text, "moving") {
			t.Errorf("says %q", text)
		}
	})
}

// TestMoveNeedsTheKernel moves to a backend that the kernel refuses. The node works as
// before, and offers nothing.
func TestMoveNeedsTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLife(t, hostGWConfig)
		peer := l.peer(9)
		peer.BackendType, peer.BackendData = "host-gw", subnet.Pair[string]{}
		l.store.Put(peer)
		l.start()
		l.soon()
		allow := l.host.Fail(-1, kerneltest.OfKey(netstate.Link{Name: "tulle.1"}.Key()), syscall.EOPNOTSUPP)
		l.store.SetConfig(plainConfig)
		l.after(10 * time.Minute)
		l.wantRoute("10.5.9.0/24", true)
		l.wantReady(true)
		if own := l.own(); own.BackendType != "host-gw" || strings.Contains(own.Move, "vxlan") {
			t.Errorf("publishes %s %s", own.BackendType, own.Move)
		}
		allow()
		l.after(10 * time.Minute)
		if own := l.own(); own.BackendType != "host-gw" || !strings.Contains(own.Move, `"Type":"vxlan"`) {
			t.Errorf("once it is allowed, publishes %s %s", own.BackendType, own.Move)
		}
		l.after(time.Hour)
		if degraded := l.view().checkConfig().Degraded; len(degraded) != 1 || !strings.Contains(degraded[0], "does not end") {
			t.Errorf("after an hour: %q", degraded)
		}
	})
}
