package network

import (
	"fmt"
	"maps"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

const cloudConfig = `{"Network": "10.5.0.0/16", "Backend": {"Type": "cloud"}}`

// routedPeer writes the lease of a node with the backend cloud.
func (l *life) routedPeer(x byte) {
	l.t.Helper()
	p := l.peer(x)
	p.BackendType = "cloud"
	l.store.Put(p)
}

func (l *life) notice(key, text string) {
	l.t.Helper()
	n, err := subnet.ParseNotice(text)
	if err != nil {
		l.t.Fatal(err)
	}
	l.store.SetNotice(key, n)
	l.soon()
}

// wantWay checks by which way the kernel sends to 10.5.9.0/24, and that the tunnel's
// objects are complete.
func (l *life) wantWay(way string) {
	l.t.Helper()
	state := l.host.Snapshot().String()
	want := map[string]string{"native": "route 10.5.9.0/24 via 198.18.255.254 dev eth0", "tunnel": "route 10.5.9.0/24 via 10.5.9.0 dev tulle.1 onlink"}[way]
	for _, part := range []string{want, "neigh 10.5.9.0 ", "fdb 3a:00:00:00:00:09 dst 198.18.0.9"} {
		if !strings.Contains(state, part) {
			l.t.Errorf("packets do not take the %s: %q is missing in\n%s", way, part, state)
		}
	}
}

// detours returns how many peers are reached without the tunnel, and why the others are
// not.
func (l *life) detours(t *testing.T) string {
	t.Helper()
	c := l.agent.Report(t.Context()).Peers
	if c.Native == nil {
		return "no count"
	}
	words := []string(nil)
	if *c.Native > 0 {
		words = append(words, fmt.Sprint("native ", *c.Native))
	}
	for _, reason := range status.Detours() {
		if n := c.Tunnelled[reason]; n > 0 {
			words = append(words, fmt.Sprint(reason, " ", n))
		}
	}
	return strings.Join(words, ", ")
}

// A peer is reached without the tunnel while the notices of both nodes say so.
func TestNoticesChooseTheWay(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, cloudConfig)
		l.routedPeer(9)
		l.start()
		l.after(2 * patience)
		l.wantWay("tunnel")
		own := l.own().Key()
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.9 10.5.9.0/24")
		l.wantWay("tunnel") // nothing says that this node may
		l.notice(own, "vpc-2 198.18.0.1")
		l.wantWay("tunnel")
		l.notice(own, "vpc-1 198.18.0.1")
		l.wantWay("native")
		if peers, err := l.agent.Peers(t.Context()); err != nil || len(peers) != 1 || peers[0].By != "direct" || peers[0].Tunnelled != "" || l.detours(t) != "native 1" {
			t.Errorf("%+v, %v", peers, err)
		}
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.9 10.5.8.0/24") // another's
		l.wantWay("tunnel")
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.8 10.5.9.0/24") // about the last holder of the subnet
		l.wantWay("tunnel")
		l.notice(own, "vpc-1 198.18.0.7") // likewise
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.9 10.5.9.0/24")
		l.wantWay("tunnel")
		l.notice(own, "vpc-1 198.18.0.1")
		l.store.Gap()
		l.soon()
		l.wantWay("native")
		// A restart does not move it.
		l.stop()
		l.host.ResetCounts()
		l.start()
		l.after(2 * patience)
		l.wantWay("native")
		if n := l.host.Counts().Steps(); n != 0 {
			t.Errorf("the restart took %d steps", n)
		}
		l.notice("10.5.9.0-24", "")
		l.wantWay("tunnel")
		peers, err := l.agent.Peers(t.Context())
		if err != nil || len(peers) != 1 || !strings.Contains(peers[0].Tunnelled, "no controller says anything of its routes") || l.detours(t) != "unannounced 1" {
			t.Errorf("%+v, %v", peers, err)
		}
	})
}

