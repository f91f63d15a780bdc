package subnet

import (
	"errors"
	"net/netip"
)

// errReserved is why a reservation without a node makes no peer. It is no fault.
var errReserved = errors.New("reserved")

// isUnused reports whether l is a reservation for a host that has not used it yet: it
// has nothing that only a node publishes.
func (l Lease) isUnused() bool {
	isFor := l.PublicIP != Pair[netip.Addr]{} || l.Node.ID != ""
	return l.IsReservation() && isFor && l.BackendType == "" && l.BackendData == Pair[string]{} && l.Node.Instance == ""
}

// Reserved returns the number of reservations that no node uses.
func (t *Table) Reserved() int { return len(t.reserved) }

// recordReservation records whether e is a reservation that no node uses.
func (t *Table) recordReservation(e *entry) {
	if e.bad() == nil && !e.departed && errors.Is(e.faulty(), errReserved) {
		t.reserved[e.key] = struct{}{}
	} else {
		delete(t.reserved, e.key)
	}
}
