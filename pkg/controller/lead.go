package controller

import (
	"context"
	"errors"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
)

const (
	// endLimit is how long the writes in flight may take after the program is told to stop.
	// With the release of the Lease, it is less than the ten seconds that a pod has.
	endLimit = 6 * time.Second
	// cutLimit is how long they may take after the term is lost or has expired.
	cutLimit = time.Second
	// settleTime is how long an API server may still apply a write that it has not
	// answered: its time limit for a request.
	settleTime = time.Minute
)

// Lead makes writes until ctx ends, and waits until none is in flight. It reports whether the
// outcome of every write is known. Only then may the next leader write at once.
func (e *Engine) Lead(ctx context.Context, t election.Term) (clean bool) {
	e.Follow()
	e.post(func() { e.beginTerm(t) })
	select {
	case <-ctx.Done():
	case <-e.over:
		return false
	}
	idle := make(chan bool, 1)
	e.post(func() { e.endTerm(idle) })
	limit := time.NewTimer(limitOf(context.Cause(ctx), t))
	defer limit.Stop()
	select {
	case clean = <-idle:
		return clean
	case <-e.over:
		return false
	case <-limit.C:
	}
	e.post(func() { e.writer.cancel() })
	select {
	case <-idle:
	case <-e.over:
	}
	return false
}

// limitOf returns how long the writes in flight may take after a term has ended. It lets them
// finish while the next leader cannot write yet: a write that is cut off makes that leader
// wait longer.
func limitOf(why error, t election.Term) time.Duration {
	if errors.Is(why, election.ErrLost) || errors.Is(why, election.ErrDeadline) {
		return cutLimit
	}
	if end := t.Deadline(); !end.IsZero() {
		return min(endLimit, max(cutLimit, time.Until(end)))
	}
	return endLimit
}

// beginTerm lets controllers plan once all feeds have listed again.
func (e *Engine) beginTerm(t election.Term) {
	e.term = &t
	e.terms++
	e.writer.begin()
	for _, f := range e.feeds {
		f.relist()
	}
	for _, c := range e.controllers {
		c.Lead(t)
	}
}

// endTerm stops planning. Once no write is in flight, idle receives whether the outcome
// of every write is known.
func (e *Engine) endTerm(idle chan<- bool) {
	e.term = nil
	e.writer.idle = idle
	e.reportIdle(time.Now())
}
