package controller

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/retry"
)

// Schedule holds when each of a controller's objects is due, by name.
type Schedule = retry.Schedule[string]

// NewSchedule returns an empty Schedule. Objects that are due at one time come in the
// order of their names.
func NewSchedule() Schedule { return Schedule{Compare: strings.Compare} }
