package subnet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// unreadable is the backend type of a lease that the store cannot read.
const unreadable = "unreadable"

// model returns the leases that a table must accept, by the plain rule.
func model(cfg Config, own Lease, leases map[string]Lease) map[string]Lease {
	accepted := map[string]Lease{}
	order := slices.SortedFunc(maps.Values(leases), func(a, b Lease) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Key(), b.Key()))
	})
next:
	for _, whole := range order {
		l := cfg.visible(whole)
		if whole.Key() == own.Key() || whole.BackendType == unreadable || cfg.check(l, own) != nil {
			continue
		}
		for _, other := range accepted {
			for f := range l.Subnets {
				if l.Subnets[f].Overlaps(other.Subnets[f]) || l.Subnets[f].Contains(other.PublicIP[f]) || other.Subnets[f].Contains(l.PublicIP[f]) {
					continue next
				}
			}
		}
		accepted[whole.Key()] = l
	}
	return accepted
}

// follower is a caller of a table. It applies the changes that it gets.
type follower struct {
	t        *testing.T
	table    *Table
	peers    map[string]Lease
	rejected map[string]string
}

func (f *follower) take(c Changes) {
	f.t.Helper()
	for _, key := range c.Drop {
		if _, ok := f.peers[key]; !ok {
			f.t.Fatalf("%s is dropped, but was not set", key)
		}
		delete(f.peers, key)
	}
	for _, p := range c.Set {
		if before, ok := f.peers[p.Key]; ok && sameToPeers(&before, p.Lease) {
			f.t.Fatalf("%s is set to what it was", p.Key)
		}
		f.peers[p.Key] = *p.Lease
	}
	for _, r := range c.Rejected {
		if f.rejected[r.Key] == r.Err.Error() {
			f.t.Fatalf("reported twice: %v", r)
		}
		f.rejected[r.Key] = r.Err.Error()
	}
}

// check compares the caller's peers with want.
func (f *follower) check(want map[string]Lease) {
	f.t.Helper()
	held, peers := peersOf(f.table), maps.Clone(f.peers)
	for e := range f.table.leaving.entries {
		// A lingering lease adds to what the rule accepts, and displaces nothing.
		if _, reported := peers[e.key]; !reported || !e.held {
			f.t.Fatalf("%s lingers unknown to the caller", e.key)
		}
		for key, l := range want {
			for i := range l.Subnets {
				if e.visible.Subnets[i].Overlaps(l.Subnets[i]) {
					f.t.Fatalf("%s lingers beside %s", e.key, key)
				}
			}
		}
		delete(held, e.key)
		delete(peers, e.key)
	}
	same := func(a, b Lease) bool { return sameToPeers(&a, &b) }
	if f.table.Len() != len(f.peers) || !maps.Equal(held, want) || !maps.EqualFunc(peers, want, same) {
		f.t.Fatalf("reported %v\nheld %v\nwant %v", f.peers, held, want)
	}
	rejected := map[string]string{}
	for _, r := range f.table.Rejected() {
		rejected[r.Key] = r.Err.Error()
	}
	for key, why := range rejected {
		if f.rejected[key] != why {
			f.t.Fatalf("not reported that %s is rejected: %s", key, why)
		}
	}
	f.rejected = rejected
}

// randomLease returns one of few subnets of many lengths, valid or not.
func randomLease(rnd *rand.Rand, created int64) Lease {
	var l Lease
	if rnd.IntN(8) > 0 {
		a := netip.AddrFrom4([4]byte{10, 5, byte(16 + rnd.IntN(16)), byte(rnd.IntN(4) * 64)})
		l.Subnets[IPv4], _ = a.Prefix(20 + rnd.IntN(7))
	}
	if rnd.IntN(3) == 0 {
		a := number(netip.MustParseAddr("fd00:5:0:10::")).or(uint128{uint64(rnd.IntN(16)), 0}).addr()
		l.Subnets[IPv6], _ = a.Prefix(61 + rnd.IntN(4))
	}
	l.PublicIP = addresses(fmt.Sprintf("192.0.2.%d", rnd.IntN(60)), fmt.Sprintf("2001:db8::%x", 1+rnd.IntN(60)))
	l.BackendType = []string{"vxlan", "vxlan", "vxlan", "vxlan", "host-gw"}[rnd.IntN(5)]
	l.Node.MTU = rnd.IntN(3)
	// IDs and Instances change nothing in the rule.
	l.Node.ID, l.Node.Instance = []string{"", "a", "b"}[rnd.IntN(3)], []string{"", "1", "2"}[rnd.IntN(3)]
	l.Revision, l.Created = created, created
	return l
}

