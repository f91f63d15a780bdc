package network

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

const hostGWConfig = `{"Network": "10.5.0.0/16", "Backend": {"Type": "host-gw"}}`

// TestMoveWaitsForThePeer moves a node step by step, as its peer does. A daemon that is
// restarted in between goes on.
func TestMoveWaitsForThePeer(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
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
		got := l.view().Report().Network.Move
		want := &status.Move{Round: 1, From: []string{"vxlan"}, Peers: 1, WaitCount: 1, Waits: []status.MoveWait{{
			Key: "10.5.9.0-24", Why: "its lease has only vxlan; it may be down, have the former config, or run a version that does not move",
		}}}
		if got != nil {
			if age := time.Since(got.Since); age > time.Minute || age < 55*time.Second {
				t.Errorf("reports a move that began %s ago", age)
			}
			want.Since = got.Since
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("reports %+v", got)
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
		if got := l.view().Report().Network.Move; got != nil {
			t.Errorf("reports %+v", got)
		}
	})
}

// TestMoveGivesUpWhatCannotBePrepared: a node that was restarted during a move waits for the
// former backend's command while that runs, and not for one that fails. It is tried no more.
func TestMoveGivesUpWhatCannotBePrepared(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.out.StateDir = t.TempDir()
		l.peer(9)
		l.start()
		l.after(time.Minute)
		l.store.SetConfig(hostGWConfig)
		l.after(time.Minute)
		l.stop()
		why, stopped := netstate.ErrUnfinished, false
		l.prepare = func(command string, _ time.Duration) (string, error) {
			if command == "" {
				stopped = true
				return "", nil
			}
			return "", why
		}
		l.backends = maps.Clone(l.backends)
		l.backends["vxlan"] = func(cfg subnet.Config, h backend.HostFacts) (backend.Backend, error) {
			if _, err := h.Prepare("prepare", 0); err != nil {
				return nil, err
			}
			return vxlan.New(cfg, h)
		}
		l.start()
		l.after(time.Minute)
		l.wantReady(false, "not finished yet")
		l.stop()
		why = fmt.Errorf("%w; %w", syscall.ENOENT, netstate.ErrRepeated)
		l.start()
		l.after(time.Minute)
		l.wantReady(true)
		if own := l.own(); own.BackendType != "host-gw" || !stopped || l.view().Report().Network.Move != nil {
			t.Errorf("it publishes %s %s; tries stopped: %v", own.BackendType, own.Move, stopped)
		}
	})
}

// TestMoveNeedsTheKernel moves to a backend that the kernel refuses. The node works as
// before, and offers nothing.
func TestMoveNeedsTheKernel(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
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

// strict is a backend that confines packets to its device.
type strict struct{ backend.Backend }

func (strict) Confined() subnet.Pair[[2]string] {
	return subnet.Pair[[2]string]{subnet.IPv4: {"tulle.1"}}
}

// TestMoveFromStrictWaitsForTheFirewall moves a node away from a backend that confines
// packets, while the firewall does not remove the rules for that. The node does not send by
// the new backend before, for the rules would drop that.
func TestMoveFromStrictWaitsForTheFirewall(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		slow bool
	}{"slow": {nil, true}, "failing": {errors.New("no nftables"), false}} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				l := newLife(t, plainConfig)
				l.backends = maps.Clone(factories)
				l.backends[vxlan.Type] = func(cfg subnet.Config, host backend.HostFacts) (backend.Backend, error) {
					b, err := vxlan.New(cfg, host)
					return strict{b}, err
				}
				peer := l.peer(9)
				l.start()
				l.after(time.Minute)
				if l.firewall.wants().Confined == (subnet.Pair[[2]string]{}) {
					t.Fatal("nothing is confined")
				}
				l.firewall.set(c.err, c.slow)
				l.store.SetConfig(hostGWConfig)
				peer.Move = subnet.FormatMove(subnet.Move{Round: 1, Offers: []subnet.Offer{{Type: "host-gw", Ready: true}}})
				l.store.Put(peer)
				l.after(10 * time.Minute)
				direct := netstate.Route{Dst: netip.MustParsePrefix("10.5.9.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"}
				if l.host.Has(direct) {
					t.Errorf("it sends past the rules:\n%s", l.host.Snapshot())
				}
				l.wantRoute("10.5.9.0/24", true)
				if l.firewall.wants().Confined != (subnet.Pair[[2]string]{}) {
					t.Error("packets are still to be confined")
				}
				l.firewall.set(nil, false)
				l.after(time.Minute)
				if !l.host.Has(direct) {
					t.Errorf("it does not send by host-gw:\n%s", l.host.Snapshot())
				}
			})
		})
	}
}

// TestOfferStaysWhileTheStoreIsSlow moves a node whose store has its offer, and does not say
// so yet. A change of the peers must not withdraw the offer, by which they may send.
func TestOfferStaysWhileTheStoreIsSlow(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		l.peer(9)
		l.store.offered = make(chan struct{})
		l.start()
		l.after(time.Minute)
		l.store.SetConfig(hostGWConfig)
		l.after(5 * time.Second)
		offer := func(want string) {
			t.Helper()
			if own := l.own(); !strings.Contains(own.Move, want) {
				t.Errorf("publishes %s %s, without %s", own.BackendType, own.Move, want)
			}
		}
		offer(`"Type":"host-gw"`)
		allow := l.host.Fail(-1, kerneltest.OfKey(netstate.Route{Dst: netip.MustParsePrefix("10.5.10.0/24")}.Key()), netstate.ErrUnfinished)
		l.peer(10)
		l.after(time.Minute)
		offer(`"Type":"host-gw"`)
		allow()
		close(l.store.offered)
		l.after(time.Minute)
		offer(`"Without":["10.5.10.0-24","10.5.9.0-24"]`)
	})
}

// TestMoveGoesOnWhileAConfigWaits moves a node while the store's config waits for a restart. The
// node only holds its lease then, and each step follows once the watch shows the one before.
func TestMoveGoesOnWhileAConfigWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, plainConfig)
		peer := l.peer(9)
		l.start()
		l.after(time.Minute)
		l.store.SetConfig(hostGWConfig)
		l.after(time.Minute)
		l.store.SetConfig(`{"Network": "10.99.0.0/16"}`)
		l.after(time.Minute)
		l.wantReady(false, "restart needed")
		peer.Move = subnet.FormatMove(subnet.Move{Round: 1, Offers: []subnet.Offer{{Type: "host-gw", Ready: true}}})
		l.store.Put(peer)
		l.after(time.Minute)
		if direct := (netstate.Route{Dst: netip.MustParsePrefix("10.5.9.0/24"), Via: netip.MustParseAddr("198.18.0.9"), Link: "eth0"}); !l.host.Has(direct) {
			t.Errorf("it does not send by host-gw:\n%s", l.host.Snapshot())
		}
		before := l.own()
		peer.BackendType, peer.BackendData, peer.Move = "host-gw", [2]string{}, ""
		l.store.Put(peer)
		l.after(time.Minute)
		if own := l.own(); own.BackendType != "host-gw" || own.Move != "" {
			t.Errorf("publishes %s %s, and before %s %s", own.BackendType, own.Move, before.BackendType, before.Move)
		}
		if move := l.view().Report().Network.Move; move != nil {
			t.Errorf("still moves: %+v", move)
		}
	})
}
