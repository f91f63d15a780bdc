package subnet

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	tableConfig = config(
		pool("10.5.0.0/16", 24, "10.5.16.0", "10.5.255.0"),
		pool("fd00:5::/48", 64, "fd00:5:0:10::", "fd00:5:0:ffff::"),
	)
	ownLease = Lease{
		Subnets: subnets("10.5.20.0/24", "fd00:5:0:20::/64"),
		Attrs:   Attrs{PublicIP: addresses("192.0.2.1", "2001:db8::1"), BackendType: "vxlan"},
	}
)

// peerLease returns a valid lease of the subnets in key.
func peerLease(t testing.TB, key string, created int64, change ...func(*Lease)) Lease {
	t.Helper()
	s, err := ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	l := Lease{
		Subnets:  s,
		Attrs:    Attrs{PublicIP: addresses("192.0.2.9", "2001:db8::9"), BackendType: "vxlan"},
		Expires:  time.Unix(1, 0),
		Revision: created,
		Created:  created,
	}
	for _, c := range change {
		c(&l)
	}
	return l
}

func TestTableChecksEachLease(t *testing.T) {
	ip := func(texts ...string) func(*Lease) {
		return func(l *Lease) { l.PublicIP = addresses(texts...) }
	}
	v4 := config(tableConfig.Pools[IPv4])
	for _, c := range []struct {
		name  string
		cfg   Config
		lease Lease
		want  error
		says  string
	}{
		{"good", tableConfig, peerLease(t, "10.5.30.0-24&fd00:5:0:30::-64", 1), nil, ""},
		{"of IPv4 alone", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("192.0.2.9")), nil, ""},
		{"of IPv6 alone", tableConfig, peerLease(t, "fd00:5:0:30::-64", 1, ip("2001:db8::9")), nil, ""},
		{"reached over the other family", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("2001:db8::9")), nil, ""},
		{"longer than SubnetLen", tableConfig, peerLease(t, "10.5.30.0-27", 1), nil, ""},
		{"shorter than SubnetLen", tableConfig, peerLease(t, "10.5.32.0-20", 1), nil, ""},
		{"outside the pool, inside the network", tableConfig, peerLease(t, "10.5.1.0-24", 1), nil, ""},
		{"at a host inside the network", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("10.5.0.7")), nil, ""},
		{"private", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("10.6.0.7", "fd11::7")), nil, ""},

		{"of another backend", tableConfig, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.BackendType = "host-gw" }), ErrBackendType, `"host-gw", not "vxlan"`},
		{"of no backend", tableConfig, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.BackendType = "" }), ErrBackendType, ""},
		{"of a family that is off", v4, peerLease(t, "fd00:5:0:30::-64", 1), ErrNoSubnet, ""},
		{"of nothing", v4, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.Subnets = Pair[netip.Prefix]{} }), ErrNoSubnet, ""},
		{"everything", tableConfig, peerLease(t, "0.0.0.0-0", 1), ErrOutsideNetwork, "0.0.0.0/0 is no part of 10.5.0.0/16"},
		{"the network whole", tableConfig, peerLease(t, "10.5.0.0-16", 1), ErrOutsideNetwork, ""},
		{"more than the network", tableConfig, peerLease(t, "10.4.0.0-15", 1), ErrOutsideNetwork, ""},
		{"elsewhere", tableConfig, peerLease(t, "10.6.30.0-24", 1), ErrOutsideNetwork, ""},
		{"half elsewhere", tableConfig, peerLease(t, "10.5.30.0-24&fd00:6:0:30::-64", 1), ErrOutsideNetwork, "fd00:6:0:30::/64"},
		{"host bits", tableConfig, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.Subnets = subnets("10.5.30.7/24") }), ErrOutsideNetwork, ""},
		{"no prefix", tableConfig, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.Subnets[IPv4] = netip.PrefixFrom(l.Subnets[IPv4].Addr(), 99) }), ErrOutsideNetwork, ""},
		{"families swapped", tableConfig, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.Subnets[0], l.Subnets[1] = l.Subnets[1], l.Subnets[0] }), ErrOutsideNetwork, ""},
		{"IPv4 as IPv6", tableConfig, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.Subnets[IPv6] = netip.MustParsePrefix("::ffff:10.5.30.0/120") }), ErrOutsideNetwork, ""},

		{"a part of ours", tableConfig, peerLease(t, "10.5.20.128-25", 1), ErrOwnSubnet, "10.5.20.128/25 and 10.5.20.0/24"},
		{"around ours", tableConfig, peerLease(t, "10.5.16.0-20", 0), ErrOwnSubnet, ""},
		{"ours in one family", tableConfig, peerLease(t, "10.5.30.0-24&fd00:5:0:20::-64", 0), ErrOwnSubnet, "fd00:5:0:20::/64"},
		{"ours under another key", tableConfig, peerLease(t, "10.5.20.0-24", 0), ErrOwnSubnet, ""},

		{"no address", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip()), ErrPublicIP, "has none"},
		{"our address", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("192.0.2.1")), ErrPublicIP, "this node's own"},
		{"our other address", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("192.0.2.9", "2001:db8::1")), ErrPublicIP, "this node's own"},
		{"loopback", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("127.0.0.1")), ErrPublicIP, "127.0.0.1"},
		{"multicast", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("224.0.0.1")), ErrPublicIP, ""},
		{"broadcast", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("255.255.255.255")), ErrPublicIP, ""},
		{"unspecified", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("0.0.0.0")), ErrPublicIP, ""},
		{"link-local", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("192.0.2.9", "fe80::1")), ErrPublicIP, ""},
		{"in another's subnet to be", tableConfig, peerLease(t, "10.5.30.0-24", 1, ip("10.5.99.7")), ErrPublicIP, "inside the overlay"},
		{"in its own subnet", tableConfig, peerLease(t, "10.5.0.0-24", 1, ip("10.5.0.7")), ErrPublicIP, "inside the overlay"},
		{"in the wrong place", tableConfig, peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.PublicIP[IPv4] = l.PublicIP[IPv6] }), ErrPublicIP, "not an IPv4 address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable(c.cfg, ownLease)
			good := peerLease(t, "10.5.77.0-24", 5)
			changes := table.Apply(Update{Complete: true, Leases: []Lease{ownLease, c.lease, good}})
			if c.want == nil {
				if len(changes.Set) != 2 || len(changes.Rejected) != 0 {
					t.Errorf("set %v, rejected %v", changes.Set, changes.Rejected)
				}
				return
			}
			if len(changes.Set) != 1 || changes.Set[0].Key != good.Key() {
				t.Errorf("set %v", changes.Set)
			}
			if len(changes.Rejected) != 1 {
				t.Fatalf("rejected %v", changes.Rejected)
			}
			r := changes.Rejected[0]
			if r.Key != c.lease.Key() || !errors.Is(r, c.want) || !strings.Contains(r.Error(), c.says) {
				t.Errorf("rejected with %v", r)
			}
		})
	}
}

