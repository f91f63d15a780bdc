package controller

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/election"
)

// cloudFake is a fake that also writes routes to a cloud.
type cloudFake struct {
	*fake
	routes int
	slow   <-chan struct{} // a cloud's limit, which every write to it waits for
	made   int
	within time.Duration
	fails  func() error // a write ends with this error, if it is set
}

func (f *cloudFake) PlanCloud(_ time.Time, n int) (writes []Write, again time.Time) {
	for len(writes) < n && f.routes > 0 {
		f.routes--
		writes = append(writes, Write{
			Controller: f.name, Object: Ref{Kind: "Route", Name: fmt.Sprint(f.routes)}, Verb: Create, Cloud: true, Within: f.within,
			Do: func(ctx context.Context) error {
				if f.fails != nil {
					return f.fails()
				}
				select {
				case <-f.slow:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			},
		})
	}
	return writes, time.Time{}
}

func (f *cloudFake) Done(w Write, err error) {
	switch {
	case w.Object.Kind != "Route":
		f.fake.Done(w, err)
	case err != nil:
		f.routes++
	default:
		f.made++
	}
}

func (f *cloudFake) Explain(node string) []Line {
	if node != "worker-1" {
		return nil
	}
	return []Line{{What: "route", Text: "missing"}}
}

// TestCloudWritesHaveABudgetOfTheirOwn: writes that wait for a cloud's limit do not delay
// writes to the API server.
func TestCloudWritesHaveABudgetOfTheirOwn(t *testing.T) {
	c := &cloudFake{fake: newFake("a", 500), routes: 100}
	run(t, Options{}, func(l *lab) {
		slow := make(chan struct{})
		c.slow = slow
		l.Add(c)
		l.begin(election.Term{})
		if c.written() != 500 {
			t.Errorf("wrote %d of 500", c.written())
		}
		if n := l.look().InFlight; n != mostCloudWrites {
			t.Errorf("%d writes in flight", n)
		}
		close(slow)
		l.pass(time.Second)
		if c.made != 100 || l.look().InFlight != 0 {
			t.Errorf("made %d of 100, %d in flight", c.made, l.look().InFlight)
		}
	})
}

// TestCloudWriteHasItsOwnTimeout: a write to a cloud may take longer than one to the API
// server.
func TestCloudWriteHasItsOwnTimeout(t *testing.T) {
	c := &cloudFake{fake: newFake("a", 0), routes: 1, within: time.Hour}
	run(t, Options{}, func(l *lab) {
		l.Add(c)
		l.begin(election.Term{})
		l.pass(c.within - 2*time.Second)
		if n := l.look().InFlight; n != 1 {
			t.Fatalf("%d writes in flight before the limit", n)
		}
		l.pass(2 * time.Second)
		if n := l.look().Counts[Count{"a", Create, Failed}]; n != 1 {
			t.Errorf("%d writes have failed at the limit", n)
		}
	})
}

// TestThrottledCloudChangesAreNotLogged: throttled changes are normal while many Nodes come.
// They are counted as Throttled, and not logged.
func TestThrottledCloudChangesAreNotLogged(t *testing.T) {
	log.Take()
	var n atomic.Int32
	c := &cloudFake{fake: newFake("a", 0), routes: 100, fails: func() error {
		if n.Add(1)%2 == 0 {
			return nil
		}
		return fmt.Errorf("create: %w", &cloud.Error{Kind: cloud.Throttled, Action: "CreateRoute", Text: "kept back by the test"})
	}}
	run(t, Options{}, func(l *lab) {
		l.Add(c)
		l.begin(election.Term{})
		l.pass(time.Minute)
		counts := l.look().Counts
		if c.made != 100 || counts[Count{"a", Create, Written}] != 100 || counts[Count{"a", Create, Throttled}] == 0 || counts[Count{"a", Create, Failed}] != 0 {
			t.Errorf("made %d, %v", c.made, counts)
		}
		if n := log.Count("kept back by the test"); n != 0 {
			t.Errorf("%d lines in the log", n)
		}
		if n := log.Count("Changing the cloud works again"); n != 0 {
			t.Errorf("%d lines say that changes work again", n)
		}
	})
}

// TestStopWaitsForCloudChange: a cloud needs seconds for a change. A program that is stopped
// meanwhile ends its term clean.
func TestStopWaitsForCloudChange(t *testing.T) {
	const takes = 4 * time.Second
	c := &cloudFake{fake: newFake("a", 0), routes: 1, within: time.Minute}
	run(t, Options{}, func(l *lab) {
		slow := make(chan struct{})
		c.slow = slow
		time.AfterFunc(takes, func() { close(slow) })
		l.Add(c)
		l.begin(election.NewTerm(1, true, func() time.Time { return time.Now().Add(10 * time.Second) }))
		began := time.Now()
		l.lead()
		clean := <-l.led
		if took := time.Since(began); !clean || c.made != 1 || took != takes {
			t.Errorf("clean is %t after %s, %d made", clean, took, c.made)
		}
		l.lead = func() {}
	})
}

// TestTermWaitsForItsCloudWrites: a term ends when its last write to a cloud has ended.
func TestTermWaitsForItsCloudWrites(t *testing.T) {
	c := &cloudFake{fake: newFake("a", 0), routes: 1, within: time.Minute}
	run(t, Options{}, func(l *lab) {
		l.Add(c)
		l.begin(election.Term{})
		l.lead()
		l.pass(endLimit / 2)
		select {
		case <-l.led:
			t.Fatal("the term ended with a write in flight")
		default:
		}
		l.pass(endLimit)
		if clean := <-l.led; clean {
			t.Error("a term whose last write was cut off is clean")
		}
		l.lead = func() {}
	})
}

func TestPlanAllIncludesCloudWrites(t *testing.T) {
	c := &cloudFake{fake: newFake("a", 3), routes: 100}
	run(t, Options{Mode: ObserveMode}, func(l *lab) {
		l.Add(c)
		writes, err := l.PlanAll(l.t.Context())
		if len(writes) != 103 || err != nil {
			t.Errorf("%d writes, %v", len(writes), err)
		}
	})
}

func TestControllersExplainANode(t *testing.T) {
	c := &cloudFake{fake: newFake("a", 0)}
	run(t, Options{Mode: ObserveMode}, func(l *lab) {
		l.Add(c)
		l.Follow()
		for node, want := range map[string]int{"worker-1": 1, "worker-2": 0} {
			if all, err := l.Explain(t.Context(), node); len(all) != want || err != nil {
				t.Errorf("%s: %+v, %v", node, all, err)
			}
		}
	})
}