// Probes veto a route that carries no packets. It is tried again after a while, or when
// the controller changes its notice.
func TestProbesVetoARoute(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, cloudConfig)
		l.routedPeer(9)
		l.start()
		l.after(2 * patience)
		own := l.own().Key()
		l.notice(own, "vpc-1 198.18.0.1")
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.9 10.5.9.0/24")
		l.wantWay("native")
		failing := func(change func(*probe.Result)) {
			r := probe.Result{Lasts: true, Finding: probe.Finding{Cause: probe.Filtered, Path: probe.Path{
				Peer: "10.5.9.0-24", To: netip.MustParseAddr("10.5.9.0"), HostTo: netip.MustParseAddr("198.18.0.9"),
			}}}
			change(&r)
			l.agent.call(t.Context(), func() { l.agent.vetoRoutes([]probe.Result{r}) })
			l.soon()
		}
		for _, change := range []func(*probe.Result){
			func(r *probe.Result) { r.Lasts = false },
			func(r *probe.Result) { r.Cause, r.Lasts = probe.Down, false },
			func(r *probe.Result) { r.Cause = probe.SmallMTU },
			func(r *probe.Result) { r.Tunnel = "UDP port 8472" },
			func(r *probe.Result) { r.Peer = "10.5.10.0-24" },
		} {
			failing(change)
			l.wantWay("native")
		}
		failing(func(*probe.Result) {})
		l.wantWay("tunnel")
		peers, err := l.agent.Peers(t.Context())
		if err != nil || len(peers) != 1 || !strings.Contains(peers[0].Tunnelled, "its route does not carry packets") || l.detours(t) != "vetoed 1" {
			t.Errorf("%+v, %v", peers, err)
		}
		l.after(15 * time.Minute)
		l.wantWay("native")
		failing(func(*probe.Result) {})
		l.after(9 * time.Minute)
		l.wantWay("tunnel")
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.9")
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.9 10.5.9.0/24")
		l.wantWay("native")

		// A host whose pings are also filtered looks as if it were down. However often
		// it does, its route is tried within an hour.
		for range 12 {
			failing(func(r *probe.Result) { r.Cause = probe.Down })
			l.wantWay("tunnel")
			l.after(longestDownVeto + time.Minute)
			l.wantWay("native")
		}
	})
}

// If the host has no router, the status gives that as the reason why a peer with
// confirmed routes takes the tunnel. Only the backend cloud asks for the router: other
// backends do not follow its changes.
func TestChangesOfTheRouter(t *testing.T) {
	for config, want := range map[string]int{cloudConfig: 1, plainConfig: 0} {
		bubbletest.Test(t, func(t *testing.T) {
			l := newLife(t, config)
			l.routedPeer(9)
			l.start()
			l.after(2 * patience)
			l.notice(l.own().Key(), "vpc-1 198.18.0.1")
			l.notice("10.5.9.0-24", "vpc-1 198.18.0.9 10.5.9.0/24")
			l.agent.call(t.Context(), func() {
				made, backends := 0, maps.Clone(l.agent.Backends)
				for name, f := range backends {
					backends[name] = func(cfg subnet.Config, h backend.HostFacts) (backend.Backend, error) {
						made++
						return f(cfg, h)
					}
				}
				l.agent.Backends = backends
				h := l.agent.host
				h.Gateways = subnet.Pair[netip.Addr]{}
				l.agent.hostChanged(h, nil)
				if made != want {
					t.Errorf("%s: made the backend %d times", config, made)
				}
			})
			l.soon()
			if want == 0 {
				return
			}
			l.wantWay("tunnel")
			peers, err := l.agent.Peers(t.Context())
			if err != nil || len(peers) != 1 || !strings.Contains(peers[0].Tunnelled, "no default route") || l.detours(t) != "uplink 1" {
				t.Errorf("%+v, %v", peers, err)
			}
		})
	}
}

// After the node's own subnet has changed, the notice about the previous one is
// ignored.
func TestNoticeOfTheLastSubnetCountsNoMore(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, cloudConfig)
		l.routedPeer(9)
		l.start()
		l.after(2 * patience)
		own := l.own()
		l.notice(own.Key(), "vpc-1 198.18.0.1")
		l.notice("10.5.9.0-24", "vpc-1 198.18.0.9 10.5.9.0/24")
		l.wantWay("native")
		thief := l.peer(8)
		thief.Subnets = own.Subnets
		l.store.Put(thief)
		l.after(5 * time.Second)
		again := l.own()
		if again.Subnets == own.Subnets {
			t.Fatalf("two nodes have %s", own.Key())
		}
		l.wantWay("tunnel")
		l.notice(again.Key(), "vpc-1 198.18.0.1")
		l.wantWay("native")
	})
}
