package cloud

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the kind of an Error, by what a caller can do about it.
type Kind int

// The kinds.
const (
	// Unavailable is a failure of the cloud or of the network to it. The cloud may have
	// made the change.
	Unavailable Kind = iota
	// Throttled is a request beyond a quota.
	Throttled
	// Denied is a missing permission or an invalid identity.
	Denied
	// Refused is a request that the cloud does not accept.
	Refused
	// Missing is an object that does not exist.
	Missing
	// Changed is an object that is not in the required state.
	Changed
	// Taken is an address that another object uses.
	Taken
	// Pending is a change that the cloud has begun but not finished.
	Pending
	// Full is an exhausted quota of objects, such as routes in a table. A retry helps only
	// after the quota was raised, or objects were deleted.
	Full
)

func (k Kind) String() string {
	return [...]string{"unavailable", "throttled", "denied", "refused", "missing", "changed", "taken", "pending", "full"}[k]
}

// IsFinal reports whether a change that failed with this Kind was not made, and never will be.
func (k Kind) IsFinal() bool { return k != Unavailable && k != Pending }

// Error is why a request to a cloud failed.
type Error struct {
	Kind Kind
	// Action is the name of the request in the cloud's API.
	Action string
	// Text says what failed, and the fix.
	Text string
	// After is how long the cloud asks clients to wait, or 0.
	After time.Duration
	// Request is the ID of the request, for the support of the cloud, or "".
	Request string
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s%s", e.Action, e.Text, e.request()) }

func (e *Error) request() string {
	if e.Request == "" {
		return ""
	}
	return fmt.Sprintf(" (request %s)", e.Request)
}

// Reason returns the text of err without the IDs of requests. So the same error has the same
// Reason in each try.
func Reason(err error) string {
	if err == nil {
		return ""
	}
	return withoutRequests(err.Error(), err)
}

// withoutRequests removes the IDs of err, and of the errors in it, from a text.
func withoutRequests(text string, err error) string {
	if e, ok := err.(*Error); ok && e.Request != "" {
		return strings.ReplaceAll(text, e.request(), "")
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return withoutRequests(text, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = withoutRequests(text, inner)
		}
	}
	return text
}

// KindOf returns the Kind of err. An error of another type is Unavailable.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Unavailable
}

// Call is the key of requests to a cloud's API that are counted together.
type Call struct {
	// Action is the name of the request in the cloud's API.
	Action string
	// Outcome is "ok", or the Kind of the error.
	Outcome string
}
