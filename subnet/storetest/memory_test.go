package storetest

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

func TestMemoryPassesTheSuite(t *testing.T) {
	Run(t, func(*testing.T) Store { return NewMemory("") })
}

func TestMemoryDropsExpiredLeases(t *testing.T) {
	m := NewMemory(smallNetwork)
	m.Write("10.5.0.16-28", `{"PublicIP":"192.0.2.200"}`)
	held, left := acquire(t, m, node(1)), acquire(t, m, node(2))
	end := hold(t, m, held)
	w := watcher(t, m)
	w.await("three leases", func(leases map[string]subnet.Lease) bool { return len(leases) == 3 })
	running := func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return m.holders[held.Key()] > 0
	}
	for !running() {
		m.Gap() // makes the watcher answer, which gives Hold time to start
		w.next("a list")
	}
	m.Advance(TTL - time.Second)
	if n := len(m.Leases()); n != 3 {
		t.Errorf("%d leases before their time was up", n)
	}
	m.Advance(time.Second)
	w.await("the end of the lease without a Hold", func(leases map[string]subnet.Lease) bool {
		_, ok := leases[left.Key()]
		return len(leases) == 2 && !ok
	})
	end()
	m.Advance(TTL)
	w.await("the reservation alone", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases["10.5.0.16-28"].IsReservation()
	})
	if l := acquire(t, m, node(2)); l.Subnets != left.Subnets {
		t.Errorf("the node had %v and got %v", left.Subnets, l.Subnets)
	}
}

func TestMemoryHoldRestoresChangedLease(t *testing.T) {
	m := NewMemory(smallNetwork)
	own := acquire(t, m, node(1))
	end := hold(t, m, own)
	defer end()
	w := watcher(t, m)
	tampered := own
	tampered.BackendData[subnet.IPv4] = `{"VNI":1,"VtepMAC":"ff:ff:ff:ff:ff:ff"}`
	m.Put(tampered)
	w.await("the lease as its node holds it", func(leases map[string]subnet.Lease) bool {
		return leases[own.Key()].Attrs == own.Attrs
	})
}
