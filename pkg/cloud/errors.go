package cloud

import (
	"errors"
	"fmt"
	"time"
)

// Kind is what an Error means for a caller.
type Kind int

// The kinds.
const (
	// Unavailable is a failure of the cloud or of the way to it. A change may have been
	// made.
	Unavailable Kind = iota
	// Throttled is a request beyond a quota.
	Throttled
	// Denied is a missing permission or an invalid identity.
	Denied
	// Refused is a request that the cloud does not accept as it is.
	Refused
	// Missing is an object that does not exist.
	Missing
	// Changed is an object that is not in the required state.
	Changed
	// Taken is an address that another object uses.
	Taken
	// Pending is a change that the cloud has begun and not ended.
	Pending
	// Full is a quota on objects that is used up, like that of routes in a table. Only
	// people, or fewer objects, change that.
	Full
)

func (k Kind) String() string {
	return [...]string{"unavailable", "throttled", "denied", "refused", "missing", "changed", "taken", "pending", "full"}[k]
}

// IsFinal reports whether a change that failed so was not made, and never will be.
func (k Kind) IsFinal() bool { return k != Unavailable && k != Pending }

// Error is why a cloud did not do what it was asked for.
type Error struct {
	Kind Kind
	// Action is what was asked for, in the words of the cloud's API.
	Action string
	// Text says what failed, and the fix.
	Text string
	// After is how long the cloud asks clients to wait.
	After time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Action, e.Text) }

// KindOf returns the Kind of err. One that is no Error is Unavailable.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Unavailable
}

// Call is one kind of requests to a cloud's API, for counting them.
type Call struct {
	// Action is what was asked for, in the words of the cloud's API.
	Action string
	// Outcome is "ok", or the Kind of the error.
	Outcome string
}
