package subnet

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// config returns the config of a network with these pools.
func config(pools ...Pool) Config {
	cfg := Config{Backend: Backend{Type: "vxlan"}}
	for _, p := range pools {
		cfg.Pools[FamilyOf(p.Min)] = p
	}
	return cfg
}

// claimOf returns the claim of a node with this identity.
func claimOf(id string) Claim {
	return Claim{Attrs: Attrs{BackendType: "vxlan", Node: Node{ID: id}}}
}

func candidates(t testing.TB, cfg Config, leases []Lease, claim Claim) iter.Seq[Pair[netip.Prefix]] {
	t.Helper()
	seq, err := Candidates(cfg, leases, claim)
	if err != nil {
		t.Fatal(err)
	}
	return seq
}

// first returns the first candidate of a node.
func first(t testing.TB, cfg Config, leases []Lease, claim Claim) Pair[netip.Prefix] {
	t.Helper()
	for s := range candidates(t, cfg, leases, claim) {
		return s
	}
	t.Fatal("no candidate")
	panic("unreachable")
}

// randomLeases returns leases of any length in and around p.
func randomLeases(rnd *rand.Rand, p Pool, n int) []Lease {
	leases := make([]Lease, n)
	for i := range leases {
		s := p.Subnet(rnd.Uint64N(p.Count()))
		if rnd.IntN(4) == 0 {
			s, _ = s.Addr().Prefix(min(p.SubnetLen+rnd.IntN(7)-3, p.Min.BitLen()))
		}
		leases[i].Subnets[FamilyOf(p.Min)] = s
	}
	return leases
}

// TestCandidatesReachEveryFreeSubnet checks that each free subnet comes once, nothing
// else comes, and the order repeats.
func TestCandidatesReachEveryFreeSubnet(t *testing.T) {
	rnd := seeded(t)
	for _, p := range []Pool{
		pool("10.5.0.0/28", 30, "10.5.0.4", "10.5.0.4"),
		pool("10.5.0.0/28", 30, "10.5.0.0", "10.5.0.12"),
		pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0"),
		pool("10.0.0.0/8", 21, "10.3.8.0", "10.200.0.0"),
		pool("fd00:5::/48", 64, "fd00:5:0:1::", "fd00:5:0:ffff::"),
	} {
		f := FamilyOf(p.Min)
		cfg := config(p)
		for round := range 10 {
			leases := randomLeases(rnd, p, rnd.IntN(int(min(p.Count(), 300))))
			claim := claimOf(fmt.Sprintf("node-%d", round))
			claim.Want[f] = p.Subnet(rnd.Uint64N(p.Count()))
			free := map[netip.Prefix]bool{}
			for i := range p.Count() {
				free[p.Subnet(i)] = true
			}
			for _, l := range leases {
				if first, end, ok := p.window().span(l.Subnets[f]); ok && l.Subnets[f].Bits() > p.Network.Bits() {
					for i := first; i <= end; i++ {
						delete(free, p.Subnet(i))
					}
				}
			}
			seq, err := Candidates(cfg, leases, claim)
			if err != nil {
				if len(free) > 0 || !errors.Is(err, ErrOutOfSubnets) {
					t.Fatalf("%d of %+v are free: %v", len(free), p, err)
				}
				continue
			}
			var order []Pair[netip.Prefix]
			for s := range seq {
				if s[1-f].IsValid() || !free[s[f]] {
					t.Fatalf("%v is not free, or comes twice, in %+v", s, p)
				}
				delete(free, s[f])
				order = append(order, s)
			}
			if len(free) > 0 {
				t.Fatalf("%d never came up in %+v", len(free), p)
			}
			if again := slices.Collect(seq); !slices.Equal(again, order) {
				t.Fatalf("asked again, another order of %+v", p)
			}
		}
	}
}

// TestTakenOfSmallAndLargePools checks that bitmap and spans agree, with pools that
// differ by one subnet in size.
func TestTakenOfSmallAndLargePools(t *testing.T) {
	rnd := seeded(t)
	small := pool("fd00::/96", 126, "fd00::4", "fd00::100:0")
	large := pool("fd00::/96", 126, "fd00::4", "fd00::100:4")
	leases := randomLeases(rnd, small, 5000)
	none := func(*Lease) bool { return false }
	a, b := takenOf(small, IPv6, leases, none), takenOf(large, IPv6, leases, none)
	if a.bitmap == nil || b.bitmap != nil {
		t.Fatal("the two are kept in the same way")
	}
	for range 100000 {
		i := rnd.Uint64N(small.Count())
		if x, y := a.next(i), b.next(i); x != y {
			t.Fatalf("after %d the next free one is %d or %d", i, x, y)
		}
	}
	n := uint64(0)
	for i := a.next(0); i < a.count; i = a.next(i + 1) {
		n++
	}
	for _, s := range b.spans {
		n += s.last - s.first + 1
	}
	// A lease beyond the end of the small pool may take the last subnet of the large
	// one.
	if n != a.count && n != a.count+1 {
		t.Errorf("%d free and taken together, of %d", n, a.count)
	}
}

