package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestBadKeyStopsOnlyItself checks that one bad key stops only itself. The loop
// retries it less and less often, and logs it once.
func TestBadKeyStopsOnlyItself(t *testing.T) {
	running(t, host(), func(l *lab) {
		bad := fdb(2)
		undo := l.f.Fail(-1, kerneltest.OfKey(bad.Key()), syscall.EINVAL)
		var tries []time.Time
		l.f.SetHooks(kerneltest.Hooks{AfterOp: func(op netstate.Op, err error) {
			if err != nil {
				tries = append(tries, time.Now())
			}
		}})
		began := time.Now()
		l.setPeers(1, 3)
		l.wait(0)
		l.has(neigh(2), route(2))
		l.has(peer(1)...)
		l.has(peer(3)...)
		want := `fdb 3a:00:00:00:00:02 dev tulle.1 of "peer-2": invalid argument`
		if got := l.failing(); got != want {
			l.Errorf("failing %q, want %q", got, want)
		}
		s := l.r.Status()
		if s.InSync || s.Failing[0].Attempts != 1 || !s.Failing[0].Since.Equal(began) {
			l.Errorf("status %+v", s)
		}
		if wait := s.Failing[0].Retry.Sub(began); wait < backoff.First/2 || wait > backoff.First {
			l.Errorf("first retry after %v", wait)
		}

		l.f.ResetCounts()
		l.wait(8 * time.Minute) // before the next resync, which retries too
		if len(tries) < 13 || len(tries) > 35 {
			l.Errorf("%d tries", len(tries))
		}
		for i := 1; i < len(tries); i++ {
			most := min(backoff.First<<(i-1), backoff.Last)
			if wait := tries[i].Sub(tries[i-1]); wait < most/2 || wait > most {
				l.Errorf("waited %v before try %d, want %v to %v", wait, i+1, most/2, most)
			}
		}
		if c := l.f.Counts(); c.Dumps != 0 || c.Steps() != len(tries)-1 {
			l.Errorf("%d dumps, %d steps", c.Dumps, c.Steps())
		}
		s = l.r.Status()
		if s.Failing[0].Attempts != len(tries) || !s.Failing[0].Since.Equal(began) || s.InSync {
			l.Errorf("%d tries, status %+v", len(tries), s)
		}
		l.setPeers(4, 4) // other work continues
		l.wait(0)
		l.has(peer(4)...)

		undo()
		l.wait(backoff.Last)
		l.synced()
		l.healed(0, 0, 0, 0, 0, 0)
		lines := log.Take()
		if len(lines) != 2 || !strings.HasPrefix(lines[0], `"Kernel refused a step; retrying" err="invalid argument" step="create fdb`) ||
			lines[1] != `"Kernel accepts all steps again"` {
			l.Errorf("logged %q", lines)
		}
	})
}

// TestBadKeyThatChangesIsTriedAtOnce checks that a bad key that is no longer wanted
// is forgotten, and that one that is wanted differently is retried at once.
func TestBadKeyThatChangesIsTriedAtOnce(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.setPeers(1, 2)
		l.quiet()
		undo := l.f.Fail(-1, kerneltest.OfKey(fdb(3).Key()), errTest)
		l.setPeers(3, 3)
		l.wait(time.Minute)
		l.remove(name(3))
		l.wait(0)
		l.failsOnly(`fdb 3a:00:00:00:00:03 dev tulle.1 of "": injected`) // deleting it is refused too
		undo()
		l.wait(time.Minute)
		l.synced()

		l.f.Fail(3, kerneltest.OfKey(fdb(1).Key()), errTest)
		l.f.Delete(fdb(1).Key())
		l.wait(500 * time.Millisecond)
		other := fdb(1)
		other.Dst = ip("198.51.100.1")
		l.set(name(1), neigh(1), other, route(1))
		l.wait(0)
		l.synced()
		l.has(other)

		// Deletes that fail are tried again too.
		l.f.Fail(3, kerneltest.OfVerb(netstate.Delete), errTest)
		l.remove(name(2))
		l.wait(0)
		if s := l.r.Status(); len(s.Failing) != 3 || s.InSync {
			l.Errorf("failing %q", l.failing())
		}
		l.wait(time.Second)
		l.synced()
	})
}

func (l *lab) failsOnly(want string) {
	l.Helper()
	if got := l.failing(); got != want {
		l.Errorf("failing %q, want %q", got, want)
	}
}

