package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestRestartDeletesOnlyTheStale restarts a daemon. It restores differences without a
// gap, and removes exactly what is stale once it knows all peers.
func TestRestartDeletesOnlyTheStale(t *testing.T) {
	staleLink := netstate.Link{Name: "tulle.9", Kind: "vxlan", Up: true, VXLAN: netstate.VXLAN{VNI: 9, Port: 8472}}
	stale := append(peer(8), route6(8), direct(9), netstate.Addr{Link: "tulle.1", Prefix: pfx("10.9.0.0/32")},
		staleLink, netstate.Neigh{Link: "tulle.9", IP: subnet(9).Addr(), MAC: hw(9)})
	strangers := []netstate.Object{
		eth0, netstate.Addr{Link: "eth0", Prefix: pfx("192.0.2.1/24")}, netstate.Neigh{Link: "eth0", IP: ip("192.0.2.2"), MAC: hw(1)},
		foreign(direct(7), 4), foreign(direct(6), netstate.ProtocolBoot), netstate.Sysctl{Path: "net/ipv4/ip_nonlocal_bind", Value: "1"},
	}
	changed := fdb(2)
	changed.Dst = ip("198.51.100.9")
	f := kerneltest.NewFake(append(append(append(append(host(), peer(1)...), neigh(2), changed, route(2)), stale...), strangers...)...)
	run(t, f, func(l *lab) {
		ops := l.ops()
		l.r.Update(func(d *Desired) { // at once: what comes after the first look is done without one
			d.Set("host", host())
			for n := 1; n <= 3; n++ {
				d.Set(name(n), peer(n))
			}
		})
		l.wait(time.Minute)
		l.has(stale...)
		l.has(peer(1)...)
		l.has(peer(2)...)
		l.has(peer(3)...)
		got := ops()
		for _, s := range []string{"net/ipv4/conf/all/forwarding", "net/ipv4/conf/tulle.1/rp_filter"} {
			// A look at the kernel that began before they were wanted has not read them.
			got = strings.ReplaceAll(got, "create sysctl "+s+", ", "")
		}
		if want := "create neigh 10.0.3.0 dev tulle.1, replace fdb 3a:00:00:00:00:02 dev tulle.1, create fdb 3a:00:00:00:00:03 dev tulle.1, create route 10.0.3.0/24"; got != want {
			l.Errorf("before the list is complete: %s", got)
		}
		l.remove(name(3)) // even so
		l.wait(time.Minute)
		l.has(peer(3)...)
		if s := l.r.Status(); s.InSync || s.Complete {
			l.Errorf("in sync, but not complete: %+v", s)
		}

		l.complete()
		l.synced()
		l.hasNot(stale...)
		l.hasNot(peer(3)...)
		l.has(strangers...)
		l.healed(0, 0, 0, 0, 0, 0)
		if got := l.r.Status(); got.Objects != len(host())+6 || !got.Complete || got.Resyncs < 2 {
			l.Errorf("status %+v", got)
		}
	})
}

