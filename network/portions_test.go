package network

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
	"github.com/tulle-net/tulle/subnet"
)

const manyConfig = `{"Network": "10.0.0.0/8", "Backend": {"Type": "vxlan"}}`

// withPeers puts the leases of n other nodes into the store.
func (l *life) withPeers(n int) { l.withPeersFrom(1, n) }

// withPeersFrom puts the leases of the nodes from first to last into the store.
func (l *life) withPeersFrom(first, last int) {
	for _, p := range fakePeers(l.t, first, last) {
		l.store.Put(p)
	}
}

// TestPortionsWaitForASlowKernel makes each plan take longer than usual, as on an
// overloaded host. The next portion still waits for it, so that no plan becomes large.
func TestPortionsWaitForASlowKernel(t *testing.T) {
	const count = 12
	for _, c := range []struct {
		name    string
		plan    time.Duration // what each takes
		largest int           // in portions; 0 is any size
		wait    time.Duration // at most
	}{
		{"fast", time.Millisecond, 1, count * time.Millisecond},
		{"slow", 200 * time.Millisecond, 1, count * 200 * time.Millisecond},
		{"very slow", portionTime - 1, 1, count * portionTime},
		{"stuck", time.Hour, 0, portionTime},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				k := onEth0()
				onNetwork(t, k, manyConfig, func(p *peerSet) {
					settled()
					largest := 0
					k.SetHooks(kerneltest.Hooks{BeforeApply: func(plan netstate.Plan) {
						largest = max(largest, len(plan))
						<-time.After(c.plan)
					}})
					begin := time.Now()
					p.Update(subnet.Update{Complete: true, Leases: fakePeers(t, 1, count*portion)})
					if took := time.Since(begin); took > c.wait {
						t.Errorf("the list waits for %v, want %v at most", took, c.wait)
					}
					<-time.After(3 * time.Hour)
					synctest.Wait()
					if most := c.largest * portion * 3; most > 0 && largest > most {
						t.Errorf("a plan has %d steps, want %d at most", largest, most)
					}
					if s := p.desired.Status(); !s.InSync {
						t.Errorf("%+v", s)
					}
				})
			})
		})
	}
}

// slowly starts an agent whose first list waits for the kernel: it has written the first
// portion for a second, and needs minutes, or until finish is called.
func slowly(t *testing.T, peers int, do func(l *life, finish func())) {
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, manyConfig)
		l.withPeers(peers)
		var fast atomic.Bool
		l.host.SetHooks(kerneltest.Hooks{BeforeApply: func(plan netstate.Plan) {
			if len(plan) > portion && !fast.Load() {
				<-time.After(portionTime / 2)
			}
		}})
		l.start()
		l.soon()
		if got := l.view().Peers.Count; got == 0 || got > 3*portion || got >= peers {
			t.Fatalf("after a second, %d of %d peers are known", got, peers)
		}
		do(l, func() {
			fast.Store(true)
			l.after(time.Minute)
		})
	})
}

// wantAll checks that the kernel has the routes of a large network, and that the node is
// ready.
func (l *life) wantAll(peers int) {
	l.t.Helper()
	if plain, spread := routes(l.host.Fake); plain != 0 || spread != peers {
		l.t.Errorf("%d routes of metric 0 and %d on many, want %d", plain, spread, peers)
	}
	if v := l.view(); v.Peers.Count != peers {
		l.t.Errorf("%d peers, want %d", v.Peers.Count, peers)
	}
	l.wantReady(true)
}

// TestAgentAnswersDuringASlowFirstList checks that, while the kernel is slow, the agent
// answers at once, and is not ready.
func TestAgentAnswersDuringASlowFirstList(t *testing.T) {
	const peers = 12 * portion
	slowly(t, peers, func(l *life, finish func()) {
		for range 40 {
			begin := time.Now()
			v := l.view()
			if took := time.Since(begin); v.Stuck != nil || took > 0 {
				l.t.Errorf("an answer takes %v: %v", took, v.Stuck)
			}
			l.soon()
		}
		l.wantReady(false, "reading the leases from the store")
		finish()
		l.wantAll(peers)
	})
}

