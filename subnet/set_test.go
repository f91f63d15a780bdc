package subnet

import (
	"maps"
	"math"
	"net/netip"
	"slices"
	"testing"
)

// owned is a Set by the plain rules: the owners of each block.
type owned map[netip.Prefix]int

func (o owned) free(p netip.Prefix) bool {
	for q := range o {
		if q.Overlaps(p) {
			return false
		}
	}
	return true
}

// holes returns the free blocks in p that are no part of a larger one.
func (o owned) holes(p netip.Prefix) []netip.Prefix {
	if o.free(p) {
		return []netip.Prefix{p}
	}
	if p.IsSingleIP() {
		return nil
	}
	at := pathOf(p)
	return append(o.holes(at.part(0).prefix(p.Addr())), o.holes(at.part(1).prefix(p.Addr()))...)
}

// fit returns the block that fits best into one of the holes, and that hole's length.
func fit(holes []netip.Prefix, length int) (fits netip.Prefix, hole int) {
	hole = -1
	for _, h := range holes {
		if h.Bits() <= length && h.Bits() > hole {
			fits, hole = netip.PrefixFrom(h.Addr(), length), h.Bits()
		}
	}
	return fits, hole
}

func room(holes []netip.Prefix, length int) Room {
	r := Room{Largest: -1}
	for _, h := range holes {
		if size := math.Ldexp(1, length-h.Bits()); size >= 1 {
			r.Blocks += uint64(size)
		} else {
			r.Scraps += size
		}
		if r.Largest < 0 || h.Bits() < r.Largest {
			r.Largest = h.Bits()
		}
	}
	return r
}

// check compares all that s answers about p.
func (o owned) check(t *testing.T, s *Set, p netip.Prefix) {
	t.Helper()
	holes := o.holes(p)
	for length := p.Bits(); length <= p.Addr().BitLen(); length++ {
		got, hole := s.Fit(p, length)
		if want, in := fit(holes, length); got != want || hole != in {
			t.Fatalf("a /%d in %v: %v in a /%d, want %v in a /%d, with %v taken", length, p, got, hole, want, in, o)
		}
		if got, want := s.Room(p, length), room(holes, length); got != want {
			t.Fatalf("for a /%d, %v has %+v, want %+v, with %v taken", length, p, got, want, o)
		}
	}
	if got := slices.Collect(s.Holes(p)); !slices.Equal(got, holes) {
		t.Fatalf("%v has the holes %v, want %v, with %v taken", p, got, holes, o)
	}
	overlapping := owned{}
	for q, n := range s.Overlapping(p) {
		overlapping[q] = n
	}
	want := maps.Clone(o)
	maps.DeleteFunc(want, func(q netip.Prefix, _ int) bool { return !q.Overlaps(p) })
	if !maps.Equal(overlapping, want) {
		t.Fatalf("%v overlaps %v, want %v", p, overlapping, want)
	}
}

