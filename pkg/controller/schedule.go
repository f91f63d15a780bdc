package controller

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/retry"
)

// Schedule holds the time at which each of a controller's objects is due, by name.
type Schedule = retry.Schedule[string]

// NewSchedule returns an empty Schedule. Objects that are due at the same time come in the
// order of their names.
func NewSchedule() Schedule { return Schedule{Compare: strings.Compare} }
