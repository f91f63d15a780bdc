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

// Write is one change that a controller plans. It can be printed before it is made.
type Write struct {
	Controller string
	Object     Ref
	Verb       string
	// Summary describes the change, like "set podCIDRs 10.4.7.0/24".
	Summary string
	// Cloud is set if the write goes to a cloud. Its failure keeps no other write back,
	// because a cloud's client paces itself. A late one must do no harm.
	Cloud bool
	// Before and After are what the write changes, where a plan shows both, and Mark is
	// what makes a deletion ours. They may be empty.
	Before, After, Mark string
	// Held is set if a plan only shows the write: it is not made while its reason lasts.
	Held bool
	// Within limits a write to a cloud, whose operations take their time; zero is
	// Options.WriteTimeout. The end of the term ends it.
	Within time.Duration
	// Do makes the change. It runs outside the loop, and touches no state of the
	// controller.
	Do func(ctx context.Context) error
}

// Controller plans changes of the cluster. The Engine calls its methods from one
// goroutine.
type Controller interface {
	Name() string
	// Plan returns at most n writes to make now, and when the Engine calls it again
	// without an event; with a zero time it waits for an event. A returned write is in
	// flight until Done. A controller never has two writes of one object in flight.
	Plan(now time.Time, n int) ([]Write, time.Time)
	// Done reports a write's outcome: nil, ErrNotMade, or the error of Do.
	// kube.OutcomeOf, or cloud.KindOf for a cloud, reports whether the write may still be
	// applied.
	Done(w Write, err error)
	// Lead begins a term. No write of an earlier term of this process is in flight. If
	// the term is not clean, a write of the last leader may still arrive.
	Lead(t election.Term)
	// Clean reports whether a write of an earlier term can no longer do harm.
	Clean() bool
}

// CloudPlanner is a Controller that writes to a cloud, too. Such writes wait for the
// cloud's limits, so they have a budget of their own, and keep no other write back.
type CloudPlanner interface {
	// PlanCloud returns at most n writes to the cloud, as Plan does.
	PlanCloud(now time.Time, n int) ([]Write, time.Time)
}

// CloudBatcher is a CloudPlanner that sets how many of its writes may be in flight. It suits
// a cloud that takes many writes in one request.
type CloudBatcher interface {
	// MostCloudWrites returns the number.
	MostCloudWrites() int
}

// ErrNotMade is the outcome of a write that was planned but not begun.
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
