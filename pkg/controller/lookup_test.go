package controller

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/election"
)

// fakeLookup is the data of a Lookup.
type fakeLookup struct {
	keys  []string
	again time.Duration // after a failure, or zero for never
	next  time.Time
	err   error
	reads int
}

func (f *fakeLookup) lookup() Lookup[int] {
	return Lookup[int]{
		What: "things",
		Due: func(now time.Time) (keys []string, again time.Time) {
			if now.Before(f.next) {
				return nil, f.next
			}
			keys, f.keys = f.keys, nil
			return keys, time.Time{}
		},
		Read: func(context.Context, []string) (map[string]int, error) {
			f.reads++
			return nil, f.err
		},
		Take: func(keys []string, _ map[string]int) {
			if f.again > 0 {
				f.keys, f.next = keys, time.Now().Add(f.again)
			}
		},
	}
}

// problem returns the lookup's Problem in the State.
func (l *lab) problem() string {
	l.t.Helper()
	for _, f := range l.look().Feeds {
		if f.What == "things" && f.Problem != "" {
			return f.Problem
		}
	}
	return ""
}

// TestFailedLookupEndsWhenNothingIsLeft: a failed lookup is no longer reported once nothing
// is left to look up. Await still returns its error.
func TestFailedLookupEndsWhenNothingIsLeft(t *testing.T) {
	f := &fakeLookup{keys: []string{"a"}, err: errors.New("no answer")}
	run(t, Options{}, func(l *lab) {
		l.Do(l.t.Context(), func() { LookUp(l.Engine, f.lookup()) })
		l.begin(election.Term{})
		if p := l.problem(); f.reads != 1 || p != "" {
			t.Errorf("after %d reads: problem %q", f.reads, p)
		}
		if err := l.Await(l.t.Context()); !errors.Is(err, f.err) {
			t.Errorf("Await: %v", err)
		}
	})
}

// TestFailedLookupIsReportedWhileItIsRetried: a lookup that will be retried stays reported
// until it succeeds.
func TestFailedLookupIsReportedWhileItIsRetried(t *testing.T) {
	f := &fakeLookup{keys: []string{"a"}, err: errors.New("no answer"), again: time.Minute}
	run(t, Options{}, func(l *lab) {
		l.Do(l.t.Context(), func() { LookUp(l.Engine, f.lookup()) })
		l.begin(election.Term{})
		l.pass(30 * time.Second)
		if p := l.problem(); f.reads != 1 || p != "no answer" {
			t.Errorf("after %d reads: problem %q", f.reads, p)
		}
		l.post(func() { f.err, f.again = nil, 0 })
		l.pass(time.Minute)
		if p := l.problem(); f.reads != 2 || p != "" {
			t.Errorf("after %d reads: problem %q", f.reads, p)
		}
		if err := l.Await(l.t.Context()); err != nil {
			t.Errorf("Await: %v", err)
		}
	})
}

// TestObserveShowsWhatDueChanges: in ObserveMode, the Engine plans again after Due has changed
// something, without another event.
func TestObserveShowsWhatDueChanges(t *testing.T) {
	c := newFake("a", 0)
	var at time.Time
	moved := false
	run(t, Options{Mode: ObserveMode}, func(l *lab) {
		at = time.Now().Add(time.Minute)
		l.Do(l.t.Context(), func() {
			LookUp(l.Engine, Lookup[int]{
				What: "things",
				Due: func(now time.Time) ([]string, time.Time) {
					if now.Before(at) {
						return nil, at
					}
					if len(c.pending) == 0 {
						c.pending, moved = []string{"a-0"}, true
					}
					return nil, time.Time{}
				},
				Read: func(context.Context, []string) (map[string]int, error) { return nil, nil },
				Take: func([]string, map[string]int) {},
				Moved: func() bool {
					was := moved
					moved = false
					return was
				},
			})
		})
		l.Follow()
		l.feed.list()
		l.post(func() {})
		l.pass(time.Minute - time.Millisecond)
		if s := l.look(); len(s.Planned["a"]) != 0 {
			t.Errorf("planned before: %+v", s.Planned)
		}
		plans := func() (n int) {
			l.Do(l.t.Context(), func() { n = c.plans })
			return n
		}
		before := plans()
		l.pass(observeInterval)
		if s := l.look(); len(s.Planned["a"]) != 1 {
			t.Errorf("a minute later: %+v", s.Planned)
		}
		l.pass(time.Hour)
		if more := plans() - before; more != 1 {
			t.Errorf("%d more plans, want 1", more)
		}
	}, c)
}

// TestSlowReadDoesNotDelayTheOthers: with Side, other keys are read while one read lasts.
func TestSlowReadDoesNotDelayTheOthers(t *testing.T) {
	keys, taken := []string{"slow", "a", "b"}, make(map[string]bool)
	var slow atomic.Bool // its read lasts
	run(t, Options{}, func(l *lab) {
		end := make(chan struct{}) // of the bubble
		l.Do(l.t.Context(), func() {
			LookUp(l.Engine, Lookup[int]{
				What: "slow things", Side: 2,
				Due: func(time.Time) (due []string, again time.Time) {
					if len(keys) > 0 {
						due, keys = keys[:1], keys[1:]
					}
					return due, time.Time{}
				},
				Read: func(_ context.Context, keys []string) (map[string]int, error) {
					if keys[0] == "slow" {
						slow.Store(true)
						<-end
					}
					return nil, nil
				},
				Take: func(keys []string, _ map[string]int) { taken[keys[0]] = true },
			})
		})
		l.begin(election.Term{})
		synctest.Wait()
		l.Do(l.t.Context(), func() {
			if taken["slow"] || !taken["a"] || !taken["b"] || !slow.Load() {
				t.Errorf("taken: %v, the slow one is read: %v", taken, slow.Load())
			}
		})
		for _, f := range l.look().Feeds {
			if f.What == "slow things" && f.Listed {
				t.Error("all is looked up while a read lasts")
			}
		}
		close(end)
		if err := l.Await(l.t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestFailedLookupIsLoggedOnce: the ID of each try's request makes no other reason of it.
func TestFailedLookupIsLoggedOnce(t *testing.T) {
	log.Take()
	f := &fakeLookup{keys: []string{"a"}, again: time.Minute}
	look := f.lookup()
	look.Read = func(context.Context, []string) (map[string]int, error) {
		f.reads++
		return nil, fmt.Errorf("read: %w", &cloud.Error{Kind: cloud.Denied, Action: "Read", Text: "allow it", Request: fmt.Sprint("req-", f.reads)})
	}
	run(t, Options{}, func(l *lab) {
		l.Do(l.t.Context(), func() { LookUp(l.Engine, look) })
		l.begin(election.Term{})
		l.pass(time.Hour)
		if n := log.Count("Failed to look up things"); n != 1 || f.reads < 50 || log.Count("req-1)") != 1 {
			t.Errorf("%d lines in %d tries", n, f.reads)
		}
	})
}
