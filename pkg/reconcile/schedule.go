package reconcile

import (
	"math/rand/v2"
	"time"
)

const (
	// settle is how long what an event calls for waits, for the rest of the
	// burst to come: a device that goes takes ten thousand entries along, each
	// with an event of its own, before it says so itself.
	settle = 10 * time.Millisecond
	// longestBurst is when a burst is taken for over though it goes on.
	longestBurst = 100 * time.Millisecond
	// idleShare keeps the resyncs that events call for to a share of the time:
	// after one that took d, none for idleShare × d.
	idleShare = 4
	// watchGrace is how long the first resync waits for the watch to begin, so
	// that nothing is missed between the two.
	watchGrace = 200 * time.Millisecond
	// rewatch is the wait before a failed Watch is begun anew.
	rewatch = time.Second
)

// schedule says when the next full resync is.
type schedule struct {
	periodic time.Time
	asked    time.Time // zero when nothing calls for one
	earliest time.Time // events cannot have it before
	ours     bool      // it follows a change of our own, so what it finds is no drift
	alarm    bool      // it is known to find something
}

// want asks for one at about t, for an event's sake.
func (s *schedule) want(t time.Time) { s.force(later(t, s.earliest)) }

// force asks for one at t.
func (s *schedule) force(t time.Time) {
	if s.asked.IsZero() || t.Before(s.asked) {
		s.asked = t
	}
}

// notBefore keeps events from having one before t.
func (s *schedule) notBefore(t time.Time) { s.earliest = later(t, s.earliest) }

// next is when the next one is.
func (s *schedule) next() time.Time {
	if !s.asked.IsZero() && s.asked.Before(s.periodic) {
		return s.asked
	}
	return s.periodic
}

// begin takes what was asked for as served; asked for again meanwhile, there
// will be another.
func (s *schedule) begin() { s.asked, s.ours, s.alarm = time.Time{}, false, false }

// end plans the one after that which began at start.
func (s *schedule) end(start time.Time, took, interval time.Duration) {
	end := start.Add(took)
	s.notBefore(end.Add(idleShare * took))
	if !s.asked.IsZero() && !s.ours {
		s.asked = later(s.asked, s.earliest)
	}
	interval = max(interval, 100*took)
	s.periodic = end.Add(interval - interval/10 + rand.N(interval/5+1))
}

// again has the one that p began, and could not end, begun anew at t.
func (s *schedule) again(p *pass, t time.Time) {
	s.asked, s.periodic = t, later(t, s.periodic)
	s.notBefore(t)
	s.ours, s.alarm = s.ours || p.ours, s.alarm || p.alarm
}

// burst is a run of events.
type burst struct {
	first, last time.Time
}

func (b *burst) add(now time.Time) {
	if b.first.IsZero() {
		b.first = now
	}
	b.last = now
}

// over is when the burst is over unless another event comes.
func (b *burst) over() time.Time {
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