func TestCandidatesOfBothFamilies(t *testing.T) {
	for _, c := range []struct{ p4, p6 Pool }{
		{pool("10.5.0.0/24", 28, "10.5.0.16", "10.5.0.240"), pool("fd00::/120", 124, "fd00::10", "fd00::30")},
		{pool("10.5.0.0/24", 28, "10.5.0.16", "10.5.0.48"), pool("fd00::/120", 124, "fd00::10", "fd00::f0")},
		{pool("10.5.0.0/24", 28, "10.5.0.16", "10.5.0.240"), pool("fd00::/120", 124, "fd00::10", "fd00::f0")},
		{pool("10.5.0.0/24", 28, "10.5.0.16", "10.5.0.16"), pool("fd00::/120", 124, "fd00::10", "fd00::10")},
	} {
		seen := Pair[map[netip.Prefix]bool]{{}, {}}
		pairs := map[Pair[netip.Prefix]]bool{}
		for s := range candidates(t, config(c.p4, c.p6), nil, claimOf("a")) {
			if pairs[s] {
				t.Errorf("%v comes twice", s)
			}
			pairs[s] = true
			for f := range s {
				seen[f][s[f]] = true
			}
		}
		n4, n6 := int(c.p4.Count()), int(c.p6.Count())
		if len(seen[IPv4]) != n4 || len(seen[IPv6]) != n6 || len(pairs) != max(n4, n6) {
			t.Errorf("%d and %d in %d candidates, of %d and %d", len(seen[IPv4]), len(seen[IPv6]), len(pairs), n4, n6)
		}
	}
}

func TestCandidatesBeginWithWantedSubnet(t *testing.T) {
	p4, p6 := pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0"), pool("fd00:5::/48", 64, "fd00:5:0:1::", "fd00:5:0:ffff::")
	other := Lease{Subnets: subnets("10.5.9.0/24"), Attrs: claimOf("b").Attrs, Expires: time.Unix(1, 0)}
	mine := Lease{Subnets: subnets("10.5.7.0/24"), Attrs: claimOf("a").Attrs, Expires: time.Unix(1, 0)}
	reserved := Lease{Subnets: subnets("10.5.8.0/24"), Attrs: claimOf("a").Attrs}
	leases := []Lease{other, mine, reserved}
	for text, granted := range map[string]bool{
		"10.5.7.0/24": true, "10.5.33.0/24": true,
		"10.5.8.0/24": false, "10.5.9.0/24": false, "10.5.0.0/24": false, "10.5.33.0/25": false, "10.6.7.0/24": false,
	} {
		claim := claimOf("a")
		claim.Want = subnets(text)
		for name, cfg := range map[string]Config{"IPv4": config(p4), "both": config(p4, p6)} {
			if got := first(t, cfg, leases, claim); (got[IPv4] == claim.Want[IPv4]) != granted {
				t.Errorf("%s: wanted %s, got %v", name, text, got)
			}
		}
	}
}

