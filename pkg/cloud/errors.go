package cloud

import (
	"errors"
	"fmt"
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
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Action, e.Text) }

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