// TestStopDuringASlowFirstList checks that the agent ends at once although the list is
// not applied.
func TestStopDuringASlowFirstList(t *testing.T) {
	for _, stuck := range []bool{false, true} {
		t.Run(fmt.Sprintf("stuck %t", stuck), func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				l := newLife(t, manyConfig)
				l.withPeers(12 * portion)
				l.host.SetHooks(kerneltest.Hooks{BeforeApply: func(plan netstate.Plan) {
					if len(plan) > portion {
						l.host.BlockApply() // until the agent ends
					}
				}})
				l.start()
				l.soon()
				if stuck {
					l.after(portionTime)
				}
				if all := l.view().Peers.Count == 12*portion; all != stuck {
					t.Errorf("all peers are known: %t", all)
				}
				begin := time.Now()
				l.stop()
				if took := time.Since(begin); took > 0 {
					t.Errorf("the end takes %v", took)
				}
			})
		})
	}
}

// TestHostChangesDuringASlowFirstList checks that the peers of all portions, past and
// future, get the objects for the new host. Meanwhile there are few peers, but no route
// is written as in a small network.
func TestHostChangesDuringASlowFirstList(t *testing.T) {
	const peers = 12 * portion
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, manyConfig)
		l.withPeers(peers)
		l.host.SetHooks(kerneltest.Hooks{AfterOp: func(op netstate.Op, err error) {
			if r, ok := op.Object.(netstate.Route); ok && r.Metric == 0 {
				t.Errorf("%s", op)
			}
		}})
		release := l.host.BlockDump()
		l.start()
		l.soon()
		if n := l.view().Peers.Count; n != portion {
			t.Errorf("%d peers before the change", n)
		}
		l.host.change(func(s *netstate.Survey) { s.Links[0].MTU = 1400 })
		l.soon()
		release()
		l.after(time.Minute)
		l.wantAll(peers)
		if mtu := l.host.device().MTU; mtu != 1350 {
			t.Errorf("the device has the MTU %d", mtu)
		}
	})
}

// TestConfigChangesDuringASlowFirstList changes the config so that it accepts leases
// that were only counted before. The list is read again, and the rest of the first one
// is dropped.
func TestConfigChangesDuringASlowFirstList(t *testing.T) {
	const peers, wider = 12 * portion, 28 * 256 // from there on they are outside 10.0.0.0/9
	bubbletest.Test(t, func(t *testing.T) {
		l := newLife(t, `{"Network": "10.0.0.0/9", "Backend": {"Type": "vxlan"}}`)
		l.withPeers(peers)
		l.withPeersFrom(wider, wider+peers-1)
		l.host.SetHooks(kerneltest.Hooks{BeforeApply: func(plan netstate.Plan) {
			if len(plan) > portion {
				<-time.After(portionTime / 2)
			}
		}})
		l.start()
		l.soon()
		before := l.view().Peers.Count
		l.store.SetConfig(manyConfig)
		l.soon()
		after := l.view().Peers.Count
		l.after(3 * time.Minute)
		if before == 0 || before >= peers || after != 2*peers {
			t.Errorf("%d peers before the change, %d after it", before, after)
		}
		l.wantAll(2 * peers)
	})
}

// TestAbandonedListIsNotWaitedFor checks that the loop keeps stale objects while more
// peers are about to come, and works normally again when they do not come.
func TestAbandonedListIsNotWaitedFor(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		k := onEth0()
		onNetwork(t, k, manyConfig, func(p *peerSet) {
			p.Update(subnet.Update{Complete: true, Leases: fakePeers(t, 1, 3*portion)})
		})
		all := k.Snapshot()
		onNetwork(t, k, manyConfig, func(p *peerSet) {
			settled()
			left := p.split(subnet.Update{Complete: true, Leases: fakePeers(t, 1, 4*portion)})
			p.applyNext(left)
			p.giveUp()
			settled()
			k.Delete(netstate.Route{Dst: fakePeers(t, 1, 1)[0].Subnets[subnet.IPv4], Metric: 0}.Key())
			settled()
			if after := k.Snapshot(); !after.Equal(all) {
				t.Errorf("the kernel has\n%s", firstLines(after.String()))
			}
			p.Update(subnet.Update{Complete: true, Leases: fakePeers(t, 1, 4*portion)})
			settled()
			if s := p.desired.Status(); !s.InSync || p.Len() != 4*portion {
				t.Errorf("%d peers, %+v", p.Len(), s)
			}
		})
	})
}

// firstLines returns the beginning of a long text.
func firstLines(text string) string {
	lines := strings.SplitAfterN(text, "\n", 20)
	return strings.Join(lines[:min(len(lines), 19)], "")
}
