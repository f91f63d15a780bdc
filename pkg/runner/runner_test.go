package runner

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/netstate"
)

func TestRunsDifferencesOnly(t *testing.T) {
	run(t, func(l *lab) {
		want := []netstate.Command{post, peer(2, "b"), peer(3, "c")}
		if err := l.resync(want...); err != nil {
			l.Fatal(err)
		}
		log := l.runs()
		if len(log) != 3 || log[0] != "post" {
			l.Errorf("at first it ran %q", log)
		}
		for range 3 {
			if err := l.resync(want...); err != nil {
				l.Fatal(err)
			}
		}
		l.wantRuns("nothing changed")
		changed := peer(2, "new")
		_ = l.resync(post, changed, peer(3, "c"))
		l.wantRuns("another input", "remove 10.5.2.0/24 b", "add 10.5.2.0/24 new")
		_ = l.resync(post, changed)
		l.wantRuns("a peer that went", "remove 10.5.3.0/24 c")
		later := changed
		later.Undo, later.Limit = "remove2", time.Minute
		if err := l.resync(post, later); err != nil {
			l.Error(err)
		}
		l.wantRuns("a text that is for later")
		_ = l.resync(post)
		l.wantRuns("the text that was for later", "remove2 10.5.2.0/24 new")
		if has, _ := l.r.Dump(l.Context(), netstate.Scope{}); len(has) != 1 || has[0] != post {
			l.Errorf("it has %v", has)
		}
	})
}

func TestHostComesBeforePeersAndRemovalsFirst(t *testing.T) {
	run(t, func(l *lab) {
		l.settle(peer(9, ""))
		l.runs()
		works := false
		l.faulty(func(run string) (error, bool) {
			if run == "post" && !works {
				return errTest, false
			}
			return nil, false
		})
		err := l.resync(post, peer(2, ""), peer(3, ""))
		if !errors.Is(err, errTest) || !errors.Is(err, netstate.ErrUnfinished) {
			l.Errorf("with a host that fails: %v", err)
		}
		l.wantRuns("peers wait", "remove 10.5.9.0/24", "post")
		l.set(func() { works = true })
		l.settle(post, peer(2, ""), peer(3, ""))
		log := l.runs()
		if len(log) != 3 || log[0] != "post" {
			l.Errorf("then it ran %q", log)
		}
		host := post
		host.Env = "SUBNET=10.5.7.0/24"
		l.settle(host, peer(2, ""), peer(3, ""))
		if log := l.runs(); len(log) != 3 || log[0] != "post 10.5.7.0/24" {
			l.Errorf("peers depend on the host, and it ran %q", log)
		}
	})
}

func TestFailuresAreRetriedWithBackoff(t *testing.T) {
	run(t, func(l *lab) {
		fails := true
		l.faulty(func(run string) (error, bool) {
			if fails && strings.HasPrefix(run, "add 10.5.2") {
				return errTest, false
			}
			return nil, false
		})
		err := l.r.Apply(l.Context(), netstate.Plan{{Object: peer(2, "")}, {Object: peer(3, "")}})
		var failed netstate.Failures
		if !errors.As(err, &failed) || len(failed) != 1 || failed[0].Op.Object != peer(2, "") || !errors.Is(err, errTest) {
			l.Errorf("one of two fails: %v", err)
		}
		l.runs()
		advance(20 * time.Minute)
		attempts := 0
		for _, run := range l.runs() {
			if strings.HasPrefix(run, "add") {
				attempts++
			}
		}
		if attempts < 30 || attempts > 120 {
			l.Errorf("%d attempts in 20 minutes", attempts)
		}
		if s := l.r.Status(); s.Waiting != 1 || s.Failing != 1 {
			l.Errorf("it reports %+v", s)
		}
		l.set(func() { fails = false })
		advance(2 * time.Minute)
		if err := l.resync(peer(2, ""), peer(3, "")); err != nil {
			l.Errorf("after the fault: %v", err)
		}
		told := false
		for len(l.events) > 0 {
			e := <-l.events
			told = told || e.Object == peer(2, "")
		}
		if !told {
			l.Error("no event reports the end of the failure")
		}
	})
}

// TestWatchBeginsWithLostEvents: a command may have ended before.
func TestWatchBeginsWithLostEvents(t *testing.T) {
	run(t, func(l *lab) {
		if len(l.events) != 1 || <-l.events != (netstate.Event{}) {
			t.Errorf("it does not begin with one event of lost ones")
		}
	})
}

