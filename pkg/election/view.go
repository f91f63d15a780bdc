package election

import (
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// leaseView holds the last known state of the Lease. The watch and single reads update it.
type leaseView struct {
	changed retry.Wakeup

	mu        sync.Mutex
	known     bool
	lease     *kube.Lease    // nil if there is none
	existed   bool           // a Lease was seen
	last      kube.LeaseSpec // of the last Lease that was seen
	since     time.Time      // when the present spec, or the deletion, was first seen
	lastSeen  time.Time      // when the Lease was last seen
	watched   bool           // the watch saw it then
	sightings int            // how often the Lease, or its absence, was seen
}

// see records the present Lease, or nil. Only a change of its spec is a sign of life of
// the holder.
func (s *leaseView) see(l *kube.Lease, watched bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(l, watched, now)
}

// missing records that a read found no Lease. The read began when count returned n. If the
// count has changed since, the answer may be stale, and missing ignores it.
func (s *leaseView) missing(n int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sightings == n {
		s.set(nil, false, now)
	}
}

// set records the present Lease, or nil. mu is held.
func (s *leaseView) set(l *kube.Lease, watched bool, now time.Time) {
	s.lastSeen, s.watched = now, watched
	s.sightings++
	if !s.known || (s.lease == nil) != (l == nil) || l != nil && l.Spec != s.last {
		s.since = now
		s.changed.Wake()
	}
	s.known, s.lease = true, l
	if l != nil {
		s.last, s.existed = l.Spec, true
	}
}

// duration returns how long the holder may lead after a renewal. A spec without a valid
// duration gets fallback.
func duration(s kube.LeaseSpec, fallback time.Duration) time.Duration {
	if s.LeaseDurationSeconds <= 0 {
		return fallback
	}
	return time.Duration(min(s.LeaseDurationSeconds, maxSeconds)) * time.Second
}

// maxSeconds is the largest duration that a Lease can have, and its largest number of
// transitions: an int32.
const maxSeconds = 1<<31 - 1

// released reports whether the last holder released the Lease itself: it also shortens the
// duration to a second. A holder that a person removed may still lead.
func released(s kube.LeaseSpec) bool {
	return s.HolderIdentity == "" && s.LeaseDurationSeconds <= 1
}

// step is what a replica that does not lead does next: take, vacate or wait. The zero step
// asks for a read of the Lease.
type step struct {
	wait time.Duration // the longest wait for a change
	take *kube.Lease   // begin a term with this Lease; create it if it has no uid
	// clean reports that the term is clean.
	clean bool
	// vacate asks for a Lease without a holder in place of the deleted one. The new Lease
	// counts as held for its duration, because the deleted one's holder may still lead.
	vacate bool
}

// next returns the next step. resume reports whether this replica already holds the Lease,
// so that a term may begin at once, and whether that term is clean.
func (s *leaseView) next(now time.Time, o Options, resume func(*kube.Lease) (atOnce, clean bool)) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return step{}
	}
	look := s.lastSeen.Add(o.RetryPeriod)
	if s.watched {
		look = s.lastSeen.Add(time.Duration(watchSlack * float64(o.RetryPeriod)))
	}
	free := s.since.Add(duration(s.last, o.LeaseDuration))
	if s.lease == nil {
		// A leader re-creates its Lease at its next renewal.
		free = s.since.Add(2 * o.RetryPeriod)
	}
	over := !now.Before(free)
	switch {
	case !s.existed:
		return step{take: new(kube.Lease), clean: true}
	case s.lease == nil && over:
		return step{vacate: true}
	case s.lease == nil:
	case released(s.last):
		return step{take: s.lease, clean: true}
	default:
		if atOnce, clean := resume(s.lease); atOnce {
			return step{take: s.lease, clean: clean}
		}
		if over {
			return step{take: s.lease}
		}
	}
	return step{wait: max(min(free.Sub(now), look.Sub(now)), 0)}
}

// count returns how often the Lease, or its absence, was seen.
func (s *leaseView) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sightings
}

// present returns the current Lease, or nil, and whether it is known.
func (s *leaseView) present() (known bool, l *kube.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known, s.lease
}

// transitions returns the count of transitions in the last Lease that was seen.
func (s *leaseView) transitions() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.LeaseTransitions
}

// follow passes the watch's changes to a leaseView. It implements kube.Sink.
type follow struct{ *leaseView }

// List implements kube.Sink.
func (f follow) List() kube.List[kube.Lease] { return &listed{view: f.leaseView} }

// Set implements kube.Sink.
func (f follow) Set(l *kube.Lease) { l = new(*l); f.see(l, true) }

// Delete implements kube.Sink.
func (f follow) Delete(*kube.Lease) { f.see(nil, true) }

// listed is a full list, which has at most one Lease.
type listed struct {
	view  *leaseView
	lease *kube.Lease
}

// Add implements kube.List.
func (l *listed) Add(lease *kube.Lease) (isNew bool) {
	isNew = l.lease == nil
	l.lease = new(*lease)
	return isNew
}

// Delete implements kube.List.
func (l *listed) Delete(*kube.Lease) { l.lease = nil }

// Done implements kube.List.
func (l *listed) Done() bool {
	l.view.see(l.lease, true)
	return true
}