// TestTableAgreesWithTheRule applies random updates in random order. The table must
// accept what the rule accepts of the present leases, and report each difference
// once.
func TestTableAgreesWithTheRule(t *testing.T) {
	rnd := seeded(t)
	for range 60 {
		cfg, own, store := tableConfig, ownLease, map[string]Lease{}
		f := &follower{t, NewTable(cfg, own), map[string]Lease{}, map[string]string{}}
		for now := int64(1); now < 120; now++ {
			f.take(f.table.Apply(randomUpdate(rnd, store, now)))
			for range rnd.IntN(4) {
				f.take(f.table.DropLingering())
			}
			f.check(model(cfg, own, store))
			for key, l := range store {
				if l.BackendType == unreadable && f.rejected[key] == "" {
					t.Fatalf("not reported that %s cannot be read", key)
				}
			}
			entries := maps.Clone(store)
			for e := range f.table.leaving.entries {
				entries[e.key] = Lease{}
			}
			if len(f.table.entries) != len(entries) {
				t.Fatalf("%d entries of %d", len(f.table.entries), len(entries))
			}
			if rnd.IntN(10) > 0 {
				continue
			}
			if own = ownLease; rnd.IntN(2) == 0 {
				own.Subnets = randomLease(rnd, 0).Subnets
			}
			if cfg = tableConfig; rnd.IntN(2) == 0 {
				cfg.Pools[rnd.IntN(2)] = Pool{}
			}
			f.take(f.table.Reconfigure(cfg, own))
			f.check(model(cfg, own, store))
		}
	}
}

// randomUpdate changes store, and returns the update of a watch for it.
func randomUpdate(rnd *rand.Rand, store map[string]Lease, now int64) Update {
	var u Update
	touched := map[string]bool{}
	for range 1 + rnd.IntN(4) {
		l := randomLease(rnd, now/2)
		if keys := slices.Sorted(maps.Keys(store)); len(keys) > 0 && rnd.IntN(2) == 0 {
			l.Subnets = store[keys[rnd.IntN(len(keys))]].Subnets
		}
		key := l.Key()
		before, ok := store[key]
		switch {
		case touched[key]:
			continue
		case ok && rnd.IntN(3) > 0:
			delete(store, key)
			u.Gone = append(u.Gone, key)
		default:
			if ok {
				l.Created = before.Created
			}
			if rnd.IntN(6) == 0 {
				l.BackendType = unreadable
			}
			store[key] = l
			u = withLease(u, l)
		}
		touched[key] = true
	}
	if rnd.IntN(8) == 0 {
		return list(store)
	}
	return u
}

// withLease returns u with a lease added, or with an unreadable entry.
func withLease(u Update, l Lease) Update {
	if l.BackendType == unreadable {
		u.Bad = append(u.Bad, &LeaseError{l.Key(), ErrValue})
	} else {
		u.Leases = append(u.Leases, l)
	}
	return u
}

func list(store map[string]Lease) Update {
	u := Update{Complete: true}
	for _, l := range store {
		u = withLease(u, l)
	}
	return u
}

