package storetest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
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
