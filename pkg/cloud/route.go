package cloud

import (
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/subnet"
)

// TargetKind is the kind of a route's target.
type TargetKind string

// The kinds of targets. Our routes only have the first one.
const (
	// ToInterface is a network interface, with or without an instance.
	ToInterface TargetKind = "interface"
	// ToLocal is the network itself.
	ToLocal TargetKind = "local"
	// ToGateway is a gateway, a NAT, a peering or another object that is no interface.
	ToGateway TargetKind = "gateway"
)

// RouteState is whether packets reach a route's target.
type RouteState string

// The states.
const (
	Active RouteState = "active"
	// Blackhole is the state of a route whose target does not run, or is gone.
	Blackhole RouteState = "blackhole"
)

// Origin is who created a route.
type Origin string

// The origins.
const (
	// Created is the origin of a route that this program, another one or a person created.
	Created Origin = "created"
	// WithTable is the origin of a route that every table has.
	WithTable Origin = "with-table"
	// Propagated is the origin of a route that a gateway announces.
	Propagated Origin = "propagated"
	// Unmarked is the origin of a route without our mark, in a cloud in which our routes
	// have one. Another program or a person created it.
	Unmarked Origin = "unmarked"
)

// Route is a route of a Table.
type Route struct {
	// Destination is invalid if the route is for a list of prefixes, which To names.
	Destination netip.Prefix
	// To is the destination in the cloud's notation.
	To   string
	Kind TargetKind
	// Target is the ID of the interface, the gateway or another thing.
	Target string
	// Instance is the ID of the instance to which the interface is attached. It is empty
	// if there is none, and may be empty for a blackhole.
	Instance string
	State    RouteState
	Origin   Origin

	// Some clouds have several routes to one destination. A Table then has only one of
	// them, with these fields:

	// Split is the target of another route with our mark. An interrupted Replace leaves
	// one behind.
	Split string
	// Rival is the name of a foreign route that takes packets from this one.
	Rival string
}

// LeadsTo reports whether the route leads to an interface of this instance.
func (r Route) LeadsTo(i Instance) bool {
	if r.Kind != ToInterface {
		return false
	}
	return r.Instance != "" && r.Instance == i.ID || r.Target != "" && r.Target == i.Interface
}

// String returns the target in the form that pages and tables show.
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

// Quota is the maximum number of routes in a table.
type Quota struct {
	// Most is the maximum of each family; 0 is unknown.
	Most subnet.Pair[int]
	// Shared is set if both families share one maximum. Most then has it twice.
	Shared bool
	// Assumed is why Most is the cloud's default. It is empty if Most was read.
	Assumed string
}

// Table is one of the cluster's route tables.
type Table struct {
	ID, Name string
	// Network is the ID of the table's network.
	Network string
	// Ours says why the table is the cluster's, like "tag kubernetes.io/cluster/prod".
	Ours   string
	Routes []Route
	Quota  Quota
}

// Used returns how many routes of a family count against the quota. Propagated routes have
// a quota of their own. A route for a list of prefixes counts for both families.
func (t Table) Used(f subnet.Family) int {
	n := 0
	for _, r := range t.Routes {
		if r.Origin != Propagated && (t.Quota.Shared || !r.Destination.IsValid() || subnet.FamilyOf(r.Destination.Addr()) == f) {
			n++
		}
	}
	return n
}

// Free returns how many routes of a family may be added. known is false if the quota is
// unknown.
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
	// Add creates a route. If the destination already has the same route, Add succeeds; if
	// it has another one, Add fails with Changed.
	Add Verb = "add"
	// Replace changes the target of a route. The destination always has a route meanwhile.
	Replace Verb = "replace"
	Remove  Verb = "remove"
)

// RouteChange is a change of one route of a Table.
type RouteChange struct {
	// Table is the ID of the table.
	Table       string
	Verb        Verb
	Destination netip.Prefix
	// Instance and Interface are the new target: an instance's ID, and the ID of its
	// primary interface, or one of its NextHops. They are empty for Remove.
	Instance, Interface string
	// For is the name of the node that needs the route. In a cloud whose routes have
	// names, the route's name contains it. It is empty for Remove.
	For string
	// Was is the last known state of the route that Replace or Remove changes. If the
	// route has changed since, a cloud with preconditions refuses the change.
	Was Route
}

// String describes the change in one clause, for logs and plans.
func (c RouteChange) String() string {
	switch c.Verb {
	case Add:
		return fmt.Sprintf("add route %s via %s to %s", c.Destination, c.Instance, c.Table)
	case Replace:
		return fmt.Sprintf("replace route %s via %s by %s in %s", c.Destination, c.Was, c.Instance, c.Table)
	}
	return fmt.Sprintf("remove route %s via %s from %s", c.Destination, c.Was, c.Table)
}
