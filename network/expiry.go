package network

import (
	"fmt"

	"github.com/tulle-net/tulle/subnet"
)

// expired reports whether the lease has ended, as far as this node can tell: no
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
