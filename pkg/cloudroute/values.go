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

// Options are the settings of a Book.
type Options struct {
	// Within are the ranges in which destinations must lie; if empty, any is allowed.
	Within []netip.Prefix
	// Grace is the time for which a route stays after no node needs it any more.
	Grace time.Duration
	// DryRun plans changes of the cloud at once, without waiting for the write of the
	// ledger's entries that must precede them.
	DryRun bool
	// Forwarding is how the cloud calls what lets an instance forward packets.
	Forwarding cloud.Forwarding
}

// Node is a node that needs routes from its ranges to its instance.
type Node struct {
	Name, UID string
	Created   int64 // in seconds
	// Ranges are the node's podCIDRs or subnets, as it states them.
	Ranges []string
	Target Target
}

// Target is the target of a node's routes. The zero value is an unknown target.
type Target struct {
	// Instance is the ID of the machine, and Interface that of its primary interface.
	Instance, Interface string
	// NextHops are the addresses to which routes lead, in a cloud whose routes do not lead
	// to interfaces.
	NextHops subnet.Pair[netip.Addr]
	// Network is the ID of the cloud's network to which the interface belongs.
	Network string
	// Forwards is set if the cloud lets the instance forward packets.
	Forwards bool
	// ForwardFix is what people must do so that it does, if the program cannot.
	ForwardFix string
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

// lacksHop reports whether routes to a destination need a next hop, and the target has none of
// the destination's family.
func (t Target) lacksHop(to netip.Prefix) bool {
	return t.NextHops != (subnet.Pair[netip.Addr]{}) && t.via(to) == ""
}

// id returns the target of routes to a destination, as the ledger names it.
func (t Target) id(to netip.Prefix) string { return cmp.Or(t.via(to), t.Instance) }

// instance returns the fields of the instance that routes to a destination contain. Routes to
// a next hop contain only the address.
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

// Code is the state of a route, or of a node. Pages and metrics show codes, so they must never
// change.
type Code string

// The codes.
const (
	// Routed is the state of a node with all its routes, or of a route in its table.
	Routed Code = "routed"
	// Unknown is the state before the tables, the ledger or the instance were read.
	Unknown Code = "unknown"
	// Pending is the state before a change that is due.
	Pending Code = "pending"

	// Problems of a node:
	NoRange        Code = "no-range"      // it has no podCIDR
	Malformed      Code = "malformed"     // a range is not a network
	Outside        Code = "outside"       // a range is not in the ranges of the cluster
	Duplicate      Code = "duplicate"     // an older node has the range
	NoInstance     Code = "no-instance"   // its instance is not known
	SharedInstance Code = "shared"        // an older node has the instance
	NoForwarding   Code = "no-forwarding" // the instance does not forward packets yet

	// Problems of a route:
	NoTables     Code = "no-tables"       // no route table is ours
	OwnAddresses Code = "own-addresses"   // overlaps the addresses of the cloud's network itself
	OtherNetwork Code = "another-network" // the instance is in another network than the table
	NoAddress    Code = "no-address"      // the instance has no address of the destination's family
	Taken        Code = "taken"           // a foreign route has the destination
	Blackhole    Code = "blackhole"       // it leads to an instance that does not run
	TableFull    Code = "table-full"      // a table has no room for it
	Failing      Code = "failing"         // the cloud refuses it

	// Routes that no node needs:
	Leftover Code = "leftover" // ours, and removed after the grace
	Foreign  Code = "foreign"
)

// Problems are the codes of findings.
var Problems = []Code{NoRange, Malformed, Outside, Duplicate, NoInstance, SharedInstance, NoForwarding, NoTables, OwnAddresses, OtherNetwork, NoAddress, Taken, Blackhole, TableFull, Failing}

// IsProblem reports whether the code is one of a Finding.
func (c Code) IsProblem() bool { return slices.Contains(Problems, c) }

// Status is the state of a node's routes.
type Status struct {
	Code Code
	// Text describes the state. It names the problem and the fix if there is one.
	Text string
}

// Finding is a problem that prevents some route of a node.
type Finding struct {
	Node, UID string
	Code      Code
	Text      string
}

// Usage is the number of routes of a family in a table, and their quota.
type Usage struct {
	Table, Name string
	Family      subnet.Family
	// Used counts the routes that count against the quota. Most is the quota; 0 is unknown.
	// Assumed is why Most is the cloud's default. It is empty if Most was read.
	Used, Most int
	Assumed    string
	// Waiting counts the ranges of nodes that wait for room in the table.
	Waiting int
}

// Free returns how many routes may be added. It returns 0 if the quota is unknown.
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

// Row is an existing or a missing route of a table.
type Row struct {
	Table string
	// Destination is the destination in the cloud's notation.
	Destination string
	// Target is the target of the route, or "" if the route is missing.
	Target string
	Node   string // the node that needs the route, or the last one that did
	Code   Code
	// Ours is set if the ledger has the route.
	Ours bool
	Text string
}
