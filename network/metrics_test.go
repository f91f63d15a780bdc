package network

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

// TestLargeNetworksSpreadMetrics checks that a network with more than 1,000 peers
// spreads its routes over many metrics, until it has fewer than 500. No destination is
// ever without a route.
func TestLargeNetworksSpreadMetrics(t *testing.T) {
	const network = `"Network": "10.0.0.0/8"`
	bubbletest.Test(t, func(t *testing.T) {
		k := onEth0()
		onNetwork(t, k, config(network, `{"Type": "vxlan"}`), func(p *peerSet) {
			check := func(want int, large bool) {
				t.Helper()
				settled()
				plain, spread := routes(k)
				if large && (plain != 0 || spread != want) || !large && (plain != want || spread != 0) {
					t.Errorf("%d routes of metric 0 and %d on many, want %d", plain, spread, want)
				}
			}
			p.Update(subnet.Update{Complete: true, Leases: fakePeers(t, 1, spreadAbove)})
			check(spreadAbove, false)
			gapless(t, k, nil)
			p.Update(subnet.Update{Leases: fakePeers(t, spreadAbove+1, spreadAbove+1)})
			check(spreadAbove+1, true)

			gone := make(map[netip.Prefix]bool)
			drop := func(first, last int) {
				var u subnet.Update
				for _, l := range fakePeers(t, first, last) {
					u.Gone = append(u.Gone, l.Key())
					gone[l.Subnets[subnet.IPv4]] = true
				}
				gapless(t, k, gone)
				p.Update(u)
				for p.DropLingering() {
				}
			}
			drop(plainBelow+1, spreadAbove+1)
			check(plainBelow, true)
			drop(plainBelow, plainBelow)
			check(plainBelow-1, false)
			p.Update(subnet.Update{Leases: fakePeers(t, plainBelow, plainBelow)})
			check(plainBelow, false)
		})
	})
}

// TestFirstListSpreadsMetricsAtOnce checks that a first list in portions counts as a
// whole from its first portion.
func TestFirstListSpreadsMetricsAtOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k := onEth0()
		k.SetHooks(kerneltest.Hooks{AfterOp: func(op netstate.Op, err error) {
			if r, ok := op.Object.(netstate.Route); ok && r.Metric == 0 {
				t.Errorf("%s", op)
			}
		}})
		onNetwork(t, k, config(`"Network": "10.0.0.0/8"`, `{"Type": "vxlan"}`), func(p *peerSet) {
			const peers = spreadAbove + portion
			p.Update(subnet.Update{Complete: true, Leases: fakePeers(t, 1, peers)})
			settled()
			if plain, spread := routes(k); plain != 0 || spread != peers {
				t.Errorf("%d routes of metric 0 and %d on many", plain, spread)
			}
		})
	})
}

// fakePeers returns the leases of the nodes from first to last.
func fakePeers(t *testing.T, first, last int) (leases []subnet.Lease) {
	for n := first; n <= last; n++ {
		a, b := n/256, n%256
		leases = append(leases, fakePeer(t, fmt.Sprintf("10.%d.%d.0-24", 100+a, b), fmt.Sprintf("198.19.%d.%d", a, b),
			fmt.Sprintf("3a:00:00:00:%02x:%02x", a, b), int64(n+1)))
	}
	return leases
}

// routes counts the routes to peers with metric 0 and with the metrics of a large
// network.
func routes(k *kerneltest.Fake) (plain, spread int) {
	for o := range k.Snapshot().All() {
		switch r, _ := o.(netstate.Route); {
		case !r.Dst.IsValid() || r.Drop:
		case r.Metric == 0:
			plain++
		case r.Metric == netstate.SpreadMetric(r.Dst):
			spread++
		}
	}
	return plain, spread
}

// gapless fails the test if a route is deleted while its destination has no other
// one, except for destinations in gone.
func gapless(t *testing.T, k *kerneltest.Fake, gone map[netip.Prefix]bool) {
	k.SetHooks(kerneltest.Hooks{AfterOp: func(op netstate.Op, err error) {
		r, ok := op.Object.(netstate.Route)
		if !ok || op.Verb != netstate.Delete || err != nil || gone[r.Dst] {
			return
		}
		other := r
		if other.Metric = 0; r.Metric == 0 {
			other.Metric = netstate.SpreadMetric(r.Dst)
		}
		if !k.Has(other) {
			t.Errorf("%s leaves no route", op)
		}
	}})
}