// TestTableDependsOnLeasesAlone checks that two tables with the same leases at the
// end accept the same, wherever they started and whatever they missed.
func TestTableDependsOnLeasesAlone(t *testing.T) {
	rnd := seeded(t)
	for range 100 {
		store := map[string]Lease{}
		followed := NewTable(tableConfig, ownLease)
		for now := int64(1); now < 60; now++ {
			applyAndDrop(followed, randomUpdate(rnd, store, now))
		}
		restarted := NewTable(tableConfig, ownLease)
		restarted.Apply(list(store))
		a, b := peersOf(followed), peersOf(restarted)
		if !maps.Equal(a, b) {
			t.Fatalf("followed  %v\nrestarted %v", a, b)
		}
		portioned := NewTable(tableConfig, ownLease)
		for _, u := range portioned.Portions(list(store), 1+rnd.IntN(5)) {
			if c := portioned.Apply(u); len(c.Drop) > 0 {
				t.Fatalf("a portion displaces %v", c.Drop)
			}
		}
		if c := peersOf(portioned); !maps.Equal(a, c) {
			t.Fatalf("whole       %v\nin portions %v", a, c)
		}
	}
}

// FuzzTable checks that a good lease which was there first stays accepted, whatever
// the store holds, and that every accepted lease is valid.
func FuzzTable(f *testing.F) {
	value := []byte(`{"PublicIP":"192.0.2.66","PublicIPv6":"2001:db8::66","BackendType":"vxlan"}`)
	for _, key := range []string{
		"10.5.30.0-24", "10.5.30.0-25", "10.5.16.0-20", "10.5.0.0-16", "0.0.0.0-0", "10.5.20.0-24", "rubbish",
		"10.5.31.0-24&fd00:5:0:30::-64", "10.5.40.0-24&fd00:5:0:20::-64", "fd00:5::-49",
	} {
		f.Add(key, value, "10.5.40.0-24", value, int64(2))
	}
	f.Fuzz(func(t *testing.T, key1 string, value1 []byte, key2 string, value2 []byte, created int64) {
		good := []Lease{
			peerLease(t, "10.5.30.0-24&fd00:5:0:30::-64", 0),
			peerLease(t, "10.5.32.0-21", 0),
			peerLease(t, "fd00:5:0:40::-60", 0),
		}
		table := NewTable(tableConfig, ownLease)
		table.Apply(Update{Complete: true, Leases: append(good, ownLease)})
		u := Update{}
		for key, value := range map[string][]byte{key1: value1, key2: value2} {
			l, err := ParseLease(key, value)
			var bad *LeaseError
			switch {
			case slices.ContainsFunc(good, func(g Lease) bool { return g.Key() == key }) || key == ownLease.Key():
				continue
			case errors.As(err, &bad):
				u.Bad = append(u.Bad, bad)
			default:
				// Never before the good lease.
				l.Created = max(1, created)
				u.Leases = append(u.Leases, l)
			}
		}
		table.Apply(u)
		accepted := peersOf(table)
		for _, g := range good {
			if accepted[g.Key()] != g {
				t.Fatalf("%s is no longer accepted", g.Key())
			}
		}
		for key, l := range accepted {
			if err := tableConfig.check(l, ownLease); err != nil {
				t.Fatal(err)
			}
			for other, m := range accepted {
				for f := range l.Subnets {
					if other != key && l.Subnets[f].Overlaps(m.Subnets[f]) {
						t.Fatalf("%s and %s are both accepted", key, other)
					}
				}
			}
		}
		if len(accepted)+len(table.Rejected()) != len(good)+len(u.Leases)+len(u.Bad) {
			t.Fatalf("%v accepted, %v rejected of %+v", accepted, table.Rejected(), u)
		}
		for _, l := range u.Leases {
			u.Gone = append(u.Gone, l.Key())
		}
		for _, b := range u.Bad {
			u.Gone = append(u.Gone, b.Key)
		}
		applyAndDrop(table, Update{Gone: u.Gone})
		if n := len(peersOf(table)); n != len(good) || len(table.Rejected()) != 0 {
			t.Fatalf("%d and %v are left", n, table.Rejected())
		}
	})
}

// peersOf returns a table's peers by key.
func peersOf(t *Table) map[string]Lease {
	peers := make(map[string]Lease)
	for key, l := range t.Peers() {
		peers[key] = *l
	}
	return peers
}
