package subnet

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Lease is what one node holds of the network, and what the other nodes must know to
// reach it. Two leases are equal exactly if == reports it, Expires and Revision
// included. The same holds for Attrs.
type Lease struct {
	// Subnets are the node's subnets, masked. A family that is off has the zero
	// Prefix.
	Subnets Pair[netip.Prefix]
	Attrs
	// Expires is when the store will drop the lease. It is zero for a reservation,
	// which never expires.
	Expires time.Time
	// Revision is the store's version of the lease, for compare-and-swap.
	Revision int64
	// Created orders leases by when the store first saw them. Later writes do not
	// change it. So every node agrees on which lease held a subnet first.
	Created int64
	// Routed is set for a peer's subnets that the network between the hosts routes to the
	// peer (see Notice). The node sets it; no store has it.
	Routed Pair[bool]
	// Second is set for the families in which a peer is reached through its second tunnel,
	// while a key is replaced. The node sets it; no store has it.
	Second Pair[bool]
}

// Attrs is what a node publishes of itself beside its subnet.
type Attrs struct {
	PublicIP    Pair[netip.Addr]
	BackendType string
	// BackendData is the backend's own JSON for each family, as it was read, or
	// empty. It is a string, so that Attrs can be compared.
	BackendData Pair[string]
	// Move is what ParseMove reads, while the node moves to another backend; else empty.
	Move string
	// Node is tulle's own part; flannel's leases have none.
	Node Node
}

// Node identifies the holder of a lease.
type Node struct {
	ID   string // the machine's lasting identity
	Name string // for people
	MTU  int    // of the node's overlay device; 0 when not published
	// Instance distinguishes installations with the same ID, as copies of one image
	// have. flannel and older versions of tulled publish none.
	Instance string
}

// IsReservation reports whether a person made the lease, so that it never expires.
func (l Lease) IsReservation() bool { return l.Expires.IsZero() }

// compareRank orders leases by age, the same way on every node.
func compareRank(a, b *Lease) int {
	if c := cmp.Compare(a.Created, b.Created); c != 0 {
		return c
	}
	return strings.Compare(a.Key(), b.Key())
}

// sortByRank sorts leases by age. Leases are large: each is moved once.
func sortByRank(leases []Lease) {
	order := make([]int, len(leases))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return compareRank(&leases[i], &leases[j]) })
	for i := range order {
		// Follow the cycle in which each lease takes the next one's place.
		first, j := leases[i], i
		for order[j] != i {
			next := order[j]
			leases[j], order[j] = leases[next], j
			j = next
		}
		leases[j], order[j] = first, j
	}
}
