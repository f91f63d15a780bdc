package election

import (
	"context"
	"errors"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/kube"
)

// runTerm renews the Lease until the term ends or lead returns. It reports whether it
// tried to release the Lease.
func (e *Elector) runTerm(r *tenure, lease *kube.Lease, t Term, lead func(ctx context.Context, t Term) (clean bool)) (released bool) {
	klog.InfoS("Leading", "identity", e.identity, "transitions", t.Number, "clean", t.Clean)
	e.recordHolder(true, lease)
	start := time.Now()
	e.update(func(s *Status) { s.Leading, s.Renewed = true, start })
	ended := make(chan bool, 1)
	go func() { ended <- lead(r.context, t) }()
	clean, returned := false, false
	for !returned && r.context.Err() == nil {
		select {
		case clean = <-ended:
			returned = true
		case <-r.context.Done():
		case <-e.view.changed:
			if _, l := e.view.present(); l == nil || l.Spec.HolderIdentity != e.identity {
				start, lease = time.Now(), e.renew(r, lease)
			}
		case <-time.After(time.Until(start.Add(e.options.RetryPeriod))):
			start, lease = time.Now(), e.renew(r, lease)
		}
	}
	r.end(nil)
	r.timer.Stop()
	why := context.Cause(r.context)
	e.update(func(s *Status) { s.Leading, s.Renewed = false, time.Time{} })
	if !returned {
		clean = <-ended
	}
	e.clean = clean
	klog.InfoS("Stopped leading", "identity", e.identity, "reason", why, "clean", clean)
	if errors.Is(why, ErrLost) || errors.Is(why, ErrDeadline) {
		return false
	}
	e.release(lease, clean)
	return true
}

// renew extends the term, and returns the Lease as it is afterwards. It ends the term if
// another replica holds the Lease.
func (e *Elector) renew(r *tenure, lease *kube.Lease) *kube.Lease {
	renewed, sent, err := e.rewrite(r.context, lease, func(s *kube.LeaseSpec) {})
	if err == errDeleted {
		klog.InfoS("Re-creating the deleted Lease", "lease", e.options.Namespace+"/"+e.options.Name)
		renewed, sent, err = e.rewrite(r.context, e.newLease(lease.Spec), func(s *kube.LeaseSpec) {})
	}
	if !sent.IsZero() {
		e.uid = renewed.Metadata.UID
		r.renew(sent, e.options.RenewDeadline)
		e.update(func(s *Status) { s.Renewed = sent })
	}
	if err == ErrLost {
		r.lose()
	}
	return renewed
}

// releaseTimeout limits a release, because a stopping program waits for it.
const releaseTimeout = time.Second

// release releases the Lease after a clean end. After an unclean end it only shortens the
// Lease, so that the next leader begins soon, with a term that is not clean.
func (e *Elector) release(lease *kube.Lease, clean bool) {
	if lease.Metadata.UID == "" {
		return // it was deleted
	}
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_, _, err := e.rewrite(ctx, lease, func(s *kube.LeaseSpec) {
		s.LeaseDurationSeconds = 1
		if clean {
			s.HolderIdentity, s.AcquireTime = "", s.RenewTime
		}
	})
	if err != nil {
		klog.InfoS("Failed to release the Lease; it will expire", "lease", e.options.Namespace+"/"+e.options.Name, "reason", err)
	}
	e.recordHolder(e.view.present())
}

// rewrite renews and changes the Lease that this replica holds. If another program has
// changed the Lease meanwhile, rewrite reads it and retries. It returns the new Lease, and
// when it sent the last write that is known to be applied. It returns ErrLost if another
// replica holds the Lease, and errDeleted if the Lease does not exist.
func (e *Elector) rewrite(ctx context.Context, lease *kube.Lease, change func(s *kube.LeaseSpec)) (now *kube.Lease, sent time.Time, err error) {
	for range maxRaces {
		next := new(*lease)
		next.Spec.RenewTime = stamp(e.clock())
		if next.Spec.RenewTime == lease.Spec.RenewTime { // the server ignores an update without a change
			next.Spec.RenewTime = stamp(e.clock().Add(time.Microsecond))
		}
		change(&next.Spec)
		before := e.lastRenewal
		e.lastRenewal = sentLease{next.Spec, time.Now()}
		if err = e.write(ctx, next); err == nil {
			return next, e.lastRenewal.at, nil
		}
		if err != errRace {
			return lease, sent, err
		}
		if err := e.read(ctx); err != nil {
			return lease, sent, err
		}
		switch _, l := e.view.present(); {
		case l == nil:
			return lease, sent, errDeleted
		case l.Spec.HolderIdentity != e.identity:
			return lease, sent, ErrLost
		case l.Metadata.UID == lease.Metadata.UID && l.Spec == before.spec: // only the answer was lost
			lease, sent = l, before.at
		default:
			lease = l
		}
	}
	return lease, sent, err
}

// errDeleted reports that the Lease of a leader was deleted.
var errDeleted = errors.New("the Lease was deleted")

// sentLease is a write of the Lease, and when it was sent.
type sentLease struct {
	spec kube.LeaseSpec
	at   time.Time
}
