package reconcile

import (
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// supplant puts a foreign route where ours to the first peer is.
func supplant(l *lab) netstate.Route {
	theirs := foreign(direct(1), 4)
	if err := l.f.Put(theirs); err != nil {
		l.Error(err)
	}
	return theirs
}

// TestSupplantedRouteComesBack checks that a foreign route that takes the place of
// ours loses it at once, however it came there, and counts as drift.
func TestSupplantedRouteComesBack(t *testing.T) {
	for what, supplant := range map[string]func(*lab){
		"replaced":              func(l *lab) { supplant(l) },
		"replaced by flannel's": func(l *lab) { l.f.Put(foreign(direct(1), netstate.ProtocolBoot)) },
		"replaced by a drop": func(l *lab) {
			l.f.Put(netstate.Route{Dst: route(1).Dst, Drop: true, Protocol: 4})
		},
		"deleted, another added": func(l *lab) {
			l.f.Delete(route(1).Key())
			supplant(l)
		},
		"unheard of": func(l *lab) {
			l.f.LoseEvents(1)
			supplant(l)
			l.r.Resync()
		},
		"deleted with its link": func(l *lab) {
			l.f.LinkDown("tulle.1")
			supplant(l)
		},
		"while the step is taken": func(l *lab) {
			l.f.SetHooks(kerneltest.Hooks{BeforeApply: func(netstate.Plan) {
				l.f.SetHooks(kerneltest.Hooks{})
				supplant(l)
			}})
			l.f.Delete(route(1).Key())
		},
	} {
		t.Run(what, func(t *testing.T) {
			running(t, host(), func(l *lab) {
				l.setPeers(1, 2)
				l.quiet()
				supplant(l)
				l.wait(prompt)
				l.synced()
				if s := l.r.Status(); s.Healed[netstate.KindRoute] == 0 {
					l.Error("no drift counted")
				}
				l.wait(time.Second)
				for _, line := range log.Take() {
					if !strings.HasPrefix(line, `"Restored what others had changed"`) {
						l.Errorf("logged %q", line)
					}
				}
			})
		})
	}
}

// TestRouteOfBeforeIsLeftAlone checks that a foreign route that was there before ours
// stays.
func TestRouteOfBeforeIsLeftAlone(t *testing.T) {
	waits := func(l *lab, theirs netstate.Route) {
		l.Helper()
		l.wait(5 * time.Minute)
		l.has(theirs)
		l.failsOnly(`route 10.0.1.0/24 of "peer-1": file exists`)
		l.f.Put(foreign(direct(1), 5)) // one foreign route replaces another
		l.wait(5 * time.Minute)
		l.has(foreign(direct(1), 5))
		l.f.Delete(theirs.Key())
		l.wait(2 * settle)
		l.synced()
	}
	t.Run("replaced while no loop ran", func(t *testing.T) {
		theirs := foreign(direct(1), 4)
		run(t, kerneltest.NewFake(append(append(host(), eth0, theirs), peer(2)...)...), func(l *lab) {
			l.set("host", host()...)
			l.setPeers(1, 2)
			l.complete()
			waits(l, theirs)
		})
	})
	t.Run("put there while the peer was away", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 2)
			l.synced()
			l.remove(name(1))
			l.synced()
			theirs := supplant(l)
			l.set(name(1), peer(1)...)
			waits(l, theirs)
		})
	})
}