func TestHungCommandHoldsUpNoCaller(t *testing.T) {
	run(t, func(l *lab) {
		l.hanging(func(run string) bool { return strings.HasPrefix(run, "add 10.5.2") })
		began := time.Now()
		err := l.r.Apply(l.Context(), create(peer(2, "")))
		if took := time.Since(began); took > time.Second || !errors.Is(err, netstate.ErrUnfinished) {
			l.Errorf("Apply took %s: %v", took, err)
		}
		if s := l.r.Status(); s.Running != "SubnetAddCommand 10.5.2.0/24" || s.Waiting != 1 || s.Failing != 0 {
			l.Errorf("meanwhile it reports %+v", s)
		}
		if err := l.r.Apply(l.Context(), create(peer(3, ""))); !errors.Is(err, netstate.ErrUnfinished) {
			l.Errorf("another behind it: %v", err)
		}
		advance(40 * time.Second)
		if err := l.r.Apply(l.Context(), create(peer(3, ""))); err != nil {
			l.Errorf("another after it: %v", err)
		}
		if s := l.r.Status(); s.Counts["SubnetAddCommand"].Killed == 0 || s.Failing != 1 {
			l.Errorf("then it reports %+v", s)
		}
	})
}

// TestWishChangesDuringARun takes a peer back, and changes it, while its command runs.
func TestWishChangesDuringARun(t *testing.T) {
	for name, after := range map[string][]netstate.Command{"gone": nil, "changed": {peer(2, "new")}} {
		t.Run(name, func(t *testing.T) {
			run(t, func(l *lab) {
				first := true
				l.hanging(func(string) bool {
					defer func() { first = false }()
					return first
				})
				_ = l.resync(peer(2, "old"))
				plan := remove(peer(2, "old"))
				if after != nil {
					plan = create(after[0])
				}
				if err := l.r.Apply(l.Context(), plan); !errors.Is(err, netstate.ErrUnfinished) {
					l.Errorf("during the run: %v", err)
				}
				l.settle(after...)
				want := map[string]string{}
				if after != nil {
					want["10.5.2.0/24"] = "new"
				}
				if !maps.Equal(l.has(), want) {
					l.Errorf("the host has %v, want %v; it ran %q", l.has(), want, l.runs())
				}
			})
		})
	}
}

// TestRestartKnowsWhatWasRun removes a peer, changes one and keeps one while no daemon
// runs.
func TestRestartKnowsWhatWasRun(t *testing.T) {
	run(t, func(l *lab) {
		l.settle(post, peer(2, "gone\x00 $(reboot)"), peer(3, "old"), peer(4, "same"))
		l.runs()
		want := []netstate.Command{post, peer(3, "new"), peer(4, "same"), peer(5, "first")}
		if err := l.restart(want...); err != nil {
			l.Error(err)
		}
		l.settle(want...)
		got := make(map[string]int)
		for _, run := range l.runs() {
			got[run]++
		}
		for _, run := range []string{"post", "remove 10.5.2.0/24 gone\x00 $(reboot)", "remove 10.5.3.0/24 old", "add 10.5.3.0/24 new", "add 10.5.4.0/24 same", "add 10.5.5.0/24 first"} {
			if got[run] != 1 {
				l.Errorf("it ran %q %d times", run, got[run])
			}
			delete(got, run)
		}
		if len(got) > 0 {
			l.Errorf("it ran also %v", got)
		}
	})
}

// TestCommandsThatRunOnlyOnce fail where something is already, as «ip route add» does.
func TestCommandsThatRunOnlyOnce(t *testing.T) {
	run(t, func(l *lab) {
		l.set(func() { l.h.strict = true })
		l.settle(peer(2, "x"))
		l.runs()
		if err := l.restart(peer(2, "x")); err != nil {
			l.Error(err)
		}
		l.wantRuns("after a restart", "add 10.5.2.0/24 x", "remove 10.5.2.0/24 x", "add 10.5.2.0/24 x")
	})
}