// TestRestartInPortionsWritesOnlyWhatDiffers checks that a restart in a network that
// comes in portions writes nothing that exists already: one resync when all peers are
// known finds what is missing.
func TestRestartInPortionsWritesOnlyWhatDiffers(t *testing.T) {
	f := kerneltest.NewFake(append(host(), eth0)...)
	for n := 1; n <= 5; n++ {
		for _, o := range peer(n) {
			if err := f.Put(o); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(t, f, func(l *lab) {
		l.set("host", host()...)
		l.wait(time.Second)
		l.cost(1, 0, 0)
		for n := 2; n <= 6; n += 2 {
			l.r.Update(func(d *Desired) {
				d.Set(name(n), peer(n))
				d.Set(name(n+1), peer(n+1))
				d.Expect(6 - n)
				if n == 6 {
					d.Complete()
				}
			})
			if n < 6 {
				l.wait(time.Second)
				l.cost(0, 0, 0)
			}
		}
		l.synced()
		l.cost(1, 1, 9) // the first goes, the last two come
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

// TestWaitTakenEndsWhenTheLoopHasTheWork checks that WaitTaken returns when the loop
// takes the updates, or when a resync will see them all.
func TestWaitTakenEndsWhenTheLoopHasTheWork(t *testing.T) {
	running(t, host(), func(l *lab) {
		release := l.f.BlockApply()
		l.setPeers(1, 1)
		synctest.Wait()
		if err := l.r.WaitTaken(l.ctx); err != nil {
			l.Errorf("the first is at work: %v", err)
		}
		l.setPeers(2, 2)
		ctx, cancel := context.WithTimeout(l.ctx, time.Minute)
		defer cancel()
		if err := l.r.WaitTaken(ctx); !errors.Is(err, context.DeadlineExceeded) {
			l.Errorf("the second waits for the first: %v", err)
		}
		release()
		if err := l.r.WaitTaken(l.ctx); err != nil {
			l.Error(err)
		}
	})
}

// TestWaitTakenDoesNotWaitForABrokenDump checks that WaitTaken returns while the first
// resync cannot read the kernel: nothing is taken before it, and its retries take long.
func TestWaitTakenDoesNotWaitForABrokenDump(t *testing.T) {
	f := kerneltest.NewFake(eth0)
	f.FailDumps(1000, errTest)
	run(t, f, func(l *lab) {
		l.set("host", host()...)
		l.setPeers(3, 3)
		l.wait(time.Hour)
		ctx, cancel := context.WithTimeout(l.ctx, time.Millisecond)
		defer cancel()
		if err := l.r.WaitTaken(ctx); err != nil {
			l.Error(err)
		}
		f.FailDumps(0, nil)
		l.wait(time.Hour)
		release := f.BlockApply()
		l.setPeers(1, 1)
		synctest.Wait()
		l.setPeers(2, 2)
		f.FailDumps(1000, errTest)
		l.r.Resync()
		ctx, cancel = context.WithTimeout(l.ctx, time.Minute)
		defer cancel()
		if err := l.r.WaitTaken(ctx); !errors.Is(err, context.DeadlineExceeded) {
			l.Errorf("a later update waits for the one at work: %v", err)
		}
		release()
	})
}

// TestFirstResyncWaitsForTheWatch checks that the first resync waits for the watch,
// but not forever.
func TestFirstResyncWaitsForTheWatch(t *testing.T) {
	t.Run("after the watch", func(t *testing.T) {
		f := kerneltest.NewFake(eth0)
		held := f.HoldEvents()
		run(t, f, func(l *lab) {
			l.set("host", host()...)
			l.complete()
			l.wait(watchGrace / 2)
			l.cost(0, 0, 0)
			held()
			synctest.Wait()
			l.synced()
		})
	})
	t.Run("without", func(t *testing.T) {
		f := kerneltest.NewFake(eth0)
		f.FailWatch(1000, errTest)
		run(t, f, func(l *lab) {
			l.set("host", host()...)
			l.complete()
			l.wait(watchGrace - 1)
			l.cost(0, 0, 0)
			l.wait(1)
			l.synced()
			if s := l.r.Status(); !errors.Is(s.WatchError, errTest) {
				l.Errorf("watch error %v", s.WatchError)
			}
		})
	})
	t.Run("nothing wanted", func(t *testing.T) {
		run(t, kerneltest.NewFake(eth0), func(l *lab) {
			l.complete()
			l.synced()
			l.cost(1, 0, 0)
		})
	})
}

func TestOnePeerMoreCostsItsOwnStepsOnly(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.setPeers(1, 10_000)
		l.synced()
		l.quiet()

		l.setPeers(20_000, 20_000)
		l.cost(0, 1, 3)
		l.has(neigh(20_000), fdb(20_000), route(20_000))

		moved := fdb(20_000)
		moved.Dst = ip("198.51.100.1")
		l.set(name(20_000), neigh(20_000), moved, route(20_000))
		l.cost(0, 1, 1)
		l.has(moved)

		l.set(name(20_000), neigh(20_000), moved, route(20_000)) // the same again
		l.cost(0, 0, 0)

		l.remove(name(20_000))
		l.cost(0, 1, 3)
		l.hasNot(neigh(20_000), moved, route(20_000))
		l.wait(time.Minute)
		l.cost(0, 0, 0)
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

// TestPeerThatComesBackHasNoGap checks that a peer that leaves and returns, at once
// or during its removal, neither blocks itself nor causes a gap.
func TestPeerThatComesBackHasNoGap(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.setPeers(1, 3)
		l.quiet()
		ops := l.ops()
		l.r.Update(func(d *Desired) {
			d.Remove(name(1))
			d.Set(name(1), peer(1))
		})
		if got, want := ops(), "replace neigh 10.0.1.0 dev tulle.1, replace fdb 3a:00:00:00:00:01 dev tulle.1, replace route 10.0.1.0/24"; got != want {
			l.Errorf("did %s", got)
		}
		// Another peer may now have what one held.
		other := direct(2)
		l.r.Update(func(d *Desired) {
			d.Remove(name(2))
			d.Set(name(9), []netstate.Object{other})
		})
		if got, want := ops(), "replace route 10.0.2.0/24, delete fdb 3a:00:00:00:00:02 dev tulle.1, delete neigh 10.0.2.0 dev tulle.1"; got != want {
			l.Errorf("did %s", got)
		}
		l.has(other)

		release := l.f.BlockApply()
		l.remove(name(3))
		synctest.Wait()
		l.setPeers(3, 3)
		release()
		l.synced()
		l.cost(0, 4, 12)
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

func TestUpdatesDuringASlowApply(t *testing.T) {
	running(t, host(), func(l *lab) {
		release := l.f.BlockApply()
		l.setPeers(1, 1)
		l.wait(time.Second)
		if s := l.r.Status(); s.InSync || s.Pending != 3 {
			l.Errorf("in sync while at work: %+v", s)
		}
		changed := neigh(1)
		changed.MAC = hw(9)
		l.set(name(1), changed, fdb(1)) // a change, and a removal of what is being made
		l.setPeers(2, 2)
		l.f.Delete(addr.Key())
		l.wait(time.Second)
		l.hasNot(neigh(2))
		if s := l.r.Status(); s.InSync || s.Pending < 6 {
			l.Errorf("pending %d", s.Pending)
		}
		release()
		l.synced()
		l.has(changed, fdb(1), addr)
		l.has(peer(2)...)
		l.hasNot(route(1))
	})
}

// TestUpdateDuringDumpIsPlannedOnce checks that a change of the desired state during
// a dump is in the next plan, once, and counts as no drift.
func TestUpdateDuringDumpIsPlannedOnce(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.setPeers(1, 5)
		l.quiet()
		for _, moment := range []string{"before", "after"} {
			did := false
			act := func() {
				if did {
					return
				}
				did = true
				l.setPeers(6, 6)
				l.remove(name(1))
				l.set(name(2), neigh(2), fdb(2), direct(2))
				l.set(name(3))
				l.setPeers(3, 3) // as before
			}
			h := kerneltest.Hooks{BeforeDump: act}
			if moment == "after" {
				h = kerneltest.Hooks{AfterDump: act}
			}
			l.f.SetHooks(h)
			l.wait(2 * interval)
			l.synced()
			if !did {
				l.Fatal("no dump")
			}
			if c := l.f.Counts(); c.Applies != 1 || c.Steps() != 7 {
				l.Errorf("%s the dump: %d applies, %d steps", moment, c.Applies, c.Steps())
			}
			l.f.SetHooks(kerneltest.Hooks{})
			l.setPeers(1, 5)
			l.remove(name(6))
			l.quiet()
		}
		l.healed(0, 0, 0, 0, 0, 0)
		if lines := log.Take(); len(lines) > 0 {
			l.Errorf("logged %q", lines)
		}
	})
}

func TestRunEndsAtOnce(t *testing.T) {
	t.Run("idle", func(t *testing.T) {
		running(t, host(), func(l *lab) { l.stop() })
	})
	t.Run("before it began", func(t *testing.T) {
		run(t, kerneltest.NewFake(), func(l *lab) { l.stop() })
	})
	t.Run("in a dump", func(t *testing.T) {
		run(t, kerneltest.NewFake(eth0), func(l *lab) {
			l.f.BlockDump()
			l.set("host", host()...)
			l.wait(time.Second)
			l.stop()
		})
	})
	t.Run("in an apply", func(t *testing.T) {
		run(t, kerneltest.NewFake(eth0), func(l *lab) {
			l.f.BlockApply()
			l.set("host", host()...)
			l.wait(time.Second)
			l.stop()
			if s := l.r.Status(); len(s.Failing) > 0 {
				l.Errorf("an end is no failure: %+v", s.Failing)
			}
		})
	})
	t.Run("between two watches", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.f.FailWatch(1, errTest)
			synctest.Wait()
			l.stop()
		})
	})
	t.Run("waiting", func(t *testing.T) {
		run(t, kerneltest.NewFake(eth0), func(l *lab) {
			ctx, cancel := context.WithTimeout(l.ctx, time.Second)
			defer cancel()
			if err := l.r.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) {
				l.Errorf("got %v", err)
			}
		})
	})
}

// TestWaitSyncedWakesAll checks that WaitSynced returns to all waiters as soon as the
// kernel is in sync, and never before.
func TestWaitSyncedWakesAll(t *testing.T) {
	f := kerneltest.NewFake(append([]netstate.Object{eth0}, peer(8)...)...)
	run(t, f, func(l *lab) {
		const waiters = 5
		returned := make(chan bool, waiters)
		wait := func() {
			for range waiters {
				go func() { returned <- l.r.WaitSynced(l.ctx) == nil }()
			}
		}
		early := func(moment string) func() {
			return func() {
				synctest.Wait()
				if len(returned) > 0 {
					l.Errorf("returned %s", moment)
				}
			}
		}
		watched := kerneltest.Hooks{
			BeforeDump: early("before the dump"), AfterDump: early("after the dump"),
			BeforeApply: func(netstate.Plan) { early("before the apply")() },
			AfterOp:     func(netstate.Op, error) { early("in the apply")() },
			AfterApply:  func(netstate.Plan, error) { early("before it is booked")() },
		}
		all := func(what string) {
			l.Helper()
			for range waiters {
				select {
				case ok := <-returned:
					if !ok {
						l.Error("WaitSynced gave up")
					}
				case <-time.After(time.Minute):
					l.Fatalf("did not return after %s", what)
				}
			}
			l.synced()
			l.f.SetHooks(kerneltest.Hooks{})
		}

		l.f.SetHooks(watched)
		wait()
		l.set("host", host()...)
		l.wait(time.Second)
		early("before the list was complete")()
		l.complete()
		all("the start")
		l.quiet()

		l.f.SetHooks(watched)
		l.r.Update(func(d *Desired) { d.Set(name(1), peer(1)) })
		wait()
		all("an update")

		l.f.SetHooks(watched)
		l.f.DeleteLink("tulle.1")
		synctest.Wait() // the event has arrived
		wait()
		all("a link was deleted")
		l.quiet()

		l.f.SetHooks(watched)
		l.f.Delete(neigh(1).Key())
		synctest.Wait()
		wait()
		all("drift")

		// What another program restores itself needs no pass.
		l.quiet()
		l.f.Delete(neigh(1).Key())
		synctest.Wait()
		wait()
		early("while something was known to be wrong")()
		l.f.Put(neigh(1))
		all("others set it right")
		l.cost(0, 0, 0)
	})
}

// TestEndedPassLeavesNoPlan: the loop ends while it applies a plan. The next plan has
// nothing of it.
func TestEndedPassLeavesNoPlan(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.f.BlockApply() // until the loop ends
		l.setPeers(1, 1)
		l.wait(time.Second)
		l.stop()
		if plan := l.r.planner.Plan(); len(plan) > 0 {
			l.Errorf("the next plan begins with\n%s", plan)
		}
	})
}
