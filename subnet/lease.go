package subnet

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Lease is what one node holds of the network and what the others must know to
// reach it. Two leases are the same exactly when == says so (Expires and
// Revision included), Attrs likewise.
type Lease struct {
	// Subnets are the node's subnets, masked; a family that is off is the zero Prefix.
	Subnets Pair[netip.Prefix]
	Attrs
	// Expires is when the store will drop the lease; zero for a reservation,
	// which never expires.
	Expires time.Time
	// Revision is the store's version of the lease, for compare-and-swap.
	Revision int64
	// Created grows from lease to lease in the order in which the store first
	// saw them, whatever was written to them since: it tells every node alike
	// who held a subnet first.
	Created int64
}

// Attrs is what a node publishes of itself beside its subnet.
type Attrs struct {
	PublicIP    Pair[netip.Addr]
	BackendType string
	// BackendData is the backend's own JSON for each family, as it was read,
	// or empty. It is a string so that Attrs can be compared.
	BackendData Pair[string]
	// Node is tulle's own part; flannel's leases have none.
	Node Node
}

// Node says who holds a lease.
type Node struct {
	ID   string // the machine's lasting identity
	Name string // for people
	MTU  int    // of the node's overlay device; 0 when not published
	// Instance tells an installation from others that go by the same ID, as
	// copies of one image do. Flannel and older tulleds publish none.
	Instance string
}

// IsReservation says whether the lease is one that a person made, and that
// never expires.
func (l Lease) IsReservation() bool { return l.Expires.IsZero() }

// compareRank orders leases by who came first, the same way on every node.
func compareRank(a, b *Lease) int {
	if c := cmp.Compare(a.Created, b.Created); c != 0 {
		return c
	}
	return strings.Compare(a.Key(), b.Key())
}

// sortByRank orders leases by who came first. They are large: each is moved once.
func sortByRank(leases []Lease) {
	order := make([]int, len(leases))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compareRank(&leases[i], &leases[j]) })
	for i := range order {
		// Around the ring in which each takes the next one's place.
		first, j := leases[i], i
		for order[j] != i {
			next := order[j]
			leases[j], order[j] = leases[next], j
			j = next
		}
		leases[j], order[j] = first, j
	}
}
