package network

import (
	"fmt"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

// expiryPoll is how often we check whether a lease that has ended, or ends now, was
// renewed.
const expiryPoll = time.Second

// followExpiry logs when the lease ends, and when it is renewed after that.
func (a *Agent) followExpiry() {
	ends := a.LeaseEnds()
	if ends.IsZero() {
		return // no lease of this store ends
	}
	for ended := false; ; ends = a.LeaseEnds() {
		if retry.Sleep(a.ctx, max(expiryPoll, time.Until(ends))) != nil {
			return
		}
		v := a.View(a.ctx)
		if v.Stuck != nil || v.expired() == ended {
			continue
		}
		ended = !ended
		if ended {
			klog.ErrorS(nil, "Lease ended; no renewal reached the store in time", "subnet", v.Own.Key(), "ended", ago(v.At, v.LeaseEnds))
		} else {
			klog.InfoS("Lease renewed after its end", "subnet", v.Own.Key())
		}
		a.changed()
	}
}

// expired reports whether the lease has ended, as far as this node knows: no
// renewal has reached the store in time.
func (v View) expired() bool {
	return v.Own != (subnet.Lease{}) && !v.Own.IsReservation() && !v.LeaseEnds.IsZero() && !v.At.Before(v.LeaseEnds)
}

// whyExpired returns why the lease ended, and what the peers do. works reports
// whether some peers still answer: if the store is down for all nodes, no lease ends.
func (v View) whyExpired() (why string, works bool) {
	why = fmt.Sprintf("the lease ended %s: no renewal reached the store in time", ago(v.At, v.LeaseEnds))
	if v.Probes == nil {
		return why + "; peers drop a node without a lease", false
	}
	passed, tried := v.Probes.since(v.LeaseEnds)
	switch {
	case passed > 0:
		return fmt.Sprintf("%s; %d of the %d peers probed since then still answer", why, passed, tried), true
	case tried > 0:
		return why + "; no peer answers: they have dropped this node", false
	}
	return why + "; peers drop a node without a lease", false
}
