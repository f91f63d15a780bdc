package subnet

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
)

// TestTreapAgreesWithLinearSearch compares the treap with a linear search.
func TestTreapAgreesWithLinearSearch(t *testing.T) {
	rnd := seeded(t)
	for _, network := range []string{"10.5.0.0/22", "fd00:5::/118"} {
		root := netip.MustParsePrefix(network)
		random := func() netip.Prefix {
			a := number(root.Addr()).or(uint128{0, rnd.Uint64N(1024)}).addr()
			p, err := a.Prefix(a.BitLen() - rnd.IntN(11))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		family := FamilyOf(root.Addr())
		held := newHeld()[family]
		list := map[netip.Prefix]*entry{}
		for range 20000 {
			s := random()
			var want []string
			for q, e := range list {
				if q.Overlaps(s) {
					want = append(want, e.key)
				}
			}
			var got []string
			for e := range held.overlapping(s) {
				got = append(got, e.key)
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Fatalf("%v overlaps %v, want %v", s, got, want)
			}
			if len(want) == 0 {
				l := &Lease{}
				l.Subnets[family] = s
				list[s] = &entry{key: s.String(), visible: l}
				held.insert(list[s])
				continue
			}
			if rnd.IntN(3) == 0 {
				gone := slices.Collect(maps.Keys(list))[rnd.IntN(len(list))]
				held.remove(list[gone])
				delete(list, gone)
			}
		}
		for _, e := range list {
			held.remove(e)
		}
		if held.root != nil {
			t.Errorf("emptied, it still holds %v", held.root.subnet())
		}
	}
}
