package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// lookupLimit is how long one lookup may take.
const lookupLimit = 30 * time.Second

// Lookup reads what no watch shows, like the instances of a cloud. The Engine uses it only
// while it plans: a standby replica sends no requests. The Engine calls Read outside the
// loop, and the other functions in it.
type Lookup[V any] struct {
	What string // like "instances"
	// Side is how many Reads may run side by side, each with keys of its own; 0 is one.
	Side int
	// Due returns the keys to look up now, and when the next ones are due: zero means not
	// before an event. It returns no key again before Take.
	Due func(now time.Time) (keys []string, again time.Time)
	// Read looks keys up. With an error, it returns what it has found.
	Read func(ctx context.Context, keys []string) (map[string]V, error)
	// Take applies what was found.
	Take func(keys []string, found map[string]V)
	// Moved, if set, reports whether Due has changed the controller's plan since the last
	// call of Moved. If so, the Engine plans again, in every mode.
	Moved func() bool
	// More, if set, reports whether more keys may become due without a new event, such as
	// when another lookup returns. Until then, not everything was looked up once.
	More func() bool
}

// LookUp adds a Lookup to an Engine.
func LookUp[V any](e *Engine, l Lookup[V]) {
	e.lookups = append(e.lookups, &inquiry[V]{
		Lookup: l, all: make(chan struct{}),
		outcome: trouble.Outcome{Failed: "Failed to look up " + l.What + "; retrying", Works: "Looking up " + l.What + " works again", EachReason: true, Reason: cloud.Reason},
	})
}

// lookup is a Lookup of any type.
type lookup interface {
	// turn starts a lookup of what is due. It returns when more is due.
	turn(ctx context.Context, e *Engine, now time.Time) time.Time
	// rest is called instead of turn while the Engine does not plan.
	rest()
	state() FeedState
	await(ctx context.Context) error
}

// inquiry is the state of a Lookup.
type inquiry[V any] struct {
	Lookup[V]
	outcome trouble.Outcome
	reading int // Reads that run; only the loop uses it

	mu      sync.Mutex
	rests   bool
	tried   bool
	failure error         // of the last read, while there is more to look up
	last    error         // of the last read
	all     chan struct{} // closed when everything was tried once
}

func (q *inquiry[V]) turn(ctx context.Context, e *Engine, now time.Time) (again time.Time) {
	q.set(func() { q.rests = false })
	for q.reading < max(1, q.Side) {
		var keys []string
		keys, again = q.Due(now)
		if q.Moved != nil && q.Moved() {
			e.changed = true
		}
		if len(keys) == 0 {
			q.idle(again)
			return again
		}
		q.start(ctx, e, keys)
	}
	return time.Time{}
}

// idle is called when nothing is due.
func (q *inquiry[V]) idle(again time.Time) {
	if q.reading > 0 {
		return
	}
	q.set(func() {
		if !q.tried && (q.More == nil || !q.More()) {
			q.tried = true
			close(q.all)
		}
		if q.failure != nil && again.IsZero() { // the failed keys are no longer needed
			klog.InfoS("Nothing is left to look up", "what", q.What)
			q.outcome.Forget()
			q.failure = nil
		}
	})
}

// start starts a Read.
func (q *inquiry[V]) start(ctx context.Context, e *Engine, keys []string) {
	q.reading++
	terms := e.terms
	e.reads.Go(func() {
		within, cancel := context.WithTimeout(ctx, lookupLimit)
		defer cancel()
		found, err := q.Read(within, keys)
		e.post(func() {
			q.reading--
			q.outcome.Was(err, "keys", len(keys), "found", len(found))
			q.set(func() { q.failure, q.last = err, err })
			if e.terms == terms { // a later term looks up everything again
				q.Take(keys, found)
			}
		})
	})
}

func (q *inquiry[V]) rest() { q.set(func() { q.rests, q.failure, q.last = true, nil, nil }) }

func (q *inquiry[V]) set(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
}

func (q *inquiry[V]) state() FeedState {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := FeedState{What: q.What, Listed: q.tried || q.rests}
	if q.failure != nil {
		s.Problem = q.failure.Error()
	}
	return s
}

func (q *inquiry[V]) await(ctx context.Context) error {
	select {
	case <-q.all:
	case <-ctx.Done():
		return fmt.Errorf("look up %s: %w", q.What, ctx.Err())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.last != nil {
		return fmt.Errorf("look up %s: %w", q.What, q.last)
	}
	return nil
}

// lookUp starts all lookups that are due. It returns when more is due.
func (e *Engine) lookUp(ctx context.Context, now time.Time) (next time.Time) {
	plans := e.term != nil && e.fresh() || e.options.Mode == ObserveMode && e.listed()
	for _, l := range e.lookups {
		if plans {
			next = Earlier(next, l.turn(ctx, e, now))
		} else if e.options.Mode == WriteMode && e.term == nil {
			l.rest()
		}
	}
	return next
}
