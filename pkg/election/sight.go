package election

import (
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// sight holds the last known state of the Lease. The watch and single reads update it.
type sight struct {
	changed retry.Wakeup

	mu      sync.Mutex
	known   bool
	lease   *kube.Lease    // nil if there is none
	existed bool           // a Lease was seen
	last    kube.LeaseSpec // of the last Lease that was seen
	since   time.Time      // when the present spec, or the deletion, was first seen
	heard   time.Time      // when the Lease was last seen
	watched bool           // the watch saw it then
	seen    int            // how often the Lease, or its absence, was seen
}

// see records the present Lease, or nil. Only a change of its spec is a sign of life of
// the holder.
func (s *sight) see(l *kube.Lease, watched bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(l, watched, now)
}

// missing records the answer to a read that found no Lease and began when the Lease had
// been seen n times. If it was seen since, the answer may be older than that.
func (s *sight) missing(n int) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == n {
		s.set(nil, false, now)
	}
}

// set records the present Lease, or nil. mu is held.
func (s *sight) set(l *kube.Lease, watched bool, now time.Time) {
	s.heard, s.watched = now, watched
	s.seen++
	if !s.known || (s.lease == nil) != (l == nil) || l != nil && l.Spec != s.last {
		s.since = now
		s.changed.Wake()
	}
	s.known, s.lease = true, l
	if l != nil {
		s.last, s.existed = l.Spec, true
	}
}

// duration returns for how long a spec's holder may lead without renewing it. A spec
// without a valid duration gets usual.
func duration(s kube.LeaseSpec, usual time.Duration) time.Duration {
	if s.LeaseDurationSeconds <= 0 {
		return usual
	}
	return time.Duration(min(s.LeaseDurationSeconds, longest)) * time.Second
}

// longest is the largest duration that a Lease can have, in seconds.
const longest = 1<<31 - 1

// released reports whether the last holder has released the Lease, which shortens the
// duration to a second. A holder that was removed by hand may still lead.
func released(s kube.LeaseSpec) bool {
	return s.HolderIdentity == "" && s.LeaseDurationSeconds <= 1
}

// step is what a replica that does not lead does next: take or vacate, or else wait.
type step struct {
	wait time.Duration // until a change; without one, read the Lease
	take *kube.Lease   // begin a term with this Lease; one without a uid is to be created
	// clean reports that the term is clean.
	clean bool
	// vacate asks for a Lease without a holder in the place of a deleted one. It counts
	// as held for its duration, as the deleted one may be.
	vacate bool
}

// next returns the next step. own returns how to go on with a Lease that has this
// replica's identity: whether a term may begin at once, and whether it is clean.
func (s *sight) next(now time.Time, o Options, own func(*kube.Lease) (atOnce, clean bool)) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known {
		return step{}
	}
	look := s.heard.Add(o.RetryPeriod)
	if s.watched {
		look = s.heard.Add(time.Duration(patience * float64(o.RetryPeriod)))
	}
	free := s.since.Add(duration(s.last, o.LeaseDuration))
	if s.lease == nil {
		// A leader creates its Lease again when it next renews it.
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
		if atOnce, clean := own(s.lease); atOnce {
			return step{take: s.lease, clean: clean}
		}
		if over {
			return step{take: s.lease}
		}
	}
	return step{wait: max(min(free.Sub(now), look.Sub(now)), 0)}
}

// count returns how often the Lease, or its absence, was seen.
func (s *sight) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// present returns the present Lease, or nil.
func (s *sight) present() (known bool, l *kube.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known, s.lease
}

// transitions returns the number in the last Lease that was seen.
func (s *sight) transitions() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last.LeaseTransitions
}

// follow implements kube.Sink.
type follow struct{ *sight }

// List implements kube.Sink.
func (f follow) List() kube.List[kube.Lease] { return &listed{sight: f.sight} }

// Set implements kube.Sink.
func (f follow) Set(l *kube.Lease) { l = new(*l); f.see(l, true) }

// Delete implements kube.Sink.
func (f follow) Delete(*kube.Lease) { f.see(nil, true) }

// listed is a list of at most one Lease.
type listed struct {
	sight *sight
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
	l.sight.see(l.lease, true)
	return true
}