// TestTableKeepsOwnAddressOut: our own host may be inside the network where the pool
// leaves room. A lease around its address would cut it off.
func TestTableKeepsOwnAddressOut(t *testing.T) {
	own := ownLease
	own.PublicIP = addresses("10.5.0.7")
	changes := NewTable(tableConfig, own).Apply(Update{Leases: []Lease{peerLease(t, "10.5.0.0-22", 1)}})
	if len(changes.Rejected) != 1 || !errors.Is(changes.Rejected[0], ErrPublicIP) {
		t.Errorf("%+v", changes)
	}
}

// TestTableKeepsHostsReachable: hosts may lie in the network where the pool leaves
// room. Of a lease that holds such a host's address and that host's own, the earlier
// one counts.
func TestTableKeepsHostsReachable(t *testing.T) {
	cfg, err := ParseConfig([]byte(`{"Network": "10.0.0.0/8", "SubnetMin": "10.128.0.0"}`))
	if err != nil {
		t.Fatal(err)
	}
	own := ownLease
	own.Subnets = subnets("10.200.0.0/24")
	inside := func(l *Lease) { l.PublicIP = Pair[netip.Addr]{netip.MustParseAddr("10.0.1.7")} }
	for _, created := range []int64{2, 9} {
		host, taker := peerLease(t, "10.128.1.0-24", created, inside), peerLease(t, "10.0.1.0-24", 5)
		want := host.Key()
		if created > 5 {
			want = taker.Key()
		}
		for _, list := range [][]Lease{{host, taker}, {taker, host}} {
			table := NewTable(cfg, own)
			for _, l := range list {
				table.Apply(Update{Leases: []Lease{l}})
			}
			if got := slices.Collect(maps.Keys(peersOf(table))); !slices.Equal(got, []string{want}) {
				t.Errorf("of %s and %s accepted: %v, want %s", list[0].Key(), list[1].Key(), got, want)
			}
			applyAndDrop(table, Update{Gone: []string{want}})
			if n := len(peersOf(table)); n != 1 {
				t.Errorf("when %s goes %d are accepted", want, n)
			}
		}
	}
}

