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

// NextRefresh returns the next time to refresh what was read, at a multiple of an interval
// after the term began. Controllers that refresh the same objects then do so at the same
// time, so that one call to a cloud serves them all.
func NextRefresh(began, now time.Time, interval time.Duration) time.Time {
	return now.Add(interval - now.Sub(began)%interval)
}
