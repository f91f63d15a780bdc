package storetest

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func holdRestores(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	own := acquire(t, s, node(1))
	end := hold(t, s, own)
	w := watcher(t, s)
	asItWas := func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[own.Key()].Attrs == own.Attrs
	}
	w.await("the lease", asItWas)
	for range 3 {
		s.Delete(own.Key())
		w.awaitUpdate("the lease again", func(u subnet.Update) bool { return len(u.Leases) > 0 })
		w.await("the lease as it was", asItWas)
	}
	s.Write(own.Key(), `rubbish`)
	w.awaitUpdate("the lease again", func(u subnet.Update) bool { return len(u.Leases) > 0 })
	w.await("the lease as it was", asItWas)
	end()
}

func holdPublishes(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	own := acquire(t, s, node(1))
	s.SetConfig(otherNetwork) // Acquire would now lease another subnet
	own.Revision, own.Node.MTU = 0, 1234
	end := hold(t, s, own)
	watcher(t, s).await("the lease as it is now", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[own.Key()].Attrs == own.Attrs
	})
	end()
}

func holdReserved(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	own := acquire(t, s, node(1))
	end := hold(t, s, own)
	w := watcher(t, s)
	w.await("the lease", func(leases map[string]subnet.Lease) bool { return len(leases) == 1 })
	for range 2 {
		s.Write(own.Key(), `{"PublicIP": "192.0.2.1"}`)
		w.awaitUpdate("what the person wrote", func(u subnet.Update) bool { return len(u.Leases) > 0 })
		w.await("a reservation with what its node publishes", func(leases map[string]subnet.Lease) bool {
			l := leases[own.Key()]
			return l.IsReservation() && l.Attrs == own.Attrs
		})
	}
	end()
}

func changedBetween(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	known, err := s.Config(t.Context(), subnet.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s.SetConfig(otherNetwork)
	cfg, err := s.Config(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	if own := acquire(t, s, node(1)); !cfg.Allows(own.Subnets) {
		t.Errorf("acquired %s, of a config that is over", own.Key())
	}
}

func holdTaken(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	own := acquire(t, s, node(1))
	result := make(chan error, 1)
	go func() { result <- s.Hold(t.Context(), own) }()
	other, err := subnet.FormatAttrs(node(2).Attrs)
	if err != nil {
		t.Fatal(err)
	}
	s.Write(own.Key(), string(other))
	if err := receive(t, result, "the end of Hold"); !errors.Is(err, subnet.ErrTaken) {
		t.Errorf("Hold ended with %v", err)
	}
}

func cloneLeavesFirst(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	one, two := node(1), node(2)
	one.Node.Instance, two.Node.Instance = "a", "b"
	first := acquire(t, s, one)
	end := hold(t, s, first)
	w := watcher(t, s)
	// Once the first lease is written again, it is certain that a Hold keeps it.
	s.Delete(first.Key())
	w.await("the lease again", func(leases map[string]subnet.Lease) bool { return leases[first.Key()].Revision > first.Revision })
	two.Node.ID = one.Node.ID
	var twin *subnet.TwinError
	if l, err := s.Acquire(t.Context(), two); !errors.As(err, &twin) || !errors.Is(err, subnet.ErrSameID) || twin.Copied || twin.Lease.Key() != first.Key() {
		t.Fatalf("the clone acquired %v: %v", l.Subnets, err)
	}
	two.Node.ID = subnet.CloneID(one.Node.ID, "0123456789abcdef")
	second := acquire(t, s, two)
	w.await("both", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 2 && leases[first.Key()].Attrs == first.Attrs && leases[second.Key()].Attrs == second.Attrs
	})
	// After a reinstallation and after a new address it keeps its subnet.
	two.Node.Instance = "c"
	if again := acquire(t, s, two); again.Subnets != second.Subnets {
		t.Errorf("reinstalled it has %s, and had %s", again.Key(), second.Key())
	}
	two.PublicIP[subnet.IPv4] = netip.MustParseAddr("198.51.100.1")
	if again := acquire(t, s, two); again.Subnets != second.Subnets {
		t.Errorf("renumbered it has %s, and had %s", again.Key(), second.Key())
	}
	end()
}

func cancelled(t *testing.T, s Store) {
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 3)
	go func() {
		_, err := s.Config(ctx, subnet.Config{})
		results <- err
	}()
	go func() {
		_, err := s.Acquire(ctx, node(1))
		results <- err
	}()
	cancel()
	for range 2 {
		if err := receive(t, results, "an end"); !errors.Is(err, context.Canceled) {
			t.Errorf("without a config: %v", err)
		}
	}
	s.SetConfig(smallNetwork)
	own := acquire(t, s, node(1))
	ctx, cancel = context.WithCancel(t.Context())
	updates := make(chan struct{}, 1000)
	go func() { results <- s.Hold(ctx, own) }()
	go func() { results <- s.Watch(ctx, func(subnet.Update) { updates <- struct{}{} }) }()
	receive(t, updates, "an update of Watch")
	cancel()
	for range 2 {
		if err := receive(t, results, "an end"); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}
