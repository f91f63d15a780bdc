package controller

import (
	"context"
	"errors"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
)

// Ref names an object of the cluster.
type Ref struct {
	APIVersion string // "" is v1
	Kind       string
	Namespace  string
	Name, UID  string
}

// String returns the kind and the name, like "Node worker-1".
func (r Ref) String() string {
	if r.Namespace != "" {
		return r.Kind + " " + r.Namespace + "/" + r.Name
	}
	return r.Kind + " " + r.Name
}

// The verbs of writes.
const (
	Patch  = "patch"
	Create = "create"
	Delete = "delete"
)

// Write is one change that a controller wants, as a value that can be printed before it
// is made.
type Write struct {
	Controller string
	Object     Ref
	Verb       string
	// Summary says what changes, like "set podCIDRs 10.4.7.0/24".
	Summary string
	// Cloud is set if the write goes to a cloud. Its failure keeps no other write back,
	// because a cloud's client paces itself. A late one must do no harm.
	Cloud bool
	// Do makes the change. It runs outside the loop, and touches no state of the
	// controller.
	Do func(ctx context.Context) error
}

// Controller plans changes of the cluster. The Engine calls its methods from one
// goroutine.
type Controller interface {
	Name() string
	// Plan returns at most n writes to make now, and when to be asked again without an
	// event; zero is only after one. A returned write counts as in flight until Done.
	// A controller never has two writes for one object in flight.
	Plan(now time.Time, n int) ([]Write, time.Time)
	// Done reports a write's outcome: nil, a refusal (*kube.Error), ErrNotMade, or
	// another error, after which the change may have been made or may still be.
	Done(w Write, err error)
	// Lead begins a term: what was in flight in an earlier one is over. If the term is
	// not clean, a write of the last leader may still arrive.
	Lead(t election.Term)
	// Clean reports whether no write of an earlier term could still do harm.
	Clean() bool
}

// ErrNotMade is the outcome of a write that was planned and never begun.
var ErrNotMade = errors.New("the write was not made")

// Mode is what an Engine does with writes.
type Mode string

// The modes.
const (
	// WriteMode makes them.
	WriteMode Mode = "write"
	// ObserveMode counts and shows them.
	ObserveMode Mode = "observe"
)

// Earlier returns the earlier of two times, as Plan returns them. A zero time is none.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