// TestBadKeyHelpedByResync checks that a resync that restores a bad key counts as no
// drift.
func TestBadKeyHelpedByResync(t *testing.T) {
	running(t, host(), func(l *lab) {
		l.f.Fail(8, kerneltest.OfKey(fdb(1).Key()), errTest)
		l.setPeers(1, 1)
		l.wait(10 * time.Second)
		l.f.Heal()
		l.f.Overrun(1)
		l.f.Put(netstate.Neigh{Link: "eth0", IP: ip("192.0.2.2")})
		l.wait(2 * settle)
		l.synced()
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

func TestFailNextOps(t *testing.T) {
	for _, v := range []netstate.Verb{netstate.Create, netstate.Replace, netstate.Delete} {
		for _, k := range netstate.Kinds() {
			t.Run(fmt.Sprintf("%s %s", v, k), func(t *testing.T) {
				running(t, host(), func(l *lab) {
					l.setPeers(1, 5)
					l.quiet()
					l.f.Fail(3, kerneltest.Both(kerneltest.OfKind(k), kerneltest.OfVerb(v)), syscall.ENOMEM)
					rebuilt := link
					rebuilt.VXLAN.VNI = 5
					l.r.Update(func(d *Desired) {
						d.Set("host", []netstate.Object{
							rebuilt, setting, forward, netstate.Addr{Link: "tulle.1", Prefix: pfx("10.9.0.0/32")}, addr6,
							netstate.Link{Name: "tulle.2", Kind: "ipip", Up: true},
						})
						d.Remove(name(1))
						d.Set(name(2), []netstate.Object{direct(2)})
						d.Set(name(6), peer(6))
					})
					l.wait(time.Minute)
					l.synced()
					l.set("host", host()...)
					l.setPeers(1, 7)
					l.remove(name(3))
					l.wait(time.Minute)
					l.synced()
					if got := l.r.Status().Healed; got[netstate.KindRoute] > 0 || got[netstate.KindNeigh] > 0 {
						l.Errorf("healed %v", got)
					}
				})
			})
		}
	}
}

// TestUnknownOutcomeCausesAResync checks that a plan that returns a plain error,
// which leaves the kernel in an unknown state, causes one resync a little later.
func TestUnknownOutcomeCausesAResync(t *testing.T) {
	for done := range 3 {
		t.Run(fmt.Sprintf("%d steps done", done), func(t *testing.T) {
			running(t, host(), func(l *lab) {
				l.f.AbortApply(done, syscall.ENOBUFS)
				l.setPeers(1, 1)
				l.wait(0)
				if s := l.r.Status(); len(s.Failing) != 3 || s.InSync {
					l.Errorf("status %+v", s)
				}
				l.wait(backoff.First)
				l.synced()
				c := l.f.Counts()
				if c.Dumps != 1 || c.Applies != 2 {
					l.Errorf("cost %+v", c)
				}
				l.healed(0, 0, 0, 0, 0, 0)
			})
		})
	}
	t.Run("again and again", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			h := kerneltest.Hooks{BeforeApply: func(netstate.Plan) { l.f.AbortApply(1, syscall.ENOBUFS) }}
			l.f.SetHooks(h)
			l.setPeers(1, 100)
			l.wait(time.Minute)
			if c := l.f.Counts(); c.Applies > 25 {
				l.Errorf("%d applies", c.Applies)
			}
			l.f.SetHooks(kerneltest.Hooks{})
			l.f.Heal()
			l.wait(backoff.Last)
			l.synced()
		})
	})
	// Like the real kernel: each step of the batch failed, and was done nevertheless.
	t.Run("step by step", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 9)
			l.quiet()
			f := l.f
			lying := &liar{Fake: f}
			l.r.kernel = lying
			l.setPeers(10, 20)
			l.r.Update(func(d *Desired) {
				for n := 1; n < 5; n++ {
					d.Remove(name(n))
				}
			})
			l.wait(10 * backoff.First)
			l.synced()
			l.healed(0, 0, 0, 0, 0, 0)
			for _, line := range log.Take() {
				if strings.Contains(line, "file exists") {
					l.Errorf("logged %q", line)
				}
			}
		})
	})
}

