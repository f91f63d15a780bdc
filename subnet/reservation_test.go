package subnet

import (
	"net/netip"
	"testing"
	"time"
)

// reservation is what a person writes.
func reservation(t *testing.T, key string, change ...func(*Lease)) Lease {
	t.Helper()
	l := peerLease(t, key, 1, append([]func(*Lease){func(l *Lease) {
		l.Attrs = Attrs{PublicIP: Pair[netip.Addr]{netip.MustParseAddr("192.0.2.11")}}
		l.Expires = time.Time{}
	}}, change...)...)
	return l
}

// TestUnusedReservationIsNoFault lists reservations for other hosts, for this one,
// and what only looks like one.
func TestUnusedReservationIsNoFault(t *testing.T) {
	for name, c := range map[string]struct {
		lease              Lease
		reserved, rejected int
	}{
		"for an address":      {reservation(t, "10.5.30.0-24"), 1, 0},
		"for an ID":           {reservation(t, "10.5.30.0-24", func(l *Lease) { l.Attrs = Attrs{Node: Node{ID: "machine"}} }), 1, 0},
		"for this node":       {reservation(t, "10.5.30.0-24", func(l *Lease) { l.PublicIP = ownLease.PublicIP }), 1, 0},
		"for nothing":         {reservation(t, "10.5.30.0-24", func(l *Lease) { l.Attrs = Attrs{} }), 0, 1},
		"outside the network": {reservation(t, "10.6.30.0-24"), 0, 1},
		"a part of ours":      {reservation(t, "10.5.20.128-25"), 0, 1},
		"one that expires":    {reservation(t, "10.5.30.0-24", func(l *Lease) { l.Expires = time.Unix(1<<33, 0) }), 0, 1},
		"another backend's":   {reservation(t, "10.5.30.0-24", func(l *Lease) { l.BackendType = "host-gw" }), 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			table := NewTable(tableConfig, ownLease)
			changes := table.Apply(Update{Complete: true, Leases: []Lease{ownLease, c.lease}})
			if len(changes.Set) > 0 || len(changes.Rejected) != c.rejected || len(table.Rejected()) != c.rejected || table.Reserved() != c.reserved {
				t.Errorf("set %v, rejected %v, %d reserved", changes.Set, changes.Rejected, table.Reserved())
			}
			table.Apply(Update{Gone: []string{c.lease.Key()}})
			if table.Reserved() != 0 || len(table.Rejected()) != 0 {
				t.Errorf("after it is gone: rejected %v, %d reserved", table.Rejected(), table.Reserved())
			}
		})
	}
}

// TestUsedReservationIsAPeer uses a reservation, and spoils it.
func TestUsedReservationIsAPeer(t *testing.T) {
	table := NewTable(tableConfig, ownLease)
	table.Apply(Update{Complete: true, Leases: []Lease{ownLease, reservation(t, "10.5.30.0-24")}})
	used := peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.Expires = time.Time{} })
	if c := table.Apply(Update{Leases: []Lease{used}}); len(c.Set) != 1 || table.Reserved() != 0 {
		t.Errorf("set %v, %d reserved", c.Set, table.Reserved())
	}
	table.Apply(Update{Leases: []Lease{reservation(t, "10.5.31.0-24")}})
	table.Apply(Update{Bad: []*LeaseError{{Key: "10.5.31.0-24", Err: ErrValue}}})
	if table.Reserved() != 0 || len(table.Rejected()) != 1 {
		t.Errorf("rejected %v, %d reserved", table.Rejected(), table.Reserved())
	}
}