func TestTableHidesFamilyThatIsOff(t *testing.T) {
	l := peerLease(t, "10.5.30.0-24&fd00:5:0:30::-64", 1, func(l *Lease) { l.BackendData = Pair[string]{`{"VNI":1}`, `{"VNI":2}`} })
	table := NewTable(config(tableConfig.Pools[IPv4]), ownLease)
	want := l
	want.Subnets[IPv6], want.BackendData[IPv6] = netip.Prefix{}, ""
	if c := table.Apply(Update{Leases: []Lease{l}}); len(c.Set) != 1 || c.Set[0].Key != l.Key() || *c.Set[0].Lease != want {
		t.Errorf("set %+v", c.Set)
	}
	// A family that is off is not checked.
	odd := l
	odd.Subnets[IPv6], odd.PublicIP[IPv6] = ownLease.Subnets[IPv6], netip.MustParseAddr("fe80::1")
	if c := table.Apply(Update{Gone: []string{l.Key()}, Leases: []Lease{odd}}); len(c.Set) != 1 || c.Set[0].Lease.PublicIP[IPv6].IsValid() {
		t.Errorf("set %+v, rejected %v", c.Set, c.Rejected)
	}
}

// TestTableKnowsOwn: with Given, a cluster may give subnets of a family that is off,
// under a key that differs from our own lease's.
func TestTableKnowsOwn(t *testing.T) {
	cfg, own := config(tableConfig.Pools[IPv4]), ownLease
	cfg.Given, own.Subnets[IPv6], own.Node.Name = true, netip.Prefix{}, "one"
	stored := peerLease(t, ownLease.Key(), 1, func(l *Lease) { l.Node.Name = "one" })
	table := NewTable(cfg, own)
	if c := table.Apply(Update{Leases: []Lease{stored}}); len(c.Set) > 0 || len(c.Rejected) > 0 {
		t.Errorf("the node's own: set %+v, rejected %v", c.Set, c.Rejected)
	}
	stored.Node.Name = "two"
	if c := table.Apply(Update{Leases: []Lease{stored}}); len(c.Set) > 0 || len(c.Rejected) != 1 || !errors.Is(c.Rejected[0], ErrOwnSubnet) {
		t.Errorf("another's: set %+v, rejected %v", c.Set, c.Rejected)
	}
}

// applyAndDrop applies u, and drops what begins to linger at once.
func applyAndDrop(table *Table, u Update) Changes {
	c := table.Apply(u)
	for range 2 {
		late := table.DropLingering()
		c.Drop, c.Set, c.Rejected = append(c.Drop, late.Drop...), append(c.Set, late.Set...), append(c.Rejected, late.Rejected...)
	}
	return c
}

// step is one update to a table, and the changes that it must return.
type step struct {
	name     string
	update   Update
	set      []string
	drop     []string
	rejected []string
}

func (s step) run(t *testing.T, table *Table) {
	t.Helper()
	s.check(t, applyAndDrop(table, s.update))
}

func (s step) check(t *testing.T, c Changes) {
	t.Helper()
	var set, rejected []string
	for _, p := range c.Set {
		set = append(set, p.Key)
	}
	for _, r := range c.Rejected {
		rejected = append(rejected, r.Key)
	}
	slices.Sort(set) // in order of creation, which the steps leave open
	if !slices.Equal(set, s.set) || !slices.Equal(c.Drop, s.drop) || !slices.Equal(rejected, s.rejected) {
		t.Errorf("%s:\n set      %v\n drop     %v\n rejected %v\nwant\n set      %v\n drop     %v\n rejected %v",
			s.name, set, c.Drop, c.Rejected, s.set, s.drop, s.rejected)
	}
}

