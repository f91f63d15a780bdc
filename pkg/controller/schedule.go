package controller

import (
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
)

// Schedule holds the time at which each of a controller's objects is due, by name.
type Schedule = retry.Schedule[string]

// NewSchedule returns an empty Schedule. Objects that are due at the same time come in the
// order of their names.
func NewSchedule() Schedule { return Schedule{Compare: strings.Compare} }

// Backoff returns how long to wait before the next write of an object to the API server, after
// that many failures in a row, the last of which was err. It follows b. But while the server
// fails, the Engine paces all writes, and no object waits much longer than the others.
func Backoff(b retry.Backoff, failures int, err error) time.Duration {
	if serverFailed(err) {
		b.Last = min(b.Last, backoff.Last)
	}
	return b.After(failures)
}

// NextRefresh returns the next time to refresh what was read, at a multiple of an interval
// after the term began. Controllers that refresh the same objects then do so at the same
// time, so that one call to a cloud serves them all.
func NextRefresh(began, now time.Time, interval time.Duration) time.Time {
	return now.Add(interval - now.Sub(began)%interval)
}
