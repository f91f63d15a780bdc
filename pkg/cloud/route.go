package cloud

import (
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/subnet"
)

// TargetKind is what a route leads to.
type TargetKind string

// The kinds of targets. Only the first is one that a route of ours may have.
const (
	// ToInterface is a network interface, of an instance or of none.
	ToInterface TargetKind = "interface"
	// ToLocal is the network itself.
	ToLocal TargetKind = "local"
	// ToGateway is a gateway, a NAT, a peering or another thing that is no interface.
	ToGateway TargetKind = "gateway"
)

// RouteState is whether a route leads anywhere.
type RouteState string

// The states.
const (
	Active RouteState = "active"
	// Blackhole is a route whose target does not run, or is gone.
	Blackhole RouteState = "blackhole"
)

// Origin is how a route came into its table.
type Origin string

// The origins.
const (
	// Created is a route that this program or another one wrote.
	Created Origin = "created"
	// WithTable is a route that every table has.
	WithTable Origin = "with-table"
	// Propagated is a route that a gateway announces.
	Propagated Origin = "propagated"
	// Unmarked is a route that another program or a person wrote: where a cloud marks
	// routes, it has not the mark of ours.
	Unmarked Origin = "unmarked"
)

// Route is a route of a Table.
type Route struct {
	// Destination is invalid if the route has no single destination: To says which list
	// of prefixes it is for.
	Destination netip.Prefix
	// To is the cloud's text of the destination.
	To   string
	Kind TargetKind
	// Target is the ID of the interface, the gateway or another thing.
	Target string
	// Instance is the ID of the instance that has the interface. It is empty for a target
	// without one, and may be for a blackhole.
	Instance string
	State    RouteState
	Origin   Origin

	// The following are set where a cloud has several routes to one destination. A Table
	// has one of them as the destination's route.

	// Split is the target of another route that bears our mark. An interrupted Replace
	// leaves one behind.
	Split string
	// Rival names a route of others that takes packets from this one.
	Rival string
}

// LeadsTo reports whether the route leads to an interface of this instance.
func (r Route) LeadsTo(i Instance) bool {
	if r.Kind != ToInterface {
		return false
	}
	return r.Instance != "" && r.Instance == i.ID || r.Target != "" && r.Target == i.Interface
}

// String returns the target for people.
func (r Route) String() string {
	text := r.Target
	if r.Instance != "" {
		text = r.Instance
	}
	if text == "" {
		text = "an unknown target"
	}
	if r.State == Blackhole {
		text += " (blackhole)"
	}
	return text
}

// Quota is how many routes a table may have.
type Quota struct {
	// Most is the number of each family; 0 is unknown.
	Most subnet.Pair[int]
	// Shared is set if both families share one number, which both of Most have.
	Shared bool
	// Assumed is why Most is the cloud's default and was not read; empty if it was read.
	Assumed string
}

// Table is a route table that is ours.
type Table struct {
	ID, Name string
	// Network is the ID of the network that the table is of.
	Network string
	// Ours is by what the table is ours, for people, like "tag kubernetes.io/cluster/prod".
	Ours   string
	Routes []Route
	Quota  Quota
}

// Used returns how many routes of a family count against the quota. Propagated ones have
// a quota of their own, and one for a list of prefixes counts for both families.
func (t Table) Used(f subnet.Family) int {
	n := 0
	for _, r := range t.Routes {
		if r.Origin != Propagated && (t.Quota.Shared || !r.Destination.IsValid() || subnet.FamilyOf(r.Destination.Addr()) == f) {
			n++
		}
	}
	return n
}

// Free returns how many routes of a family may be added, and reports whether that is
// known.
func (t Table) Free(f subnet.Family) (n int, known bool) {
	if t.Quota.Most[f] == 0 {
		return 0, false
	}
	return max(0, t.Quota.Most[f]-t.Used(f)), true
}

// Verb is what a RouteChange does.
type Verb string

// The verbs.
const (
	// Add creates a route where none is. A route that is there is Changed, unless it is
	// the same.
	Add Verb = "add"
	// Replace changes the target of a route, without a time at which there is none.
	Replace Verb = "replace"
	Remove  Verb = "remove"
)

// RouteChange is a change of one route of a Table.
type RouteChange struct {
	// Table is its ID.
	Table       string
	Verb        Verb
	Destination netip.Prefix
	// Instance and Interface are the new target: an instance's ID, and the ID of its
	// primary interface, or one of its NextHops. They are empty for Remove.
	Instance, Interface string
	// For is the node that needs the route. A cloud whose routes have names makes them of
	// it. It is empty for Remove.
	For string
	// Was is the route that Replace and Remove change, as it was read. A cloud with
	// preconditions refuses the change if it is another one now.
	Was Route
}

// String describes the change for people.
func (c RouteChange) String() string {
	switch c.Verb {
	case Add:
		return fmt.Sprintf("add route %s via %s to %s", c.Destination, c.Instance, c.Table)
	case Replace:
		return fmt.Sprintf("replace route %s via %s by %s in %s", c.Destination, c.Was, c.Instance, c.Table)
	}
	return fmt.Sprintf("remove route %s via %s from %s", c.Destination, c.Was, c.Table)
}