func TestTableFollowsChanges(t *testing.T) {
	a, b := peerLease(t, "10.5.30.0-24", 1), peerLease(t, "10.5.31.0-24", 2)
	renewed := a
	renewed.Expires, renewed.Revision = time.Unix(2, 0), 3
	moved := renewed
	moved.BackendData[IPv4] = `{"VNI":1,"VtepMAC":"02:00:00:00:00:02"}`
	faulty := moved
	faulty.PublicIP = addresses("127.0.0.1")
	worse := faulty
	worse.PublicIP = addresses("127.0.0.2")
	garbled := &LeaseError{a.Key(), fmt.Errorf("%w: rubbish", ErrValue)}
	ka, kb := a.Key(), b.Key()
	table := NewTable(tableConfig, ownLease)
	for _, s := range []step{
		{"a list", Update{Complete: true, Leases: []Lease{b, ownLease, a}}, []string{ka, kb}, nil, nil},
		{"the same list", Update{Complete: true, Leases: []Lease{a, b, ownLease}}, nil, nil, nil},
		{"nothing", Update{}, nil, nil, nil},
		{"a renewal", Update{Leases: []Lease{renewed}}, nil, nil, nil},
		{"a new MAC", Update{Leases: []Lease{moved}}, []string{ka}, nil, nil},
		{"a list with the old MAC", Update{Complete: true, Leases: []Lease{a, b}}, []string{ka}, nil, nil},
		{"it becomes faulty", Update{Leases: []Lease{faulty}}, nil, []string{ka}, []string{ka}},
		{"and stays so", Update{Complete: true, Leases: []Lease{faulty, b}}, nil, nil, nil},
		{"faulty in another way", Update{Leases: []Lease{worse}}, nil, nil, []string{ka}},
		{"garbled", Update{Bad: []*LeaseError{garbled}}, nil, nil, []string{ka}},
		{"still garbled", Update{Complete: true, Leases: []Lease{b}, Bad: []*LeaseError{garbled}}, nil, nil, nil},
		{"corrected", Update{Leases: []Lease{a}}, []string{ka}, nil, nil},
		{"gone and back at once", Update{Gone: []string{ka}, Leases: []Lease{a}}, nil, nil, nil},
		{"gone", Update{Gone: []string{ka, "unknown"}}, nil, []string{ka}, nil},
		{"gone again", Update{Gone: []string{ka}}, nil, nil, nil},
		{"a list without the other", Update{Complete: true, Leases: []Lease{a}}, []string{ka}, []string{kb}, nil},
		{"an empty list", Update{Complete: true}, nil, []string{ka}, nil},
		{"rubbish never seen as a lease", Update{Bad: []*LeaseError{{"rubbish", ErrKey}}}, nil, nil, []string{"rubbish"}},
		{"and gone", Update{Gone: []string{"rubbish"}}, nil, nil, nil},
	} {
		s.run(t, table)
	}
	if len(table.Rejected()) != 0 || len(table.entries) != 0 {
		t.Errorf("left: %v, %v", table.Rejected(), table.entries)
	}
}

func TestTableOverlaps(t *testing.T) {
	old, young := peerLease(t, "10.5.30.0-24", 1), peerLease(t, "10.5.16.0-20", 2)
	next, far := peerLease(t, "10.5.31.0-24", 3), peerLease(t, "10.5.40.0-24", 4)
	// One key that sorts lower but was created later: only the order of creation
	// counts.
	v6 := peerLease(t, "10.5.22.0-24&fd00:5:0:30::-64", 5)
	v6too := peerLease(t, "10.5.23.0-24&fd00:5:0:30::-64", 6)
	// Away from our own 10.5.20.0/24.
	own := ownLease
	own.Subnets = subnets("10.5.250.0/24")
	table := NewTable(tableConfig, own)
	for _, s := range []step{
		{"the older holds", Update{Complete: true, Leases: []Lease{young, next, old, far}},
			[]string{"10.5.30.0-24", "10.5.31.0-24", "10.5.40.0-24"}, nil, []string{"10.5.16.0-20"}},
		{"written again, it is as old as before", Update{Leases: []Lease{peerLease(t, "10.5.30.0-24", 1, func(l *Lease) { l.Revision = 99 })}},
			nil, nil, nil},
		{"another holds it too", Update{Gone: []string{"10.5.30.0-24"}},
			[]string{"10.5.16.0-20"}, []string{"10.5.30.0-24", "10.5.31.0-24"}, []string{"10.5.31.0-24"}},
		{"back, it is the youngest", Update{Leases: []Lease{peerLease(t, "10.5.30.0-24", 9)}},
			nil, nil, []string{"10.5.30.0-24"}},
		{"in one family of two", Update{Leases: []Lease{v6}, Gone: []string{"10.5.16.0-20"}},
			[]string{"10.5.22.0-24&fd00:5:0:30::-64", "10.5.30.0-24", "10.5.31.0-24"}, []string{"10.5.16.0-20"}, nil},
		{"overlapping in the other", Update{Leases: []Lease{v6too}},
			nil, nil, []string{"10.5.23.0-24&fd00:5:0:30::-64"}},
		{"and its turn", Update{Gone: []string{v6.Key()}},
			[]string{"10.5.23.0-24&fd00:5:0:30::-64"}, []string{"10.5.22.0-24&fd00:5:0:30::-64"}, nil},
		{"a holder that is faulty holds nothing", Update{Leases: []Lease{peerLease(t, "10.5.40.0-24", 4, func(l *Lease) { l.BackendType = "x" }), peerLease(t, "10.5.40.0-25", 10)}},
			[]string{"10.5.40.0-25"}, []string{"10.5.40.0-24"}, []string{"10.5.40.0-24"}},
		{"until it is corrected", Update{Leases: []Lease{far}},
			[]string{"10.5.40.0-24"}, []string{"10.5.40.0-25"}, []string{"10.5.40.0-25"}},
	} {
		s.run(t, table)
	}
	if r := table.Rejected(); len(r) != 1 || !errors.Is(r[0], ErrOverlap) || !strings.Contains(r[0].Error(), "10.5.40.0-24") {
		t.Errorf("rejected %v", r)
	}
}

