package subnet

import (
	"fmt"
	"testing"
	"unsafe"
)

// There are an entry and a node of a treap for each peer.
func TestEntriesAreSmall(t *testing.T) {
	if size := unsafe.Sizeof(entry{}); size > 64 {
		t.Errorf("an entry has %d bytes, more than 64", size)
	}
	if size := unsafe.Sizeof(node{}); size > 32 {
		t.Errorf("a node has %d bytes, more than 32", size)
	}
}

// TestTroubleLeavesNoMemory checks that entries need memory for trouble only while they
// have it.
func TestTroubleLeavesNoMemory(t *testing.T) {
	a, b := peerLease(t, "10.5.30.0-24", 1), peerLease(t, "10.5.24.0-21", 2) // the later waits
	faulty := a
	faulty.PublicIP = addresses("127.0.0.1")
	garbled := &LeaseError{a.Key(), fmt.Errorf("%w: rubbish", ErrValue)}
	table := NewTable(tableConfig, ownLease)
	for _, s := range []struct {
		name   string
		update Update
		rare   int
	}{
		{"b waits for a", Update{Complete: true, Leases: []Lease{a, b}}, 2},
		{"a is faulty", Update{Leases: []Lease{faulty}}, 1},
		{"a is garbled", Update{Bad: []*LeaseError{garbled}}, 1},
		{"a is back", Update{Leases: []Lease{a}}, 2},
		{"b is gone", Update{Gone: []string{b.Key()}}, 0},
		{"b is back", Update{Leases: []Lease{b}}, 2},
	} {
		table.Apply(s.update)
		rare := 0
		for _, e := range table.entries {
			if e.rare != nil {
				rare++
			}
		}
		if rare != s.rare {
			t.Errorf("%s: %d entries have trouble, want %d", s.name, rare, s.rare)
		}
	}
	cfg := tableConfig
	cfg.Pools[IPv4] = pool("10.5.0.0/16", 24, "10.5.17.0", "10.5.255.0")
	table.Reconfigure(cfg, ownLease)
	if e := table.entries[b.Key()]; e == nil || e.holder() != table.entries[a.Key()] {
		t.Errorf("with another config, b is %+v, and does not wait for a", e)
	}
}
