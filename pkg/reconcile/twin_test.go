package reconcile

import (
	"fmt"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// noGap fails the test if a step leaves a destination that has a route
// without one, except those of the peers from first to last.
func (l *lab) noGap(first, last int) {
	gone := make(map[netip.Prefix]bool)
	for n := first; n <= last; n++ {
		gone[subnet(n)] = true
	}
	routes := make(map[netip.Prefix]int)
	count := func(o netstate.Object, n int) {
		if r, ok := o.(netstate.Route); ok {
			routes[r.Dst] += n
		}
	}
	l.f.SetHooks(kerneltest.Hooks{
		BeforeApply: func(netstate.Plan) {
			clear(routes)
			for o := range l.f.Snapshot().All() {
				count(o, 1)
			}
		},
		AfterOp: func(op netstate.Op, err error) {
			r, ok := op.Object.(netstate.Route)
			if !ok || err != nil {
				return
			}
			switch op.Verb {
			case netstate.Create:
				count(r, 1)
			case netstate.Delete:
				count(r, -1)
				if routes[r.Dst] == 0 && !gone[r.Dst] {
					l.Errorf("%s leaves no route", op)
				}
			}
		},
	})
}

// metrics counts the routes of peers first to last on metric 0 and on the
// metrics of a large network.
func (l *lab) metrics(first, last int) (plain, spread int) {
	for n := first; n <= last; n++ {
		if l.f.Has(route(n)) {
			plain++
		}
		if l.f.Has(spreadOf(route(n))) {
			spread++
		}
	}
	return plain, spread
}

func (l *lab) wantMetrics(first, last, plain, spread int) {
	l.Helper()
	if p, s := l.metrics(first, last); p != plain || s != spread {
		l.Errorf("%d routes of metric 0 and %d on many, want %d and %d", p, s, plain, spread)
	}
}

// setOn sets the peers from first to last in one update, with their routes on
// other metrics.
func (l *lab) setOn(metric func(netstate.Route) netstate.Route, first, last int) {
	l.r.Update(func(d *Desired) {
		for n := first; n <= last; n++ {
			d.Set(name(n), []netstate.Object{neigh(n), fdb(n), metric(route(n))})
		}
	})
}

func plain(r netstate.Route) netstate.Route { return r }

// TestOtherMetricsMakeNoGap checks that routes that get other metrics, and the former
// again, leave each destination a route at every moment, also while peers come and
// go.
func TestOtherMetricsMakeNoGap(t *testing.T) {
	running(t, append(host(), route6(1)), func(l *lab) {
		l.setPeers(1, many-1)
		l.synced()
		l.wantMetrics(1, many-1, many-1, 0)
		l.noGap(0, 0)
		l.setOn(spreadOf, 1, many)
		l.synced()
		l.wantMetrics(1, many, 0, many)
		l.has(route6(1))

		l.noGap(few, many)
		l.r.Update(func(d *Desired) {
			for n := few; n <= many; n++ {
				d.Remove(name(n))
			}
			for n := 1; n < few; n++ {
				d.Set(name(n), peer(n))
			}
		})
		l.synced()
		l.wantMetrics(1, many, few-1, 0)
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

// few and many are peers of a small network and of a large one.
const few, many = 500, 1001

// TestOtherMetricsMakeNoGapWhenRefused checks that no refused step, and no plan with
// an unknown outcome, makes a gap while routes get other metrics.
func TestOtherMetricsMakeNoGapWhenRefused(t *testing.T) {
	faults := map[string]func(*lab){
		"creates": func(l *lab) {
			l.f.Fail(500, kerneltest.Both(kerneltest.OfKind(netstate.KindRoute), kerneltest.OfVerb(netstate.Create)), syscall.ENOMEM)
		},
		"deletes": func(l *lab) { l.f.Fail(500, kerneltest.OfVerb(netstate.Delete), syscall.ENOMEM) },
		"abort":   func(l *lab) { l.f.AbortApply(700, syscall.ENOBUFS) },
		"dumps":   func(l *lab) { l.f.FailDumps(3, errTest) },
	}
	for what, fault := range faults {
		for _, grow := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, grows %t", what, grow), func(t *testing.T) {
				running(t, host(), func(l *lab) {
					if grow {
						l.setPeers(1, few)
					} else {
						l.setOn(spreadOf, 1, many)
					}
					l.synced()
					fault(l)
					if grow {
						l.noGap(0, 0)
						l.setOn(spreadOf, 1, many)
					} else {
						l.noGap(few, many)
						l.r.Update(func(d *Desired) {
							for n := few; n <= many; n++ {
								d.Remove(name(n))
							}
							for n := 1; n < few; n++ {
								d.Set(name(n), peer(n))
							}
						})
					}
					l.wait(2 * time.Minute)
					l.synced()
					if grow {
						l.wantMetrics(1, many, 0, many)
					} else {
						l.wantMetrics(1, many, few-1, 0)
					}
				})
			})
		}
	}
}

// TestRestartOnOtherMetrics checks that a daemon that starts in a large network
// adopts an earlier one's routes with other metrics without a gap.
func TestRestartOnOtherMetrics(t *testing.T) {
	metrics := []func(netstate.Route) netstate.Route{plain, spreadOf}
	for _, was := range metrics {
		for i, is := range metrics {
			objects := append([]netstate.Object{eth0}, host()...)
			for n := 1; n <= many; n++ {
				objects = append(objects, neigh(n), fdb(n), was(route(n)))
			}
			run(t, kerneltest.NewFake(objects...), func(l *lab) {
				l.noGap(0, 0)
				l.set("host", host()...)
				l.setOn(is, 1, many)
				l.complete()
				l.synced()
				l.wantMetrics(1, many, (1-i)*many, i*many)
				l.healed(0, 0, 0, 0, 0, 0)
			})
		}
	}
}

// TestPredecessorKnownBeforePeers checks that a predecessor's routes go also if the loop
// has read the kernel before it knew any peer.
func TestPredecessorKnownBeforePeers(t *testing.T) {
	objects := []netstate.Object{eth0}
	for n := 1; n <= many; n++ {
		objects = append(objects, foreign(direct(n), netstate.ProtocolBoot))
	}
	run(t, kerneltest.NewFake(objects...), func(l *lab) {
		l.noGap(0, 0)
		l.set("host", forward)
		l.wait(time.Second)
		for n := 1; n <= many; n++ {
			l.set(name(n), spreadOf(direct(n)))
		}
		l.complete()
		l.synced()
		for n := 1; n <= many; n++ {
			l.has(spreadOf(direct(n)))
			l.hasNot(foreign(direct(n), netstate.ProtocolBoot))
		}
	})
}

// TestRoutesOfOthersCostNoDump checks that the route to the internet, which is never a
// predecessor's, does not have the kernel read again.
func TestRoutesOfOthersCostNoDump(t *testing.T) {
	internet := direct(1)
	internet.Dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	run(t, kerneltest.NewFake(eth0, foreign(internet, netstate.ProtocolBoot)), func(l *lab) {
		l.set("host", forward)
		l.wait(time.Second)
		l.set(name(2), spreadOf(direct(2)))
		l.complete()
		l.synced()
		l.cost(1, 2, 2)
	})
}