func TestTableReconfigure(t *testing.T) {
	a, b := peerLease(t, "10.5.30.0-24&fd00:5:0:30::-64", 1), peerLease(t, "10.5.31.0-24", 2)
	table := NewTable(tableConfig, ownLease)
	table.Apply(Update{Complete: true, Leases: []Lease{a, b, ownLease}})
	renewed := ownLease
	renewed.Expires = time.Unix(9, 0)
	moved := ownLease
	moved.Subnets = subnets("10.5.31.0/24", "fd00:5:0:31::/64")
	moved.PublicIP = addresses("192.0.2.2")
	for _, c := range []struct {
		cfg  Config
		own  Lease
		want step
	}{
		{tableConfig, renewed, step{name: "a renewal"}},
		{config(tableConfig.Pools[IPv4]), renewed, step{name: "IPv6 off", set: []string{a.Key()}}},
		{tableConfig, renewed, step{name: "IPv6 on", set: []string{a.Key()}}},
		{tableConfig, moved, step{
			// A lease that overlapped our former subnet is accepted; one that
			// overlaps our new subnet is not.
			name: "another lease of ours", set: []string{ownLease.Key()}, drop: []string{b.Key()}, rejected: []string{b.Key()},
		}},
		{tableConfig, ownLease, step{name: "and back", set: []string{b.Key()}, drop: []string{ownLease.Key()}}},
	} {
		c.want.check(t, table.Reconfigure(c.cfg, c.own))
	}
}

