package subnet

import "net/netip"

// Claim is what a node wants to lease: who it is, what to publish, and the
// subnets it would like back.
type Claim struct {
	Attrs
	Want Pair[netip.Prefix]
}

// Owns says whether l is the claiming node's own. A reservation is also who
// stands at its public IP's: a person made it for that address, and it outlives
// the machine.
func (c Claim) Owns(l Lease) bool {
	return c.SameNode(l.Attrs) || l.IsReservation() && c.sameAddress(l.Attrs)
}

// Identity is what the node is known by, for as long as it lasts: its ID, or
// what it can be told by without one.
func (a Attrs) Identity() string {
	if a.Node.ID != "" {
		return a.Node.ID
	}
	for _, ip := range a.PublicIP {
		if ip.IsValid() {
			return ip.String()
		}
	}
	return a.Node.Name
}

// SameNode says whether one node published both. Its ID tells; where one of the
// two has none, as flannel writes them, its public IP does.
func (a Attrs) SameNode(b Attrs) bool {
	if a.Node.ID != "" && b.Node.ID != "" {
		return a.Node.ID == b.Node.ID
	}
	return a.sameAddress(b)
}

func (a Attrs) sameAddress(b Attrs) bool {
	for f, ip := range a.PublicIP {
		if ip.IsValid() && ip == b.PublicIP[f] {
			return true
		}
	}
	return false
}

// Own picks from leases the one that the claiming node is to use again, if
// there is one: a reservation first, because a person made it; then the subnet
// it wants; then the oldest. A lease that the config no longer allows is not
// used. Stale are the node's other leases, to be deleted when it has one to
// use; never a reservation.
func (c Claim) Own(cfg Config, leases []Lease) (use Lease, ok bool, stale []Lease) {
	better := func(a, b Lease) bool {
		if a.IsReservation() != b.IsReservation() {
			return a.IsReservation()
		}
		if wanted := a.Subnets == c.Want; wanted != (b.Subnets == c.Want) {
			return wanted
		}
		return compareRank(&a, &b) < 0
	}
	own := -1
	for i, l := range leases {
		if c.Owns(l) && cfg.Allows(l.Subnets) && (own < 0 || better(l, leases[own])) {
			own = i
		}
	}
	for i, l := range leases {
		if i != own && c.Owns(l) && !l.IsReservation() {
			stale = append(stale, l)
		}
	}
	if own < 0 {
		return Lease{}, false, stale
	}
	return leases[own], true, stale
}
