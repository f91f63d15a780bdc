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

// noGap has the test fail if a step leaves a destination that has a route
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
	if on := l.r.Status().SpreadRoutes; on != (spread > 0) {
		l.Errorf("status says spread %t", on)
	}
}

// A network that grows past a bound and shrinks past the other has its routes
// on other metrics then, and each destination a route at every moment.
func TestCrossing(t *testing.T) {
	running(t, append(host(), route6(1)), func(l *lab) {
		l.setPeers(1, spreadAbove)
		l.synced()
		l.wantMetrics(1, spreadAbove, spreadAbove, 0)
		l.noGap(0, 0)
		l.setPeers(spreadAbove+1, spreadAbove+1)
		l.synced()
		l.wantMetrics(1, spreadAbove+1, 0, spreadAbove+1)
		l.has(route6(1))

		l.f.SetHooks(kerneltest.Hooks{})
		l.r.Update(func(d *Desired) {
			for n := plainBelow + 1; n <= spreadAbove+1; n++ {
				d.Remove(name(n))
			}
		})
		l.synced()
		l.wantMetrics(1, spreadAbove+1, 0, plainBelow)
		l.noGap(plainBelow, plainBelow)
		l.remove(name(plainBelow))
		l.synced()
		l.wantMetrics(1, spreadAbove, plainBelow-1, 0)
		l.setPeers(plainBelow, plainBelow)
		l.synced()
		l.wantMetrics(1, spreadAbove, plainBelow, 0)
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

// No step that the kernel refuses, and no plan of which nobody knows what was
// done, makes a gap of a crossing.
func TestCrossingRefused(t *testing.T) {
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
					l.setPeers(1, plainBelow)
					if !grow {
						l.setPeers(1, spreadAbove+1)
					}
					l.synced()
					remove := func() {
						l.r.Update(func(d *Desired) {
							for n := plainBelow; n <= spreadAbove+1; n++ {
								d.Remove(name(n))
							}
						})
					}
					fault(l)
					if grow {
						l.noGap(0, 0)
						l.setPeers(plainBelow+1, spreadAbove+1)
					} else {
						l.noGap(plainBelow, spreadAbove+1)
						remove()
					}
					l.wait(2 * time.Minute)
					l.synced()
					if grow {
						l.wantMetrics(1, spreadAbove+1, 0, spreadAbove+1)
					} else {
						l.wantMetrics(1, spreadAbove+1, plainBelow-1, 0)
					}
				})
			})
		}
	}
}

// A daemon that starts in a large network takes what an earlier one left there
// on other metrics over without a gap.
func TestRestartOnOtherMetrics(t *testing.T) {
	for _, was := range []func(netstate.Route) netstate.Route{
		func(r netstate.Route) netstate.Route { return r },
		spreadOf,
	} {
		for _, many := range []int{plainBelow, spreadAbove + 1} {
			objects := append([]netstate.Object{eth0}, host()...)
			for n := 1; n <= many; n++ {
				objects = append(objects, neigh(n), fdb(n), was(route(n)))
			}
			run(t, kerneltest.NewFake(objects...), func(l *lab) {
				l.noGap(0, 0)
				l.set("host", host()...)
				l.setPeers(1, many)
				l.complete()
				l.synced()
				if many > spreadAbove {
					l.wantMetrics(1, many, 0, many)
				} else {
					l.wantMetrics(1, many, many, 0)
				}
				l.healed(0, 0, 0, 0, 0, 0)
			})
		}
	}
}
