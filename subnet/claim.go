package subnet

import "net/netip"

// Claim is what a node wants to lease: its identity, what it publishes, and the
// subnets that it prefers.
type Claim struct {
	Attrs
	Want Pair[netip.Prefix]
	// Judged overrides, by a lease's Subnets, whether the lease is the node's own. A
	// store fills it in where the lease's value does not say so.
	Judged map[Pair[netip.Prefix]]bool
}

// Owns reports whether l is the claiming node's own. A reservation for the node's
// public IP is, whichever node used it last: a person made it for that address, and
// it outlives the machine. A reservation with an ID and no address belongs to the
// node with that ID.
func (c Claim) Owns(l Lease) bool {
	if mine, judged := c.Judged[l.Subnets]; judged {
		return mine
	}
	if l.IsReservation() {
		unused := l.PublicIP == (Pair[netip.Addr]{}) && l.Node.Instance == ""
		if c.SameAddress(l.Attrs) || unused && l.Node.ID != "" && l.Node.ID == c.Node.ID {
			return true
		}
	}
	return c.SameNode(l.Attrs)
}

// Identity returns what identifies the node for as long as it lasts: its ID; without
// one, its first public IP; without either, its name.
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

// SameNode reports whether one node published both: they have one Instance, or one
// public IP and no different IDs. Equal IDs suffice only where neither has an
// Instance, because copies of one image share an ID.
func (a Attrs) SameNode(b Attrs) bool {
	switch {
	case a.sameInstance(b):
		return true
	case a.Node.ID == "" || b.Node.ID == "":
		return a.SameAddress(b)
	case a.Node.Instance == "" && b.Node.Instance == "":
		return a.Node.ID == b.Node.ID
	}
	return SharedID(a.Node.ID) == SharedID(b.Node.ID) && a.SameAddress(b)
}

// sameInstance reports whether one installation published both.
func (a Attrs) sameInstance(b Attrs) bool {
	return a.Node.Instance != "" && a.Node.Instance == b.Node.Instance
}

// SameAddress reports whether both publish one public IP.
func (a Attrs) SameAddress(b Attrs) bool {
	for f, ip := range a.PublicIP {
		if ip.IsValid() && ip == b.PublicIP[f] {
			return true
		}
	}
	return false
}

// Own returns the lease that the claiming node uses again, if there is one. It
// prefers, in this order: a reservation, because a person made it; the subnet that
// the node wants; what its own installation published; the oldest. It returns no
// lease that the config no longer allows.
//
// stale are the node's other leases, to be deleted once the node has one to use.
// Reservations are never among them.
func (c Claim) Own(cfg Config, leases []Lease) (use Lease, ok bool, stale []Lease) {
	better := func(a, b Lease) bool {
		if a.IsReservation() != b.IsReservation() {
			return a.IsReservation()
		}
		if wanted := a.Subnets == c.Want; wanted != (b.Subnets == c.Want) {
			return wanted
		}
		if same := c.sameInstance(a.Attrs); same != c.sameInstance(b.Attrs) {
			return same
		}
		return compareRank(&a, &b) < 0
	}
	own := -1
	for i := range leases {
		if l := &leases[i]; c.Owns(*l) && cfg.Allows(l.Subnets) && (own < 0 || better(*l, leases[own])) {
			own = i
		}
	}
	for i := range leases {
		if l := &leases[i]; i != own && c.Owns(*l) && !l.IsReservation() {
			stale = append(stale, *l)
		}
	}
	if own < 0 {
		return Lease{}, false, stale
	}
	return leases[own], true, stale
}
