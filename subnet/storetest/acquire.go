package storetest

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func configWaits(t *testing.T, s Store) {
	s.SetConfig(`{"Network": "10.5.0.0/30"}`)
	got := make(chan subnet.Config, 1)
	go func() {
		cfg, err := s.Config(t.Context(), subnet.Config{})
		if err != nil {
			t.Errorf("Config: %v", err)
		}
		got <- cfg
	}()
	s.SetConfig(smallNetwork)
	want, err := subnet.ParseConfig([]byte(smallNetwork))
	if cfg := receive(t, got, "the config"); cfg != want || err != nil {
		t.Errorf("Config = %+v, want %+v (%v)", cfg, want, err)
	}
	go func() {
		cfg, err := s.Config(t.Context(), want)
		if err != nil {
			t.Errorf("Config: %v", err)
		}
		got <- cfg
	}()
	s.SetConfig(`rubbish`)
	s.SetConfig(dualNetwork)
	if cfg := receive(t, got, "the changed config"); !cfg.Pools[subnet.IPv6].IsValid() {
		t.Errorf("the changed config is %+v", cfg)
	}
}

func acquireAgain(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	first := acquire(t, s, node(1))
	if first.IsReservation() {
		t.Errorf("a lease was made that never expires: %+v", first)
	}
	claim := node(1)
	claim.PublicIP[subnet.IPv4] = netip.MustParseAddr("198.51.100.1")
	claim.BackendData[subnet.IPv4] = `{"VNI":1,"VtepMAC":"3a:00:00:00:00:01"}`
	again := acquire(t, s, claim)
	if again.Subnets != first.Subnets || again.Attrs != claim.Attrs {
		t.Errorf("acquired again: %+v, want %v of %+v", again, first.Subnets, claim.Attrs)
	}
	w := watcher(t, s)
	w.await("one lease as it was acquired last", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[first.Key()].Attrs == claim.Attrs
	})
}

func acquireWanted(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	claim := node(1)
	claim.Want[subnet.IPv4] = netip.MustParsePrefix("10.5.0.208/28")
	if l := acquire(t, s, claim); l.Subnets != claim.Want {
		t.Errorf("got %v, want %v", l.Subnets, claim.Want)
	}
	other := node(2)
	other.Want = claim.Want
	if l := acquire(t, s, other); l.Subnets == claim.Want {
		t.Errorf("%v was leased twice", l.Subnets)
	}
}

func acquireAtOnce(t *testing.T, s Store) {
	s.SetConfig(dualNetwork)
	leases := make([]subnet.Lease, 30)
	var nodes sync.WaitGroup
	for i := range leases {
		nodes.Go(func() {
			claim := node(i + 1)
			// All want the same subnets, so that all but one are refused.
			claim.Want[subnet.IPv4] = netip.MustParsePrefix("10.5.7.0/24")
			claim.Want[subnet.IPv6] = netip.MustParsePrefix("fd00:5:0:7::/64")
			l, err := s.Acquire(t.Context(), claim)
			if err != nil {
				t.Errorf("node %d: %v", i+1, err)
			}
			leases[i] = l
		})
	}
	nodes.Wait()
	for i, a := range leases {
		for _, b := range leases[:i] {
			if overlap(a, b) {
				t.Errorf("two nodes got %s and %s", a.Key(), b.Key())
			}
		}
	}
}

func acquireFollowsConfig(t *testing.T, s Store) {
	s.SetConfig(`{"Network": "10.5.0.0/16"}`)
	before := acquire(t, s, node(1))
	s.SetConfig(dualNetwork)
	claim := node(1)
	claim.Want = before.Subnets
	after := acquire(t, s, claim)
	if after.Subnets[subnet.IPv4] != before.Subnets[subnet.IPv4] || !after.Subnets[subnet.IPv6].IsValid() {
		t.Errorf("%s became %s", before.Key(), after.Key())
	}
	// If both stayed, each would block the other.
	watcher(t, s).await("the new lease alone", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[after.Key()].Attrs == after.Attrs
	})
}

func outOfSubnets(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	var leases []subnet.Lease
	for i := range 15 {
		leases = append(leases, acquire(t, s, node(i+1)))
	}
	if l, err := s.Acquire(t.Context(), node(16)); !errors.Is(err, subnet.ErrOutOfSubnets) {
		t.Fatalf("a 16th of 15 subnets: %v, %v", l.Subnets, err)
	}
	s.Delete(leases[7].Key())
	if l := acquire(t, s, node(16)); l.Subnets != leases[7].Subnets {
		t.Errorf("got %v, only %v was free", l.Subnets, leases[7].Subnets)
	}
}

func acquireInvalid(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	claim := node(1)
	claim.BackendData[subnet.IPv4] = `{"VNI":`
	if l, err := s.Acquire(t.Context(), claim); !errors.Is(err, subnet.ErrValue) {
		t.Errorf("Acquire = %v, %v", l, err)
	}
}

func reservation(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	claim := node(1)
	s.Write("10.5.0.80-28", fmt.Sprintf(`{"PublicIP":%q}`, claim.PublicIP[subnet.IPv4]))
	for i := range 14 {
		if l := acquire(t, s, node(i+2)); l.Key() == "10.5.0.80-28" {
			t.Errorf("node %d got what is reserved for node 1", i+2)
		}
	}
	own := acquire(t, s, claim)
	if own.Key() != "10.5.0.80-28" || !own.IsReservation() {
		t.Fatalf("acquired %+v, not its reservation", own)
	}
	end := hold(t, s, own)
	watcher(t, s).await("the reservation, still one, with what its node publishes", func(leases map[string]subnet.Lease) bool {
		return leases[own.Key()].IsReservation() && leases[own.Key()].Attrs == claim.Attrs
	})
	end()
}
