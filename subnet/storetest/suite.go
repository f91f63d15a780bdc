package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// Store is a subnet.Store with methods that do what people and failures do to it.
type Store interface {
	subnet.Store
	// SetConfig writes the network's config, valid or not.
	SetConfig(config string)
	// Write puts an entry that does not expire: a reservation, or rubbish.
	Write(key, value string)
	// Delete removes an entry.
	Delete(key string)
	// Gap makes all watchers list again.
	Gap()
}

const (
	smallNetwork = `{"Network": "10.5.0.0/24", "SubnetLen": 28}` // 15 subnets
	otherNetwork = `{"Network": "10.6.0.0/24", "SubnetLen": 28}`
	dualNetwork  = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"}`
)

// Run runs the suite. open returns a new empty store for each test.
func Run(t *testing.T, open func(t *testing.T) Store) {
	run(t, open, slices.Concat(anyStore, chooser))
}

// RunGiven is Run for stores that do not choose subnets, because the cluster gives
// them to the nodes. Delete then removes what a node published.
func RunGiven(t *testing.T, open func(t *testing.T) Store) {
	run(t, open, anyStore)
}

type testCase struct {
	name string
	test func(t *testing.T, s Store)
}

func run(t *testing.T, open func(t *testing.T) Store, cases []testCase) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Cleanup(func() { noLeak(t) }) // runs last
			c.test(t, open(t))
		})
	}
}

var (
	// anyStore are the tests that every store must pass.
	anyStore = []testCase{
		{"Config waits for a valid one", configWaits},
		{"Acquire gives a node its subnet again", acquireAgain},
		{"Acquire gives no two nodes the same", acquireAtOnce},
		{"Acquire follows the config", acquireFollowsConfig},
		{"Acquire refuses what cannot be kept", acquireInvalid},
		{"Watch reports all leases, then changes", watch},
		{"Watch lists again after a gap", watchGap},
		{"Watch reports rubbish and continues", watchRubbish},
		{"Hold writes the lease again", holdRestores},
		{"Hold publishes what has changed", holdPublishes},
		{"every wait ends with its context", cancelled},
	}
	// chooser are further tests, for stores that choose subnets.
	chooser = []testCase{
		{"Acquire gives a node what it wants", acquireWanted},
		{"Acquire says when it is out of subnets", outOfSubnets},
		{"a reservation is used and stays one", reservation},
		{"a person makes a reservation of a lease that is held", holdReserved},
		{"a changed config counts for the next lease", changedBetween},
		{"Hold ends when another has the subnet", holdTaken},
		{"a clone leaves the lease of the first alone", cloneLeavesFirst},
	}
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

func watch(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	first := acquire(t, s, node(1))
	w := watcher(t, s)
	if u := w.next("a list"); !u.Complete {
		t.Fatalf("the first message is no complete list: %+v", u)
	}
	w.await("the first", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[first.Key()].Attrs == first.Attrs
	})
	second := acquire(t, s, node(2))
	w.await("both", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 2 && leases[second.Key()].Attrs == second.Attrs
	})
	s.Delete(first.Key())
	w.await("the second alone", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && leases[second.Key()].Attrs == second.Attrs
	})
	if w.lists != 1 {
		t.Errorf("%d complete lists without a gap", w.lists)
	}
	l := w.leases[second.Key()]
	if l.Revision == 0 || l.Created == 0 {
		t.Errorf("no revision or no creation: %+v", l)
	}
}

func watchGap(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	first := acquire(t, s, node(1))
	w := watcher(t, s)
	w.await("the first", func(leases map[string]subnet.Lease) bool { return len(leases) == 1 })
	s.Gap()
	s.Delete(first.Key())
	second := acquire(t, s, node(2))
	w.await("a list again, and the second alone", func(leases map[string]subnet.Lease) bool {
		_, ok := leases[second.Key()]
		return w.lists >= 2 && ok && len(leases) == 1
	})
}

func watchRubbish(t *testing.T, s Store) {
	s.SetConfig(smallNetwork)
	good := acquire(t, s, node(1))
	rubbish := map[string]string{
		"10.5.0.0-28":  `{"PublicIP":"999.0.0.1"}`,
		"not-a-subnet": `{"PublicIP":"192.0.2.99"}`,
	}
	w := watcher(t, s)
	w.await("the good one", func(leases map[string]subnet.Lease) bool { return len(leases) == 1 })
	for _, again := range []bool{false, true} {
		if again {
			s.Gap()
		}
		for key, value := range rubbish {
			s.Write(key, value)
		}
		w.await("the rubbish reported, the good lease left", func(leases map[string]subnet.Lease) bool {
			_, ok := leases[good.Key()]
			return ok && len(leases) == 1 && len(w.bad) == len(rubbish)
		})
	}
	for key := range rubbish {
		s.Delete(key)
	}
	w.await("no more rubbish", func(leases map[string]subnet.Lease) bool {
		return len(leases) == 1 && len(w.bad) == 0
	})
}

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

// node returns the claim of a cluster's i-th node.
func node(i int) subnet.Claim {
	var c subnet.Claim
	c.PublicIP[subnet.IPv4] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	c.BackendType = "vxlan"
	c.BackendData[subnet.IPv4] = fmt.Sprintf(`{"VNI":1,"VtepMAC":"02:00:00:00:00:%02x"}`, i)
	c.Node = subnet.Node{ID: fmt.Sprintf("id-%d", i), Name: fmt.Sprintf("node-%d", i), MTU: 1450}
	return c
}

func acquire(t *testing.T, s Store, claim subnet.Claim) subnet.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), claim)
	if err != nil {
		t.Fatalf("acquiring for %s: %v", claim.Node.Name, err)
	}
	if l.Attrs != claim.Attrs || !l.Subnets[subnet.IPv4].IsValid() {
		t.Fatalf("acquired %+v for %+v", l, claim)
	}
	return l
}

// hold runs Hold until end is called or the test ends.
func hold(t *testing.T, s Store, own subnet.Lease) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- s.Hold(ctx, own) }()
	return func() {
		t.Helper()
		cancel()
		if err := receive(t, result, "the end of Hold"); !errors.Is(err, context.Canceled) {
			t.Errorf("Hold ended with %v", err)
		}
	}
}
