package cloudroute

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// Options are what a Book needs to know.
type Options struct {
	// Within are the ranges that destinations may lie in; none allows any.
	Within []netip.Prefix
	// Grace is how long a route stays that no node needs.
	Grace time.Duration
	// DryRun plans changes of the cloud together with the entries of the ledger that
	// would have to be written before them.
	DryRun bool
}

// Node is what a node needs: routes of its ranges to its instance.
type Node struct {
	Name, UID string
	Created   int64 // in seconds
	// Ranges are the node's podCIDRs or subnets, as it states them.
	Ranges []string
	Target Target
}

// Target is what a node's routes lead to. The zero value is a target that is not known
// yet.
type Target struct {
	// Instance is the ID of the machine, and Interface that of its primary interface.
	Instance, Interface string
	// NextHops are the addresses that routes lead to, where they lead to no interface.
	NextHops subnet.Pair[netip.Addr]
	// Network is the ID of the cloud's network that the interface is in.
	Network string
	// Forwards is set if the cloud lets the instance forward packets.
	Forwards bool
	// Problem is why the node has no target, with the fix.
	Problem string
}

// isKnown reports whether routes can lead to the target.
func (t Target) isKnown() bool { return t.Problem == "" && (t.Instance != "" || t.Interface != "") }

// via returns the interface, or the next hop, of routes to a destination.
func (t Target) via(to netip.Prefix) string {
	if t.NextHops == (subnet.Pair[netip.Addr]{}) {
		return t.Interface
	}
	if hop := t.NextHops[subnet.FamilyOf(to.Addr())]; hop.IsValid() {
		return hop.String()
	}
	return ""
}

// lacksHop reports whether routes to a destination need a next hop of a family that the
// target has none of.
func (t Target) lacksHop(to netip.Prefix) bool {
	return t.NextHops != (subnet.Pair[netip.Addr]{}) && t.via(to) == ""
}

// id is what the ledger calls the target of routes to a destination.
func (t Target) id(to netip.Prefix) string { return cmp.Or(t.via(to), t.Instance) }

// instance returns the instance as routes to a destination know it. Routes to an address
// know no more than that.
func (t Target) instance(to netip.Prefix) cloud.Instance {
	if t.NextHops != (subnet.Pair[netip.Addr]{}) {
		return cloud.Instance{Interface: t.via(to)}
	}
	return cloud.Instance{ID: t.Instance, Interface: t.via(to)}
}

// Forward is the verb of a Change that lets an instance forward packets.
const Forward cloud.Verb = "forward"

// Change is a change of the cloud.
type Change struct {
	cloud.RouteChange
	// Node is the node that needs the change, or the last one that needed the route.
	Node string
	// Mark is the entry of the ledger that makes the route ours.
	Mark string
}

// Code is the state of a route, or of a node. Codes never change.
type Code string

// The codes.
const (
	// Routed is a node that has everything, or a route that is in its table.
	Routed Code = "routed"
	// Unknown is the state before the tables, the ledger or the instance were read.
	Unknown Code = "unknown"
	// Pending is a change that is about to be made.
	Pending Code = "pending"

	// What is wrong with a node:
	NoRange    Code = "no-range"      // it has no podCIDR
	Malformed  Code = "malformed"     // a range is not a network
	Outside    Code = "outside"       // a range is not in the ranges of the cluster
	Duplicate  Code = "duplicate"     // an older node has the range
	NoInstance Code = "no-instance"   // its instance is not known
	Shared     Code = "shared"        // an older node has the instance
	Forwarding Code = "no-forwarding" // the instance does not forward packets yet

	// What is wrong with a route:
	NoTables  Code = "no-tables"       // no route table is ours
	Own       Code = "own-addresses"   // overlaps the addresses of the cloud's network itself
	Elsewhere Code = "another-network" // the instance is in another network than the table
	NoAddress Code = "no-address"      // the instance has no address of the destination's family
	Taken     Code = "taken"           // a foreign route has the destination
	Dead      Code = "blackhole"       // it leads to an instance that does not run
	Full      Code = "table-full"      // a table has no room for it
	Failing   Code = "failing"         // the cloud refuses it

	// Routes that no node needs:
	Leftover Code = "leftover" // ours, and removed after the grace
	Foreign  Code = "foreign"
)

// Problems are the codes of findings.
var Problems = []Code{NoRange, Malformed, Outside, Duplicate, NoInstance, Shared, Forwarding, NoTables, Own, Elsewhere, NoAddress, Taken, Dead, Full, Failing}

// IsProblem reports whether the code is of a finding.
func (c Code) IsProblem() bool { return slices.Contains(Problems, c) }

// Status is how far a node's routes are.
type Status struct {
	Code Code
	// Text says what is wrong or missing, and the fix.
	Text string
}

// Finding is what keeps a node's routes from being complete.
type Finding struct {
	Node, UID string
	Code      Code
	Text      string
}

// Usage is how full a table is.
type Usage struct {
	Table, Name string
	Family      subnet.Family
	// Used are the routes that count against the quota, and Most is the quota; 0 is
	// unknown. Assumed is why Most is not what the cloud says.
	Used, Most int
	Assumed    string
	// Waiting counts the ranges of nodes for which the table has no room.
	Waiting int
}

// Free returns how many routes may be added, if the quota is known.
func (u Usage) Free() int { return max(0, u.Most-u.Used) }

// String describes the usage, like "412 of 500 routes, 88 free".
func (u Usage) String() string {
	if u.Most == 0 {
		return fmt.Sprintf("%d routes; the quota is unknown", u.Used)
	}
	text := fmt.Sprintf("%d of %d routes, %d free", u.Used, u.Most, u.Free())
	if u.Waiting > 0 {
		text += fmt.Sprintf("; %d waiting", u.Waiting)
	}
	return text
}

// Row is a route of a table, or one that is missing there.
type Row struct {
	Table string
	// Destination is the cloud's text of it.
	Destination string
	// Target is what the route leads to, or "" if it is missing.
	Target string
	Node   string // that needs it; of a leftover, the last one
	Code   Code
	// Ours is set if the ledger has the route.
	Ours bool
	Text string
}
