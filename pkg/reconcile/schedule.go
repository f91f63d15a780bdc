package reconcile

import (
	"math/rand/v2"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
)

const (
	// lead is how long a change waits for others that belong to it.
	lead = time.Millisecond
	// settle is how long each event of a burst waits for the next: a device that
	// disappears takes ten thousand entries with it, each with an event before the
	// device's own.
	settle = 10 * time.Millisecond
	// settledBelow is the largest burst that need not settle.
	settledBelow = 16
	// longestBurst is the time after which a burst counts as over although it continues.
	longestBurst = 30 * time.Millisecond
	// watchGrace is how long the first resync waits for the watch to begin, so that no
	// change between the two is missed.
	watchGrace = 200 * time.Millisecond
	// unfinishedPoll is how long a step that is under way waits for the event of its end.
	unfinishedPoll = time.Second
	// rewatch is the wait before a failed Watch is restarted.
	rewatch = time.Second
)

// schedule plans the next full resync.
type schedule struct {
	periodic time.Time
	forced   time.Time    // requested for that time; zero if not
	called   time.Time    // requested by events, not before that time; zero if not
	class    budget.Class // of what the events changed
	earliest time.Time    // events cannot cause one before
	last     time.Time    // when the last ended
	ours     bool         // it follows our own change, so its findings are no drift
	alarm    bool         // it is known to find something
}

// want requests a resync at about t because of an event.
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

// force requests a resync at t, whatever it costs.
func (s *schedule) force(t time.Time) {
	if s.forced.IsZero() || t.Before(s.forced) {
		s.forced = t
	}
}

// asked reports whether the next resync is more than periodic.
func (s *schedule) asked() bool { return !s.forced.IsZero() || !s.called.IsZero() }

// next returns when the next resync is due. turn returns when events may cause one.
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

// begin marks the requests as served. A request that comes meanwhile causes another
// resync.
func (s *schedule) begin() {
	s.forced, s.called = time.Time{}, time.Time{}
	s.ours, s.alarm = false, false
}

// end plans the resync after the one that began at start.
func (s *schedule) end(start time.Time, took, interval time.Duration) {
	s.last = start.Add(took)
	interval = max(interval, 100*took)
	s.periodic = s.last.Add(interval - interval/10 + rand.N(interval/5+1))
}

// again restarts at t the resync that p began and could not finish.
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
