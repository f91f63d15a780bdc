// Package retry paces work that is tried again: how long to wait after failures,
// a wait that ends with its context, a wake-up, and a schedule of what is due when.
package retry

import (
	"context"
	"math/rand/v2"
	"time"
)

// Backoff is how long to wait after failures in a row: First after the first one,
// and twice as long after each further one, up to Last.
type Backoff struct{ First, Last time.Duration }

// After returns how long to wait after so many failures in a row. Half of that is
// random, so that programs which failed together do not retry together.
func (b Backoff) After(failures int) time.Duration {
	d := b.Last
	if doublings := max(failures, 1) - 1; b.First <= b.Last>>doublings {
		d = b.First << doublings
	}
	return d/2 + rand.N(d/2+1)
}

// Sleep waits for as long as After says. If ctx ends first, it returns ctx's
// error.
func (b Backoff) Sleep(ctx context.Context, failures int) error {
	return Sleep(ctx, b.After(failures))
}

// Sleep waits for d. If ctx ends first, it returns ctx's error.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Wakeup is a one-slot channel. Wake-ups that were not received yet are one: the
// receiver reads the state again, which has all that they were about.
type Wakeup chan struct{}

// NewWakeup returns a wake-up with an empty slot.
func NewWakeup() Wakeup { return make(Wakeup, 1) }

// Wake fills the slot. It never waits.
func (w Wakeup) Wake() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Clear empties the slot, for a receiver that reads the state anyway.
func (w Wakeup) Clear() {
	select {
	case <-w:
	default:
	}
}
