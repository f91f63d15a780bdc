package network

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// TestProbesOfPeersAreAnswered probes a node from a peer's address: before the node
// knows the peer, while it does, and after the peer has gone.
func TestProbesOfPeersAreAnswered(t *testing.T) {
	ns := kerneltest.NewNS(t, "answers")
	here, peer := netip.MustParseAddr("10.5.1.0"), netip.MustParseAddr("10.5.2.0")
	for _, ip := range []netip.Addr{here, peer} {
		ns.IP(t, "addr add "+ip.String()+"/32 dev lo")
	}
	cfg := parseConfig(t, config(v4, `{"Type": "vxlan"}`))
	b := fakeBackend(t, cfg, 1500)
	own := subnet.Lease{Attrs: b.Publish(), Created: 1}
	own.Subnets[subnet.IPv4] = netip.PrefixFrom(here, 24)
	own.Node.Instance = "0123456789abcdef"
	peers := newPeerSet(cfg, own, only(b), reconcile.New(onEth0(), time.Hour, budget.New().Kernel()))
	r := &probe.Responder{Port: 8479}
	defer r.Close()
	peers.responder = r
	answered := func(want bool) {
		t.Helper()
		within := 5 * time.Second
		if !want {
			within = 50 * time.Millisecond
		}
		none := errors.New("no answer")
		ns.Do(t, func() error {
			for _, tag := range []probe.Tag{{}, probe.NewTag(own.Node.Instance)} {
				ctx, cancel := context.WithTimeoutCause(context.Background(), within, none)
				_, err := probe.SystemEchoer{Port: r.Port}.Echo(ctx, probe.Try{From: peer, To: here, Size: 80, Tag: tag})
				cancel()
				if (err == nil) != want || err != nil && !errors.Is(err, none) {
					t.Errorf("answered: %v, want %t", err, want)
				}
			}
			return nil
		})
	}
	ns.Do(t, func() error {
		r.Set([]netip.Addr{here}, probe.NewTag(own.Node.Instance))
		return nil
	})
	lease := fakePeer(t, "10.5.2.0-24", "198.18.0.2", "3a:00:00:00:00:02", 2)
	answered(false)
	peers.Update(subnet.Update{Complete: true, Leases: []subnet.Lease{lease}})
	answered(true)
	peers.Update(subnet.Update{Gone: []string{lease.Key()}})
	answered(true) // it lingers
	for peers.DropLingering() {
	}
	answered(false)
}