func TestFailedDumpIsRetried(t *testing.T) {
	t.Run("at first", func(t *testing.T) {
		f := kerneltest.NewFake(append(peer(8), eth0)...)
		f.FailDumps(8, errTest)
		run(t, f, func(l *lab) {
			l.set("host", host()...)
			l.complete()
			l.wait(2 * time.Second)
			if c := f.Counts(); c.Dumps < 5 || c.Dumps > 7 || c.Applies != 0 {
				l.Errorf("%d dumps, %d applies", c.Dumps, c.Applies)
			}
			if s := l.r.Status(); !errors.Is(s.DumpError, errTest) || s.InSync || s.Resyncs != 0 {
				l.Errorf("status %+v", s)
			}
			l.synced()
			l.healed(0, 0, 0, 0, 0, 0)
		})
	})
	t.Run("later", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 3)
			l.quiet()
			l.f.FailDumps(5, errTest)
			l.f.DeleteLink("tulle.1")
			l.wait(200 * time.Millisecond)
			if s := l.r.Status(); !errors.Is(s.DumpError, errTest) || s.InSync {
				l.Errorf("status %+v", s)
			}
			l.synced()
			if c := l.f.Counts(); c.Dumps > 9 {
				l.Errorf("%d dumps", c.Dumps)
			}
			lines := log.Take()
			if len(lines) < 2 || !strings.HasPrefix(lines[0], `"Failed to dump the kernel's state; retrying" err="injected"`) {
				l.Errorf("logged %q", lines)
			}
			n := 0
			for _, line := range lines {
				if strings.Contains(line, "Failed to dump") || strings.Contains(line, "Dumped the kernel's state again") {
					n++
				}
			}
			if n != 2 {
				l.Errorf("logged %q", lines)
			}
		})
	})
	t.Run("peers come and go nevertheless", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 3)
			l.f.FailDumps(1000, errTest)
			l.wait(2 * interval)
			l.setPeers(4, 4)
			l.remove(name(1))
			l.wait(time.Second)
			l.has(peer(4)...)
			l.hasNot(peer(1)...)
			l.f.ResetCounts()
			l.wait(time.Hour)
			if c := l.f.Counts(); c.Dumps > 130 || c.Applies > 0 {
				l.Errorf("%d dumps, %d applies in an hour", c.Dumps, c.Applies)
			}
			l.f.Heal()
			l.wait(backoff.Last)
			l.synced()
		})
	})
	t.Run("after a change of our own", func(t *testing.T) {
		running(t, host(), func(l *lab) {
			l.setPeers(1, 3)
			l.quiet()
			l.f.FailDumps(2, errTest)
			rebuilt := link
			rebuilt.VXLAN.VNI = 5
			l.set("host", rebuilt, setting, forward, addr, addr6)
			l.wait(0)
			if s := l.r.Status(); s.InSync {
				l.Errorf("status %+v", s)
			}
			l.synced()
			l.has(rebuilt)
			l.healed(0, 0, 0, 0, 0, 0)
		})
	})
}

// TestLinkThatVanishesDuringApplyComesBack checks that a link that vanishes while a
// plan is applied returns with everything on it.
func TestLinkThatVanishesDuringApplyComesBack(t *testing.T) {
	for n := range 6 {
		t.Run(fmt.Sprintf("after %d steps", n), func(t *testing.T) {
			running(t, host(), func(l *lab) {
				l.f.Vanish(n, "tulle.1")
				l.setPeers(1, 3)
				l.wait(0)
				l.synced()
				for _, line := range log.Take() {
					if strings.Contains(line, "no such device") {
						l.Errorf("logged %q", line)
					}
				}
			})
		})
	}
}

// TestBadLinkComesBackWithAllOnIt checks that a link that cannot be created fails
// together with everything on it, and that all of it returns at once when it can.
func TestBadLinkComesBackWithAllOnIt(t *testing.T) {
	f := kerneltest.NewFake(eth0)
	run(t, f, func(l *lab) {
		undo := l.f.Fail(-1, kerneltest.OfKind(netstate.KindLink), syscall.EOPNOTSUPP)
		l.r.Update(func(d *Desired) { // at once: each pass with new failures logs a line
			d.Set("host", append(host(), direct(500)))
			for n := range 200 {
				d.Set(name(1+n), peer(1+n))
			}
			d.Complete()
		})
		l.wait(5 * time.Minute)
		l.has(forward, direct(500))
		s := l.r.Status()
		if len(s.Failing) != 4+600 || !errors.Is(s.Failing[0].Err, syscall.EOPNOTSUPP) || s.Failing[0].Key != link.Key() {
			l.Errorf("%d failing, first %+v", len(s.Failing), s.Failing[0])
		}
		if lines := log.Take(); len(lines) != 1 || !strings.Contains(lines[0], "operation not supported") {
			l.Errorf("logged %q", lines)
		}
		undo()
		l.wait(backoff.Last)
		l.synced()
		l.healed(0, 0, 0, 0, 0, 0)
	})
}

// liar is a kernel in which one Apply does every step and reports each as failed.
type liar struct {
	*kerneltest.Fake
	lied bool
}

func (k *liar) Apply(ctx context.Context, p netstate.Plan) error {
	err := k.Fake.Apply(ctx, p)
	if k.lied {
		return err
	}
	k.lied = true
	var all netstate.Failures
	for _, op := range p {
		all = append(all, &netstate.OpError{Op: op, Err: syscall.ENOBUFS})
	}
	return all
}
