package election

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Term is a time for which this replica leads.
type Term struct {
	// Number is leaseTransitions in the Lease: how often the leader has changed.
	Number int64
	// ID is unique among the terms of all replicas. Number is not: it restarts after an
	// operator deleted the Lease.
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

// Deadline returns when the term ends unless the Elector renews the Lease. The leader
// begins no write that might last longer. The deadline of a Term without an end is zero.
func (t Term) Deadline() time.Time {
	if t.deadline == nil {
		return time.Time{}
	}
	return t.deadline()
}

// These errors are why a term ended. context.Cause of the leader's context returns one.
var (
	ErrDeadline = errors.New("the Lease was not renewed in time")
	ErrLost     = errors.New("another replica holds the Lease")
)

// tenure ends the leader's context at the deadline of its term.
type tenure struct {
	context  context.Context
	end      context.CancelCauseFunc
	deadline atomic.Pointer[time.Time]
	timer    *time.Timer
}

// newTenure begins a term. The request that wrote its Lease was sent at start.
func newTenure(ctx context.Context, start time.Time, lasts time.Duration) *tenure {
	r := &tenure{}
	r.context, r.end = context.WithCancelCause(ctx)
	deadline := start.Add(lasts)
	r.deadline.Store(&deadline)
	r.timer = time.AfterFunc(time.Until(deadline), func() { r.end(ErrDeadline) })
	return r
}

// renew moves the deadline, unless the term is over.
func (r *tenure) renew(start time.Time, lasts time.Duration) {
	deadline := start.Add(lasts)
	if !deadline.After(*r.deadline.Load()) || r.context.Err() != nil || !r.timer.Stop() {
		return
	}
	r.deadline.Store(&deadline)
	r.timer.Reset(time.Until(deadline))
}

// lose ends the term at once.
func (r *tenure) lose() {
	now := time.Now()
	r.timer.Stop()
	r.deadline.Store(&now)
	r.end(ErrLost)
}