// TestAnythingMayFailAtAnyMoment wants random things, makes commands fail before and
// after their effect, and kills the daemon between any two steps and within one. What is
// wanted last is what the host has in the end.
func TestAnythingMayFailAtAnyMoment(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, func(l *lab) {
				random, faults := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2)) // of one goroutine each
				l.set(func() { l.h.strict = seed%2 == 0 })
				calm := false
				hits := make(map[string]int) // more would make it give up
				hit := func(run string) bool { hits[run]++; return hits[run]%3 > 0 }
				l.faulty(func(run string) (error, bool) {
					if calm || faults.IntN(3) > 0 || !hit(run) {
						return nil, false
					}
					return errTest, faults.IntN(2) == 0
				})
				l.hanging(func(run string) bool { return !calm && faults.IntN(8) == 0 && hit(run) })
				var want []netstate.Command
				for range 12 {
					want = want[:0]
					for n := range 4 {
						if random.IntN(3) > 0 {
							want = append(want, peer(n, fmt.Sprint(random.IntN(2))))
						}
					}
					switch random.IntN(3) {
					case 0:
						_ = l.restart(want...)
					case 1:
						_ = l.resync(want...)
						advance(time.Duration(random.IntN(100)) * time.Second)
					default:
						_ = l.resync(want...)
					}
				}
				l.set(func() { calm = true })
				l.settle(want...)
				has := make(map[string]string)
				for _, c := range want {
					has[c.Subnet.String()] = c.Stdin
				}
				if !maps.Equal(l.has(), has) {
					l.Errorf("the host has %v, want %v", l.has(), has)
				}
				if commands, bad, err := load(l.dir); len(commands) != len(want) || bad != nil || err != nil {
					l.Errorf("the records are %v, %v, %v", commands, bad, err)
				}
			})
		})
	}
}

func TestRemovalIsAbandonedAfterAnHour(t *testing.T) {
	run(t, func(l *lab) {
		l.settle(peer(2, ""))
		l.faulty(func(string) (error, bool) { return errTest, false })
		_ = l.resync()
		advance(50 * time.Minute)
		if has, _ := l.r.Dump(l.Context(), netstate.Scope{}); len(has) != 1 {
			l.Errorf("it was forgotten too early")
		}
		advance(20 * time.Minute)
		if has, _ := l.r.Dump(l.Context(), netstate.Scope{}); len(has) != 0 {
			l.Errorf("it is never forgotten")
		}
		if commands, _, _ := load(l.dir); len(commands) != 0 {
			l.Errorf("a record is left: %v", commands)
		}
	})
}

func TestNothingRunsWhereCommandsAreRefused(t *testing.T) {
	run(t, func(l *lab) {
		l.settle(peer(2, ""))
		l.runs()
		l.end()
		r := New(Options{Dir: l.dir, Refused: errTest})
		l.beginWith(r)
		if has, _ := r.Dump(l.Context(), netstate.Scope{}); len(has) != 0 {
			l.Errorf("a dump has %v, which the loop would delete", has)
		}
		if err := r.Apply(l.Context(), create(peer(3, ""))); !errors.Is(err, errTest) {
			l.Errorf("a command: %v", err)
		}
		if _, err := r.Prepare("prepare", time.Minute); !errors.Is(err, errTest) {
			l.Errorf("Prepare: %v", err)
		}
		advance(time.Hour)
		l.wantRuns("refused")
		if commands, _, _ := load(l.dir); len(commands) != 1 {
			l.Errorf("the records are %v", commands)
		}
	})
}

func TestPrepareRunsOnce(t *testing.T) {
	run(t, func(l *lab) {
		fails := true
		var told atomic.Int32
		prepared := func() { told.Add(1) }
		l.end()
		l.beginWith(New(Options{Dir: l.dir, Prepared: prepared}))
		l.faulty(func(string) (error, bool) {
			if fails {
				return errTest, false
			}
			return nil, false
		})
		if out, err := l.r.Prepare("", time.Minute); out != "" || err != nil {
			l.Errorf("no command: %q, %v", out, err)
		}
		if _, err := l.r.Prepare("prepare", time.Minute); !errors.Is(err, netstate.ErrUnfinished) || errors.Is(err, netstate.ErrRepeated) {
			l.Errorf("at first: %v", err)
		}
		advance(time.Millisecond)
		if _, err := l.r.Prepare("prepare", time.Minute); !errors.Is(err, netstate.ErrRepeated) || !errors.Is(err, errTest) || told.Load() != 1 {
			l.Errorf("after a failure: %v, told %d times", err, told.Load())
		}
		_, _ = l.r.Prepare("", time.Minute)
		advance(time.Hour)
		l.wantRuns("no try is left", "prepare")
		_, _ = l.r.Prepare("prepare", time.Minute)
		advance(time.Millisecond)
		l.set(func() { fails = false })
		advance(5 * time.Second)
		for range 3 {
			if out, err := l.r.Prepare("prepare", time.Minute); out != "prepare" || err != nil {
				l.Errorf("then: %q, %v", out, err)
			}
			advance(time.Hour)
		}
		l.wantRuns("one failure more", "prepare", "prepare")
		l.settle(post, peer(2, ""))
		l.runs()
		_, _ = l.r.Prepare("prepare2", time.Minute)
		advance(time.Second)
		l.wantRuns("what depends on another preparation", "prepare2", "post", "add 10.5.2.0/24")
	})
}