func TestCandidatesReportFullPool(t *testing.T) {
	p4, p6 := pool("10.5.0.0/28", 30, "10.5.0.4", "10.5.0.12"), pool("fd00::/124", 126, "fd00::4", "fd00::c")
	for name, c := range map[string]struct {
		cfg    Config
		leases []Lease
		says   string
	}{
		"each leased": {config(p4), []Lease{{Subnets: subnets("10.5.0.4/30")}, {Subnets: subnets("10.5.0.8/30")}, {Subnets: subnets("10.5.0.12/30")}},
			"all 3 IPv4 subnets from 10.5.0.4/30 to 10.5.0.12/30 are leased; widen the network"},
		"a larger and a smaller": {config(p4), []Lease{{Subnets: subnets("10.5.0.0/29")}, {Subnets: subnets("10.5.0.8/29")}}, "all 3 IPv4"},
		"one family":             {config(p4, p6), []Lease{{Subnets: subnets("fd00::/125")}, {Subnets: subnets("fd00::8/125")}}, "all 3 IPv6"},
	} {
		_, err := Candidates(c.cfg, c.leases, claimOf("a"))
		if !errors.Is(err, ErrOutOfSubnets) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestCandidatesIgnoreLeaseOfWholeNetwork: such a lease takes no subnet from a node.
func TestCandidatesIgnoreLeaseOfWholeNetwork(t *testing.T) {
	p4, p6 := pool("10.5.0.0/28", 30, "10.5.0.4", "10.5.0.12"), pool("fd00::/124", 126, "fd00::4", "fd00::c")
	leases := []Lease{{Subnets: subnets("10.5.0.0/28")}, {Subnets: subnets("fd00::/16")}, {Subnets: subnets("0.0.0.0/0")}}
	if _, err := Candidates(config(p4, p6), leases, claimOf("a")); err != nil {
		t.Error(err)
	}
}

// TestCandidatesFindTheFewLeft: a lease of all but a few of 2^56 subnets must neither
// hide these nor delay the search.
func TestCandidatesFindTheFewLeft(t *testing.T) {
	p := pool("fd00::/8", 64, "fd00::", "fdff:ffff:ffff:ffff::")
	var leases []Lease
	for bits := 9; bits <= 64; bits++ {
		// Half of what is left, each time.
		s := netip.PrefixFrom(number(p.Min).or(uint128{1 << (64 - bits), 0}).addr(), bits)
		leases = append(leases, Lease{Subnets: subnets(s.String())})
	}
	got := slices.Collect(candidates(t, config(p), leases, claimOf("a")))
	if want := []Pair[netip.Prefix]{subnets("fd00::/64")}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCandidatesNeverChange: the order is a promise. A node that asks again with
// another release must find its former subnet.
func TestCandidatesNeverChange(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want []Pair[netip.Prefix]
	}{
		{config(pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")),
			[]Pair[netip.Prefix]{subnets("10.5.205.0/24"), subnets("10.5.189.0/24"), subnets("10.5.173.0/24")}},
		{config(pool("fd00:5::/48", 64, "fd00:5:0:1::", "fd00:5:0:ffff::")),
			[]Pair[netip.Prefix]{subnets("fd00:5:0:bf6a::/64"), subnets("fd00:5:0:e9dd::/64"), subnets("fd00:5:0:1451::/64")}},
	} {
		var got []Pair[netip.Prefix]
		for s := range candidates(t, c.cfg, nil, claimOf("8f3c4d5e6f708192a3b4c5d6e7f80912")) {
			if got = append(got, s); len(got) == 3 {
				break
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

// TestCandidatesRarelyMeet starts a thousand nodes at once, each with the same empty
// list. They collide no more often than by chance: n²/2m pairs, here 7.6.
func TestCandidatesRarelyMeet(t *testing.T) {
	rnd := seeded(t)
	for _, p := range []Pool{
		pool("10.0.0.0/8", 24, "10.0.1.0", "10.255.255.0"),
		pool("fd00::/48", 64, "fd00:0:0:1::", "fd00:0:0:ffff::"),
	} {
		const nodes = 1000
		seen := map[Pair[netip.Prefix]]int{}
		var losers []Claim
		met := 0
		for i := range nodes {
			// Identities as machines have them, and identities that differ as little
			// as possible.
			id := fmt.Sprintf("node-%04d.cluster.example", i)
			if i%2 == 0 {
				id = fmt.Sprintf("%016x%016x", rnd.Uint64(), rnd.Uint64())
			}
			s := first(t, config(p), nil, claimOf(id))
			if met += seen[s]; seen[s] > 0 {
				losers = append(losers, claimOf(id))
			}
			seen[s]++
		}
		if mean := float64(nodes*nodes) / 2 / float64(p.Count()); float64(met) > 4*mean {
			t.Errorf("%d pairs of %d nodes met, by chance %.1f", met, nodes, mean)
		}
		// Nodes that lost a race try different subnets next.
		var leases []Lease
		for s := range seen {
			leases = append(leases, Lease{Subnets: s})
		}
		again := map[Pair[netip.Prefix]]bool{}
		for _, claim := range losers {
			again[first(t, config(p), leases, claim)] = true
		}
		if len(again) < len(losers)-1 {
			t.Errorf("%d losers went %d ways", len(losers), len(again))
		}
	}
}

// TestCandidatesAreSticky checks that a node keeps its subnet while other nodes come
// and go.
func TestCandidatesAreSticky(t *testing.T) {
	rnd := seeded(t)
	p := pool("10.5.0.0/16", 24, "10.5.1.0", "10.5.255.0")
	for i := range 200 {
		claim := claimOf(fmt.Sprintf("node-%d", i))
		before := first(t, config(p), nil, claim)
		leases := slices.DeleteFunc(randomLeases(rnd, p, 100), func(l Lease) bool {
			return l.Subnets[IPv4].Overlaps(before[IPv4])
		})
		if after := first(t, config(p), leases, claim); after != before {
			t.Errorf("%s had %v and gets %v", claim.Node.ID, before, after)
		}
	}
}