// TestSetAgreesWithPlainRules compares a Set with lists and loops, after random
// changes.
func TestSetAgreesWithPlainRules(t *testing.T) {
	rnd := seeded(t)
	for _, network := range []string{"10.5.0.0/24", "fd00:5::/120", "0.0.0.0/0", "::/0", "255.255.255.255/32", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"} {
		root := netip.MustParsePrefix(network)
		random := func() netip.Prefix {
			first := pathOf(root).first
			if root.Bits() == 0 {
				// Few addresses, far apart.
				first = uint128{0, rnd.Uint64N(4)<<30 | 0xffff<<32}
				if root.Addr().Is6() && rnd.IntN(2) == 0 {
					first = uint128{rnd.Uint64N(4) << 62, rnd.Uint64N(4)}
				}
			} else {
				first = first.or(uint128{0, rnd.Uint64()}.and(ones(128 - depthOf(root, root.Bits()))))
			}
			a := path{first, 128}.prefix(root.Addr()).Addr()
			p, err := a.Prefix(a.BitLen() - rnd.IntN(min(a.BitLen(), 11)))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		for range 5 {
			var s Set
			o := owned{}
			for range 40 {
				p := random()
				switch rnd.IntN(3) {
				case 0:
					if had := o[p] > 0; s.Free(p) != had {
						t.Fatalf("freed %v: %v, want %v", p, !had, had)
					}
					if o[p]--; o[p] <= 0 {
						delete(o, p)
					}
				default:
					s.Take(p)
					o[p]++
				}
				if root.Bits() > 0 {
					o.check(t, &s, root)
				}
				o.check(t, &s, random())
			}
			for p, n := range o {
				for range n {
					s.Free(p)
				}
			}
			if s.root != nil {
				t.Fatalf("emptied, it still holds %v", s.root.path)
			}
		}
	}
}

func TestSetFitsIntoSmallestHole(t *testing.T) {
	var s Set
	for _, p := range []string{"10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/25", "10.0.4.0/22"} {
		s.Take(netip.MustParsePrefix(p))
	}
	for _, want := range []string{"10.0.3.128/26", "10.0.1.0/25", "10.0.1.128/25", "10.0.8.0/24", "10.0.128.0/17"} {
		want := netip.MustParsePrefix(want)
		got, hole := s.Fit(netip.MustParsePrefix("10.0.0.0/16"), want.Bits())
		if hole < 0 || got != want {
			t.Errorf("a /%d is %v, want %v", want.Bits(), got, want)
		}
		s.Take(got)
	}
	if p, hole := s.Fit(netip.MustParsePrefix("10.0.0.0/16"), 17); hole >= 0 {
		t.Errorf("another /17 fits: %v", p)
	}
}

func TestSetIgnoresWhatIsNoBlock(t *testing.T) {
	var s Set
	s.Take(netip.Prefix{})
	if s.Free(netip.Prefix{}) || s.root != nil {
		t.Error("nothing was taken")
	}
	network := netip.MustParsePrefix("10.0.0.0/16")
	for _, length := range []int{-1, 15, 33, 129} {
		if p, hole := s.Fit(network, length); hole >= 0 {
			t.Errorf("a /%d in %v: %v", length, network, p)
		}
	}
	if p, hole := s.Fit(netip.Prefix{}, 24); hole >= 0 {
		t.Errorf("in nothing: %v", p)
	}
	if r := s.Room(netip.Prefix{}, 24); r != (Room{Largest: -1}) {
		t.Errorf("in nothing: %+v", r)
	}
	for range s.Holes(netip.Prefix{}) {
		t.Error("nothing has holes")
	}
	for range s.Overlapping(netip.Prefix{}) {
		t.Error("nothing overlaps")
	}
	// Host bits do not count.
	s.Take(netip.MustParsePrefix("10.0.1.7/24"))
	if got := slices.Collect(maps.Keys(maps.Collect(s.Overlapping(network)))); !slices.Equal(got, []netip.Prefix{netip.MustParsePrefix("10.0.1.0/24")}) {
		t.Errorf("taken are %v", got)
	}
}

func TestSetCountsVastRooms(t *testing.T) {
	var s Set
	all := netip.MustParsePrefix("::/0")
	if r := s.Room(all, 128); r.Blocks != math.MaxUint64 || r.Largest != 0 {
		t.Errorf("%+v", r)
	}
	s.Take(netip.MustParsePrefix("8000::/1"))
	s.Take(netip.MustParsePrefix("::1/128"))
	if r := s.Room(all, 64); r.Blocks != 1<<63-1 || r.Largest != 2 || math.Abs(r.Scraps-1) > 1e-9 {
		t.Errorf("%+v", r)
	}
	if r := s.Room(all, 65); r.Blocks != math.MaxUint64 {
		t.Errorf("%+v", r)
	}
}

func BenchmarkSet(b *testing.B) {
	for _, c := range []struct {
		name, network string
		length        int
	}{{"65536_of_IPv4", "10.0.0.0/8", 24}, {"65536_of_IPv6", "fd00:5::/48", 64}} {
		network := netip.MustParsePrefix(c.network)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var s Set
				for range 1 << 16 {
					p, hole := s.Fit(network, c.length)
					if hole < 0 {
						b.Fatal("full")
					}
					s.Take(p)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(1<<16), "ns/block")
		})
	}
}