// TestTableLingers checks that a lease that goes stays accepted until the second
// DropLingering, unless another lease needs its subnet.
func TestTableLingers(t *testing.T) {
	a, b := peerLease(t, "10.5.30.0-24", 1), peerLease(t, "10.5.31.0-24", 2)
	a.Node, b.Node.ID = Node{ID: "a", Instance: "1"}, "b"
	b.PublicIP = addresses("192.0.2.99")
	ka, kb := a.Key(), b.Key()
	back := a
	back.Created, back.Revision = 9, 9
	stranger := func(l *Lease) { l.Node.ID, l.PublicIP = "c", addresses("192.0.2.77", "2001:db8::77") }
	for _, c := range []struct {
		name  string
		steps []step
		left  []string // lingering at the end
	}{
		{"it comes back", []step{
			{"gone", Update{Gone: []string{ka}}, nil, nil, nil},
			{"back", Update{Leases: []Lease{back}}, nil, nil, nil},
		}, nil},
		{"all are gone", []step{{"an empty list", Update{Complete: true}, nil, nil, nil}}, []string{ka, kb}},
		{"gone twice", []step{
			{"gone", Update{Gone: []string{ka}}, nil, nil, nil},
			{"an empty list", Update{Complete: true, Leases: []Lease{b}}, nil, nil, nil},
		}, []string{ka}},
		{"another wants it", []step{
			{"gone", Update{Gone: []string{ka}}, nil, nil, nil},
			{"another's, around it", Update{Leases: []Lease{peerLease(t, "10.5.30.0-23", 5, stranger)}}, nil, nil, []string{"10.5.30.0-23"}},
			{"the rest", Update{Gone: []string{kb}}, []string{"10.5.30.0-23"}, []string{ka, kb}, nil},
		}, nil},
		{"one waits for it", []step{
			{"the one", Update{Leases: []Lease{peerLease(t, "10.5.30.0-25", 5, stranger)}}, nil, nil, []string{"10.5.30.0-25"}},
			{"gone", Update{Gone: []string{ka}}, []string{"10.5.30.0-25"}, []string{ka}, nil},
		}, nil},
		{"its node has another", []step{
			{"moved", Update{Gone: []string{ka}, Leases: []Lease{peerLease(t, "10.5.77.0-24", 5, func(l *Lease) { l.Node = a.Node })}},
				[]string{"10.5.77.0-24"}, []string{ka}, nil},
		}, nil},
		{"a clone of its node has another", []step{
			{"gone", Update{Gone: []string{ka}}, nil, nil, nil},
			{"the clone's", Update{Leases: []Lease{peerLease(t, "10.5.77.0-24", 5, func(l *Lease) {
				l.Node, l.PublicIP = Node{ID: "a", Instance: "2"}, addresses("192.0.2.77", "2001:db8::77")
			})}}, []string{"10.5.77.0-24"}, nil, nil},
		}, []string{ka}},
		{"its installation has another, elsewhere and under another ID", []step{
			{"moved", Update{Gone: []string{ka}, Leases: []Lease{peerLease(t, "10.5.77.0-24", 5, func(l *Lease) {
				l.Node, l.PublicIP = Node{ID: "c", Instance: "1"}, addresses("192.0.2.77", "2001:db8::77")
			})}}, []string{"10.5.77.0-24"}, []string{ka}, nil},
		}, nil},
		{"rubbish in its place", []step{
			{"rubbish", Update{Bad: []*LeaseError{{ka, ErrValue}}}, nil, nil, []string{ka}},
		}, []string{ka}},
		{"rubbish when it is gone", []step{
			{"gone", Update{Gone: []string{ka}}, nil, nil, nil},
			{"rubbish", Update{Bad: []*LeaseError{{ka, ErrValue}}}, nil, nil, []string{ka}},
		}, []string{ka}},
		{"rubbish, and gone", []step{
			{"rubbish", Update{Bad: []*LeaseError{{ka, ErrValue}}}, nil, nil, []string{ka}},
			{"gone", Update{Gone: []string{ka}}, nil, nil, nil},
		}, []string{ka}},
		{"rubbish, and written again", []step{
			{"rubbish", Update{Complete: true, Leases: []Lease{b}, Bad: []*LeaseError{{ka, ErrValue}}}, nil, nil, []string{ka}},
			{"back", Update{Leases: []Lease{a}}, nil, nil, nil},
		}, nil},
		{"rubbish, and another wants it", []step{
			{"rubbish", Update{Bad: []*LeaseError{{ka, ErrValue}}}, nil, nil, []string{ka}},
			{"another's, inside it", Update{Leases: []Lease{peerLease(t, "10.5.30.0-25", 5, stranger)}}, []string{"10.5.30.0-25"}, []string{ka}, nil},
			{"gone", Update{Gone: []string{ka}}, nil, nil, nil},
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := NewTable(tableConfig, ownLease)
			table.Apply(Update{Complete: true, Leases: []Lease{a, b}})
			for _, s := range c.steps {
				s.check(t, table.Apply(s.update))
			}
			if table.Lingering() != (c.left != nil) {
				t.Errorf("lingering: %t", table.Lingering())
			}
			step{name: "the first burial"}.check(t, table.DropLingering())
			step{name: "the second", drop: c.left}.check(t, table.DropLingering())
			if table.Lingering() || len(table.leaving.nodes) != 0 {
				t.Errorf("left: %v", table.leaving)
			}
		})
	}
	// A lease of ours in place of one that lingers.
	table := NewTable(tableConfig, ownLease)
	table.Apply(Update{Complete: true, Leases: []Lease{a, b}})
	table.Apply(Update{Gone: []string{ka}})
	own := ownLease
	own.Subnets = a.Subnets
	step{name: "ours", drop: []string{ka}}.check(t, table.Reconfigure(tableConfig, own))
}
