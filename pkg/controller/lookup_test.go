package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
)

// fakeLookup is what a Lookup reads, and when.
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

// problem returns what the state says of the lookup.
func (l *lab) problem() string {
	l.t.Helper()
	for _, f := range l.look().Feeds {
		if f.What == "things" && f.Problem != "" {
			return f.Problem
		}
	}
	return ""
}

// A failed read fails no longer once there is nothing to look up. Await returns its error
// all the while.
func TestAFailedLookupEndsWhenNothingIsLeft(t *testing.T) {
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

// A read that will be tried again has failed until it succeeds.
func TestAFailedLookupStaysWhileItIsRetried(t *testing.T) {
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
