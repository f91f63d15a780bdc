package election

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Term is a time for which this replica leads.
type Term struct {
	// Number is the count of changes of the leader, as the Lease has it.
	Number int64
	// ID is unique among the terms of all replicas. Number is not: it begins again
	// after the Lease was deleted.
	ID string
	// Clean reports that no write of an earlier leader can still arrive: there was none,
	// or it released the Lease after its last write.
	Clean bool

	deadline func() time.Time
}

// NewTerm returns a term, for tests of leaders.
func NewTerm(number int64, clean bool, deadline func() time.Time) Term {
	return Term{Number: number, ID: suffix(), Clean: clean, deadline: deadline}
}

// Deadline returns when the term ends unless the Lease is renewed again. The leader
// begins no write that might last longer. It is zero for a Term that has no end.
func (t Term) Deadline() time.Time {
	if t.deadline == nil {
		return time.Time{}
	}
	return t.deadline()
}

// Why a term ended. context.Cause of the leader's context returns it.
var (
	ErrDeadline = errors.New("the Lease was not renewed in time")
	ErrLost     = errors.New("another replica holds the Lease")
)

// reign ends the leader's context at the deadline of its term.
type reign struct {
	context  context.Context
	end      context.CancelCauseFunc
	deadline atomic.Pointer[time.Time]
	timer    *time.Timer
}

// newReign begins a term whose Lease was written by a request that was sent at start.
func newReign(ctx context.Context, start time.Time, lasts time.Duration) *reign {
	r := &reign{}
	r.context, r.end = context.WithCancelCause(ctx)
	deadline := start.Add(lasts)
	r.deadline.Store(&deadline)
	r.timer = time.AfterFunc(time.Until(deadline), func() { r.end(ErrDeadline) })
	return r
}

// renew moves the deadline, unless the term is over.
func (r *reign) renew(start time.Time, lasts time.Duration) {
	deadline := start.Add(lasts)
	if !deadline.After(*r.deadline.Load()) || r.context.Err() != nil || !r.timer.Stop() {
		return
	}
	r.deadline.Store(&deadline)
	r.timer.Reset(time.Until(deadline))
}

// lose ends the term at once.
func (r *reign) lose() {
	now := time.Now()
	r.timer.Stop()
	r.deadline.Store(&now)
	r.end(ErrLost)
}
