package ipam

import (
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

func TestExhaustedSecondFamilyTakesNothing(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16").with6(64, "fd00::/63"))
	set(b, start, "n1", "n2", "n3")
	expect(t, next(b, start), "n1 10.0.0.0/24,fd00::/64", "n2 10.0.1.0/24,fd00:0:0:1::/64")
	for range 60 {
		expect(t, next(b, start))
	}
	expect(t, usage(b, start), "256 2 254 0 0 0", "2 2 0 0 0 0")
	expect(t, codes(b), "n3 exhausted")
	// A larger range serves the Node at once.
	if err := b.SetPools([]Pool{pool4("a", 24, "10.0.0.0/16").with6(64, "fd00::/62")}); err != nil {
		t.Fatal(err)
	}
	expect(t, next(b, start), "n3 10.0.2.0/24,fd00:0:0:2::/64")
}

func TestBlocksOfFormerMaskAreKept(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/22"))
	say(b, start, "old1", "10.0.0.0/27")
	say(b, start, "old2", "10.0.0.32/27")
	say(b, start, "old3", "10.0.1.0/25")
	b.Delete("old1", start)
	later := start.Add(DefaultRest)
	set(b, later, "n1", "n2", "n3")
	expect(t, next(b, later), "n1 10.0.2.0/24", "n2 10.0.3.0/24")
	expect(t, codes(b), "n3 exhausted")
	// The /24 is free only when the rest of its last part is over.
	b.Delete("old2", later)
	say(b, later, "part", "10.0.0.64/27")
	b.Delete("part", later.Add(time.Second))
	for f := range b.Findings() {
		if f.Code != Resting || !f.Again.Equal(later.Add(DefaultRest+time.Second)) {
			t.Errorf("%+v", f)
		}
	}
	expect(t, next(b, later.Add(DefaultRest)))
	later = later.Add(DefaultRest + time.Second)
	expect(t, next(b, later), "n3 10.0.0.0/24")
}

func TestDeletingNodeKeepsItsBlock(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23"))
	say(b, start, "n1", "10.0.0.0/24")
	b.Set(Node{Name: "n1", UID: "n1", CIDRs: []string{"10.0.0.0/24"}, Deleting: true}, start)
	set(b, start, "n2", "n3")
	later := start.Add(time.Hour)
	expect(t, next(b, later), "n2 10.0.1.0/24")
	expect(t, codes(b), "n3 exhausted")
	b.Delete("n1", later)
	expect(t, next(b, later))
	expect(t, next(b, later.Add(DefaultRest)), "n3 10.0.0.0/24")
}

func TestDeletingNodeGetsNoBlock(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23"))
	set(b, start, "n1")
	b.Set(Node{Name: "n1", UID: "n1", Deleting: true}, start)
	expect(t, next(b, start))
	// Granted before, it keeps the block until the write has failed.
	set(b, start, "n2")
	expect(t, next(b, start), "n2 10.0.0.0/24")
	b.Set(Node{Name: "n2", UID: "n2", Deleting: true}, start)
	expect(t, usage(b, start), "2 1 1 0 0 0")
	b.Settle("n2", "n2", Refused)
	expect(t, next(b, start))
	expect(t, usage(b, start), "2 0 2 0 0 0")
	expect(t, codes(b))
}

func TestRelabelledNodeKeepsItsBlock(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23").labelled("a"), pool4("b", 24, "10.1.0.0/23").labelled("b"))
	b.Set(Node{Name: "n1", UID: "1", Labels: map[string]string{"a": ""}}, start)
	expect(t, next(b, start), "n1 10.0.0.0/24")
	b.Settle("n1", "1", Written)
	for _, label := range []string{"b", "c", "a", "b"} {
		b.Set(Node{Name: "n1", UID: "1", CIDRs: []string{"10.0.0.0/24"}, Labels: map[string]string{label: ""}}, start)
		expect(t, next(b, start))
		expect(t, usage(b, start), "2 1 1 0 0 0", "2 0 2 0 0 0")
	}
	b.Delete("n1", start)
	expect(t, usage(b, start.Add(DefaultRest)), "2 0 2 0 0 0", "2 0 2 0 0 0")
}

func TestRelabelledNodeWaitsForOtherPools(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/24").labelled("a"), pool4("b", 24, "10.1.0.0/24").labelled("b"))
	b.Set(Node{Name: "n1", UID: "1", Labels: map[string]string{"c": ""}}, start)
	expect(t, next(b, start))
	expect(t, codes(b), "n1 no-pool")
	b.Set(Node{Name: "n1", UID: "1", Labels: map[string]string{"b": ""}}, start)
	expect(t, next(b, start), "n1 10.1.0.0/24")
	expect(t, codes(b))
}

func TestNodeOfIPv4PoolIsServed(t *testing.T) {
	b := bookOf(t, pool4("v4", 24, "10.0.0.0/24").labelled("a"), pool4("both", 24, "10.1.0.0/24").with6(64, "fd00::/64"))
	say(b, start, "n0", "10.0.0.0/24", "fd00::/64")
	b.Set(Node{Name: "n1", UID: "1", Labels: map[string]string{"a": ""}, Created: 1}, start)
	expect(t, next(b, start))
	b.Delete("n0", start)
	later := start.Add(DefaultRest)
	set(b, later, "n2")
	expect(t, next(b, later), "n1 10.0.0.0/24", "n2 10.1.0.0/24,fd00::/64")
}

func TestUnansweredWriteKeepsItsBlock(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23"))
	set(b, start, "n1", "n2", "n3")
	expect(t, next(b, start), "n1 10.0.0.0/24", "n2 10.0.1.0/24")
	b.Settle("n1", "n1", Ambiguous)
	b.Settle("n1", "other", Refused)
	b.Settle("n9", "n9", Refused)
	later := start.Add(time.Hour)
	set(b, later, "n1")
	expect(t, next(b, later))
	// The write was applied: a late refusal of it changes nothing.
	say(b, later, "n1", "10.0.0.0/24")
	b.Settle("n1", "n1", Refused)
	b.Settle("n2", "n2", Written)
	b.Settle("n2", "n2", Refused)
	expect(t, next(b, later))
	expect(t, usage(b, later), "2 2 0 0 0 0")
	// A Node that disappears before its answer may have used the block.
	b.Delete("n2", later)
	expect(t, next(b, later))
	expect(t, next(b, later.Add(DefaultRest)), "n3 10.0.1.0/24")
}

func TestAnotherProgramsBlockEndsTheGrant(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/22"))
	set(b, start, "n1", "n2")
	expect(t, next(b, start), "n1 10.0.0.0/24", "n2 10.0.1.0/24")
	say(b, start, "n2", "10.0.0.0/24")
	expect(t, codes(b), "n2 overlap")
	expect(t, usage(b, start), "4 1 2 1 0 0")
	// The server refuses the write for n1, and only n2 has the block.
	b.Settle("n1", "n1", Refused)
	expect(t, codes(b))
	expect(t, next(b, start), "n1 10.0.2.0/24")
}

func TestServiceRangeThatAppearsLater(t *testing.T) {
	p := pool4("a", 24, "10.0.0.0/22").with6(64, "fd00::/62")
	b := bookOf(t, p)
	say(b, start, "n1", "10.0.0.0/24", "fd00::/64")
	expect(t, codes(b))
	p.Reserved = prefixes("10.0.0.128/28", "10.0.1.0/24", "fd00:0:0:1::/112")
	if err := b.SetPools([]Pool{p}); err != nil {
		t.Fatal(err)
	}
	expect(t, codes(b), "n1 service-range")
	expect(t, usage(b, start), "4 0 2 0 2 0", "4 1 2 0 1 0")
	set(b, start, "n2", "n3", "n4")
	expect(t, next(b, start), "n2 10.0.2.0/24,fd00:0:0:2::/64", "n3 10.0.3.0/24,fd00:0:0:3::/64")
	if err := b.SetPools([]Pool{pool4("a", 24, "10.0.0.0/22").with6(64, "fd00::/62")}); err != nil {
		t.Fatal(err)
	}
	expect(t, codes(b))
	expect(t, next(b, start), "n4 10.0.1.0/24,fd00:0:0:1::/64")
}

// TestServiceRangesCountInAnyForm: other programs write them, in any notation.
func TestServiceRangesCountInAnyForm(t *testing.T) {
	p := pool4("a", 24, "10.0.0.0/22")
	p.Reserved = append(prefixes("10.0.0.77/25", "::ffff:10.0.1.0/121", "::ffff:0.0.0.0/90", "fe80::/10"), netip.Prefix{})
	b := bookOf(t, p)
	expect(t, usage(b, start), "4 0 2 0 2 0")
	set(b, start, "n1")
	expect(t, next(b, start), "n1 10.0.2.0/24")
}

func TestPoolGrowsAndDrains(t *testing.T) {
	p := pool4("a", 24, "10.0.0.0/23")
	b := bookOf(t, p)
	say(b, start, "n1", "10.0.0.0/24")
	p.Draining = p.Ranges[subnet.IPv4]
	p.Ranges[subnet.IPv4] = prefixes("10.0.0.0/23", "10.9.0.0/24", "10.9.0.0/23")
	if err := b.SetPools([]Pool{p}); err != nil {
		t.Fatal(err)
	}
	expect(t, usage(b, start), "4 1 2 0 0 1")
	// A Node does not get back its former block of a draining range.
	b.Delete("n1", start)
	set(b, start, "n1", "n2", "n3")
	expect(t, next(b, start), "n1 10.9.0.0/24", "n2 10.9.1.0/24")
	expect(t, usage(b, start), "4 2 0 0 0 2")
	expect(t, codes(b), "n3 exhausted")
	p.Draining = nil
	if err := b.SetPools([]Pool{p}); err != nil {
		t.Fatal(err)
	}
	expect(t, next(b, start), "n3 10.0.1.0/24")
}

func TestOldestNodeIsServedFirst(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/22"))
	for i, name := range []string{"d", "b", "c", "a", "e"} {
		b.Set(Node{Name: name, UID: name, Created: int64(10 - i/2)}, start)
	}
	expect(t, next(b, start), "e 10.0.0.0/24", "a 10.0.1.0/24", "c 10.0.2.0/24", "b 10.0.3.0/24")
	expect(t, codes(b), "d exhausted")
}

func TestFirstFamilyIsListedFirst(t *testing.T) {
	p := pool4("a", 24, "10.0.0.0/22").with6(64, "fd00::/62")
	p.First = subnet.IPv6
	b := bookOf(t, p)
	set(b, start, "n1")
	expect(t, next(b, start), "n1 fd00::/64,10.0.0.0/24")
}

func TestWrongPoolsChangeNothing(t *testing.T) {
	p := pool4("a", 24, "10.0.0.0/22")
	b := bookOf(t, p)
	for _, pools := range [][]Pool{{p, p}, {p, {}}} {
		if b.SetPools(pools) == nil {
			t.Errorf("accepted %+v", pools)
		}
	}
	if book, err := New([]Pool{{}}); err == nil || book != nil {
		t.Errorf("%v, %v", book, err)
	}
	set(b, start, "n1")
	expect(t, next(b, start), "n1 10.0.0.0/24")
}

// TestGrantIsACopy: changing a Grant does not change the Book.
func TestGrantIsACopy(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/22"))
	set(b, start, "n1")
	grants, _ := b.Next(start, 1)
	grants[0].CIDRs[0] = netip.MustParsePrefix("10.0.3.0/24")
	b.Settle("n1", "n1", Refused)
	expect(t, usage(b, start), "4 0 4 0 0 0")
}
