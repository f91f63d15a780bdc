package reconcile

import (
	"math/rand/v2"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
)

const (
	// lead is how long a change waits for the rest of what belongs to it.
	lead = time.Millisecond
	// settle is how long each of many waits for the next: a device that goes takes
	// ten thousand entries along, each with an event of its own, before it says so
	// itself.
	settle = 10 * time.Millisecond
	// settledBelow is the largest burst that need not settle.
	settledBelow = 16
	// longestBurst is when a burst is taken for over though it goes on.
	longestBurst = 30 * time.Millisecond
	// watchGrace is how long the first resync waits for the watch to begin, so
	// that nothing is missed between the two.
	watchGrace = 200 * time.Millisecond
	// rewatch is the wait before a failed Watch is restarted.
	rewatch = time.Second
)

// schedule says when the next full resync is.
type schedule struct {
	periodic time.Time
	forced   time.Time    // asked for at that time; zero when not
	called   time.Time    // called for by events, not before that time; zero when not
	class    budget.Class // of what called
	earliest time.Time    // events cannot have it before
	last     time.Time    // when the last ended
	ours     bool         // it follows a change of our own, so what it finds is no drift
	alarm    bool         // it is known to find something
}

// want asks for one at about t, for an event's sake.
func (s *schedule) want(t time.Time, c budget.Class) {
	t = later(t, s.earliest)
	if s.called.IsZero() {
		s.called, s.class = t, c
		return
	}
	if t.Before(s.called) {
		s.called = t
	}
	s.class = min(s.class, c)
}

// force asks for one at t, whatever it costs.
func (s *schedule) force(t time.Time) {
	if s.forced.IsZero() || t.Before(s.forced) {
		s.forced = t
	}
}

// asked reports whether the next one is more than periodic.
func (s *schedule) asked() bool { return !s.forced.IsZero() || !s.called.IsZero() }

// next returns when the next one is. Turn returns when events may have one.
func (s *schedule) next(turn func(budget.Class, time.Time) time.Time) time.Time {
	at := s.periodic
	if !s.forced.IsZero() && s.forced.Before(at) {
		at = s.forced
	}
	if !s.called.IsZero() && s.called.Before(at) {
		if t := later(s.called, turn(s.class, s.last)); t.Before(at) {
			at = t
		}
	}
	return at
}

// begin takes what was asked for as served; asked for again meanwhile, there
// will be another.
func (s *schedule) begin() {
	s.forced, s.called = time.Time{}, time.Time{}
	s.ours, s.alarm = false, false
}

// end plans the one after that which began at start.
func (s *schedule) end(start time.Time, took, interval time.Duration) {
	s.last = start.Add(took)
	interval = max(interval, 100*took)
	s.periodic = s.last.Add(interval - interval/10 + rand.N(interval/5+1))
}

// again restarts at t the resync that p began and could not end.
func (s *schedule) again(p *pass, t time.Time) {
	s.forced, s.called, s.periodic = t, time.Time{}, later(t, s.periodic)
	s.earliest = t
	s.ours, s.alarm = s.ours || p.ours, s.alarm || p.alarm
}

// burst is a run of events.
type burst struct {
	first, last time.Time
	keys        int
}

func (b *burst) add(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// over returns when the burst is over unless another event comes.
func (b *burst) over() time.Time {
	if b.keys <= settledBelow {
		return b.first.Add(lead)
	}
	over := b.last.Add(settle)
	if longest := b.first.Add(longestBurst); longest.Before(over) {
		return longest
	}
	return over
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
