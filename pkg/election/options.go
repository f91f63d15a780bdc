package election

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
)

// Options select the Lease, and set how fast the replicas react. Give all replicas the
// same durations.
type Options struct {
	Client *kube.Client
	// Namespace and Name identify the Lease.
	Namespace, Name string
	// Identity names this replica in the Lease; New appends a random suffix.
	Identity string
	// LeaseDuration is how long the other replicas wait for a leader that does not renew
	// the Lease; 15 s if it is 0.
	LeaseDuration time.Duration
	// RenewDeadline is how long after its last renewal a leader stops; 10 s if it is 0.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals, and between two reads of the Lease
	// while its watch is silent; 2 s if it is 0.
	RetryPeriod time.Duration
	// Changed, if set, is called after each change of the Status.
	Changed func()
}

// watchSlack is the number of retry periods for which a replica waits for its watch to report
// the leader's next renewal. After that, it reads the Lease itself.
const watchSlack = 1.25

// orDefaults returns o with its defaults, and an error unless it is valid.
func (o Options) orDefaults() (Options, error) {
	o.LeaseDuration = cmp.Or(o.LeaseDuration, 15*time.Second)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, 10*time.Second)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, 2*time.Second)
	switch {
	case o.LeaseDuration < time.Second || o.LeaseDuration%time.Second != 0:
		return o, fmt.Errorf("lease duration %s: not a positive number of whole seconds; give 1s or more", o.LeaseDuration)
	case o.LeaseDuration <= o.RenewDeadline:
		return o, fmt.Errorf("lease duration %s: too short; give more than the renew deadline, %s", o.LeaseDuration, o.RenewDeadline)
	case o.RetryPeriod <= 0:
		return o, fmt.Errorf("retry period %s: too short; give more than 0s", o.RetryPeriod)
	case float64(o.RenewDeadline) <= float64(o.RetryPeriod)*jitter:
		return o, fmt.Errorf("renew deadline %s: too short; give more than %g times the retry period, %s", o.RenewDeadline, jitter, o.RetryPeriod)
	case o.Identity == "" || o.Name == "" || o.Namespace == "":
		return o, fmt.Errorf("lease %s/%s, identity %q: incomplete; give a namespace, a name and an identity", o.Namespace, o.Name, o.Identity)
	}
	return o, nil
}

// jitter is the factor by which a retry may be late.
const jitter = 1.2

// suffix returns a random text that distinguishes processes of one identity.
func suffix() string { return rand.Text()[:10] }
