package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// start is when the tests begin.
var start = time.Unix(1_000_000, 0).UTC()

func bookOf(t *testing.T, pools ...Pool) *Book {
	t.Helper()
	b, err := New(pools)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// set records Nodes by their names. Each later one is younger.
func set(b *Book, now time.Time, names ...string) {
	for _, name := range names {
		b.Set(Node{Name: name, UID: name, Created: int64(len(b.nodes))}, now)
	}
}

// say records a Node that has podCIDRs.
func say(b *Book, now time.Time, name string, cidrs ...string) {
	b.Set(Node{Name: name, UID: name, CIDRs: cidrs, Created: int64(len(b.nodes))}, now)
}

// next returns what Next grants, as "name CIDR,CIDR".
func next(b *Book, now time.Time) (granted []string) {
	grants, _ := b.Next(now, 1000)
	for _, g := range grants {
		granted = append(granted, g.Node+" "+strings.Trim(strings.ReplaceAll(fmt.Sprint(g.CIDRs), " ", ","), "[]"))
	}
	return granted
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// codes returns what is found, as "name code".
func codes(b *Book) (found []string) {
	for f := range b.Findings() {
		found = append(found, f.Node+" "+string(f.Code))
	}
	return found
}

// usage returns total, used, free, resting, reserved and draining of each pool and
// family.
func usage(b *Book, now time.Time) (all []string) {
	for _, u := range b.Usage(now) {
		all = append(all, fmt.Sprint(u.Total, u.Used, u.Free, u.Resting, u.Reserved, u.Draining))
	}
	return all
}

func TestExhaustedSecondFamilyTakesNothing(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16").with6(64, "fd00::/63"))
	set(b, start, "n1", "n2", "n3")
	expect(t, next(b, start), "n1 10.0.0.0/24,fd00::/64", "n2 10.0.1.0/24,fd00:0:0:1::/64")
	for range 60 {
		expect(t, next(b, start))
	}
	expect(t, usage(b, start), "256 2 254 0 0 0", "2 2 0 0 0 0")
	expect(t, codes(b), "n3 exhausted")
	// A larger range ends that at once.
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
	// The /24 is free when the last part of it has rested, not before.
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

func TestGarbageIsAFindingAndNothingElse(t *testing.T) {
	for _, c := range []struct {
		cidrs []string
		codes string
		used  string // what is left of the /29's eight /32
	}{
		{[]string{"10.0.0.0/32"}, "", "1"},
		{[]string{"10.0.0.0/30"}, "", "4"},
		{[]string{"10.0.0.3/30"}, "host-bits", "4"},
		{[]string{"::ffff:10.0.0.4/126"}, "ipv4-mapped", "4"},
		{[]string{"::ffff:10.0.0.5/126"}, "ipv4-mapped", "4"},
		{[]string{"::ffff:10.0.0.4/90"}, "host-bits outside", "0"},
		{[]string{"010.000.0.01/32"}, "malformed", "1"},
		{[]string{"10.0.0.0/030"}, "malformed", "4"},
		{[]string{"10.0.0.0"}, "malformed", "0"},
		{[]string{""}, "malformed", "0"},
		{[]string{"10.0.0.0/33", "\x00", "fe80::%eth0/64"}, "too-many malformed malformed malformed", "0"},
		{[]string{strings.Repeat("9", 100_000)}, "malformed", "0"},
		{[]string{"10.0.0.1/32", "10.0.0.1/32"}, "duplicate", "1"},
		{[]string{"10.0.0.1/32", "10.0.0.2/32"}, "same-family", "2"},
		{[]string{"10.0.0.0/30", "10.0.0.1/32"}, "same-family", "4"},
		{[]string{"10.0.0.1/32", "fd00::1/128"}, "outside", "1"},
		{[]string{"fd00::1/128", "10.0.0.1/32", "10.0.0.2/32"}, "too-many same-family outside", "2"},
		{[]string{"192.0.2.0/24"}, "outside", "0"},
		{[]string{"10.0.0.0/29"}, "whole-range", "8"},
		{[]string{"0.0.0.0/0"}, "whole-range", "8"},
		{slices.Repeat([]string{"10.0.0.7/32"}, 100_000), "too-many" + strings.Repeat(" duplicate", mostCIDRs-1), "1"},
	} {
		b := bookOf(t, pool4("a", 32, "10.0.0.0/29"))
		say(b, start, "bad", c.cidrs...)
		say(b, start, "bad", c.cidrs...)
		set(b, start, "good")
		var got []string
		for f := range b.Findings() {
			got = append(got, string(f.Code))
			if f.Node != "bad" || !strings.Contains(f.Text, "re-create the Node") || len(f.Text) > 300 {
				t.Errorf("%.100q: %+v", c.cidrs, f)
			}
		}
		if strings.Join(got, " ") != c.codes {
			t.Errorf("%.100q: found %q, want %q", c.cidrs, got, c.codes)
		}
		if u := b.Usage(start)[0]; fmt.Sprint(u.Used) != c.used || u.Used+u.Free != 8 {
			t.Errorf("%.100q: %+v, want %s used", c.cidrs, u, c.used)
		}
		if granted := next(b, start); (len(granted) == 1) != (c.used != "8") {
			t.Errorf("%.100q: granted %v", c.cidrs, granted)
		}
	}
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

func TestExhaustionCarriesNumbersAndFix(t *testing.T) {
	p := pool4("cluster", 24, "10.0.0.0/21").with6(64, "fd00::/48")
	p.Reserved = prefixes("10.0.0.0/23")
	p.Draining = prefixes("10.0.2.0/24")
	p.Grow = "add a range to the setting"
	b := bookOf(t, p)
	for i := range 4 {
		say(b, start, fmt.Sprint("n", i), fmt.Sprintf("10.0.%d.0/24", i+3))
	}
	set(b, start, "n4", "n5", "n6")
	later := start.Add(time.Second)
	expect(t, next(b, later), "n4 10.0.7.0/24,fd00::/64")
	text := func(f Finding) string {
		return fmt.Sprint(f.Node, " ", f.UID, " ", f.Pool, " ", f.Family, ": ", f.Text)
	}
	var found []string
	for f := range b.Findings() {
		found = append(found, text(f))
	}
	expect(t, found,
		"n5 n5 cluster IPv4: pool cluster has no free IPv4 block of /24: 5 of 8 used, 0 free, 0 resting, 2 reserved by service ranges, 1 draining; add a range to the setting, or delete Nodes that are not needed",
		"n6 n6 cluster IPv4: pool cluster has no free IPv4 block of /24: 5 of 8 used, 0 free, 0 resting, 2 reserved by service ranges, 1 draining; add a range to the setting, or delete Nodes that are not needed")
	// What rests is reported as resting, and when it ends.
	b.Delete("n1", later)
	grants, again := b.Next(later, 10)
	if len(grants) > 0 || !again.Equal(later.Add(DefaultRest)) {
		t.Errorf("granted %v, again %v", grants, again)
	}
	for f := range b.Findings() {
		if f.Code != Resting || !f.Again.Equal(again) || !strings.Contains(f.Text, ": 4 of 8 used, 0 free, 1 resting, ") || !strings.Contains(f.Text, "the next block has rested at 1970-01-12T13:47:41Z; add a range") {
			t.Errorf("%+v", f)
		}
	}
	if grants, again := b.Next(again, 10); len(grants) != 1 || grants[0].Node != "n5" || !again.IsZero() {
		t.Errorf("granted %v, again %v", grants, again)
	}
	expect(t, codes(b), "n6 exhausted")
}

func TestExhaustionByFragmentsNamesTheLargestHole(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23"))
	say(b, start, "n1", "10.0.0.0/26")
	say(b, start, "n2", "10.0.1.128/25")
	set(b, start, "n3")
	expect(t, next(b, start))
	for f := range b.Findings() {
		if !strings.Contains(f.Text, ": 2 of 2 used, 0 free, 0 resting, 0 reserved by service ranges, the largest hole is a /25; ") {
			t.Error(f.Text)
		}
	}
}

func TestFreedBlockRests(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/23").with6(64, "fd00::/63"))
	say(b, start, "n1", "10.0.0.0/24", "fd00::/64")
	b.Delete("n1", start)
	set(b, start, "n2", "n3", "n4")
	expect(t, next(b, start), "n2 10.0.1.0/24,fd00:0:0:1::/64")
	expect(t, next(b, start.Add(DefaultRest-1)))
	expect(t, usage(b, start.Add(DefaultRest-1)), "2 1 0 1 0 0", "2 1 0 1 0 0")
	expect(t, next(b, start.Add(DefaultRest)), "n3 10.0.0.0/24,fd00::/64")
}

func TestRestCanBeOff(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/24"))
	b.Rest = 0
	say(b, start, "n1", "10.0.0.0/24")
	b.Delete("n1", start)
	set(b, start, "n2")
	expect(t, next(b, start), "n2 10.0.0.0/24")
}

func TestSameNameGetsItsBlockBack(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16").with6(64, "fd00::/48"))
	say(b, start, "n1", "10.0.9.0/24", "fd00:0:0:9::/64")
	for life := range 5 {
		b.Delete("n1", start)
		b.Set(Node{Name: "n1", UID: fmt.Sprint(life), Created: 9}, start)
		set(b, start, "n0")
		expect(t, slices.DeleteFunc(next(b, start), func(g string) bool { return !strings.HasPrefix(g, "n1") }), "n1 10.0.9.0/24,fd00:0:0:9::/64")
		// A refused write takes nothing away.
		b.Settle("n1", fmt.Sprint(life), Refused)
		expect(t, next(b, start), "n1 10.0.9.0/24,fd00:0:0:9::/64")
	}
	// Under another uid without a deletion that the watch has shown.
	b.Set(Node{Name: "n1", UID: "again", Created: 9}, start)
	expect(t, next(b, start), "n1 10.0.9.0/24,fd00:0:0:9::/64")
	b.Delete("n1", start)
	b.Delete("n0", start)
	expect(t, usage(b, start), "256 0 254 2 0 0", "65536 0 65534 2 0 0")
	expect(t, usage(b, start.Add(DefaultRest)), "256 0 256 0 0 0", "65536 0 65536 0 0 0")
}

// TestLastDeletionCounts: the end of an earlier rest does not end the last one.
func TestLastDeletionCounts(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	for life := range 3 {
		now := start.Add(time.Duration(life) * DefaultRest / 2)
		b.Set(Node{Name: "n1", UID: fmt.Sprint(life), CIDRs: []string{"10.0.9.0/24"}}, now)
		b.Delete("n1", now)
	}
	later := start.Add(2*DefaultRest - 1)
	expect(t, usage(b, later), "256 0 255 1 0 0")
	set(b, later, "n1")
	expect(t, next(b, later), "n1 10.0.9.0/24")
}

func TestCorrectedCIDRIsNoFinding(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	for _, c := range []struct {
		cidr string
		want []string
	}{{"10.0.9.1/24", []string{"n1 host-bits"}}, {"10.0.9.0/24", nil}, {"::ffff:10.0.9.0/120", []string{"n1 ipv4-mapped"}}} {
		b.Set(Node{Name: "n1", UID: "1", CIDRs: []string{c.cidr}}, start)
		expect(t, codes(b), c.want...)
		expect(t, usage(b, start), "256 1 255 0 0 0")
	}
}

func TestGrowingIntoSecondFamilyKeepsTheFirst(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	say(b, start, "n1", "10.0.9.0/24")
	b.Delete("n1", start)
	if err := b.SetPools([]Pool{pool4("a", 24, "10.0.0.0/16").with6(64, "fd00::/48")}); err != nil {
		t.Fatal(err)
	}
	set(b, start, "n1")
	expect(t, next(b, start), "n1 10.0.9.0/24,fd00::/64")
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
	// It has landed: a late refusal of the same write changes nothing.
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
	// The write for n1 is refused, and the block is n2's alone.
	b.Settle("n1", "n1", Refused)
	expect(t, codes(b))
	expect(t, next(b, start), "n1 10.0.2.0/24")
}

func TestOverlapIsFoundOnTheYounger(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	b.Set(Node{Name: "young", UID: "y", Created: 3, CIDRs: []string{"10.0.0.0/23"}}, start)
	b.Set(Node{Name: "old", UID: "o", Created: 1, CIDRs: []string{"10.0.0.0/24"}}, start)
	b.Set(Node{Name: "other", UID: "z", Created: 2, CIDRs: []string{"10.0.1.0/24"}}, start)
	b.Set(Node{Name: "twin", UID: "t", Created: 2, CIDRs: []string{"10.0.1.0/24"}}, start)
	expect(t, codes(b), "twin overlap", "young overlap")
	for f := range b.Findings() {
		if want := "podCIDR 10.0.0.0/23: overlaps 10.0.0.0/24 of the older Node old and 2 more; delete and re-create this Node"; f.Node == "young" && f.Text != want {
			t.Errorf("%q, want %q", f.Text, want)
		}
	}
	for _, name := range []string{"old", "other", "twin"} {
		b.Delete(name, start)
	}
	expect(t, codes(b))
	expect(t, usage(b, start), "256 2 254 0 0 0")
}

func TestManyOverlapsAreCountedToALimit(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/16"))
	for i := range 200 {
		b.Set(Node{Name: fmt.Sprintf("n%03d", i), UID: "1", CIDRs: []string{"10.0.0.0/24"}}, start)
	}
	found := map[string]string{}
	for f := range b.Findings() {
		found[f.Node] = f.Text
	}
	for name, want := range map[string]string{"n000": "", "n001": " Node n000; ", "n100": " Node n099 and 99 more; ", "n101": " Node n100 and more than 99 others; "} {
		if text, is := found[name]; is != (want != "") || !strings.Contains(text, want) {
			t.Errorf("%s: %q, want %q", name, text, want)
		}
	}
	for i := range 200 {
		b.Delete(fmt.Sprintf("n%03d", i), start)
	}
	expect(t, usage(b, start), "256 0 255 1 0 0")
	expect(t, usage(b, start.Add(DefaultRest)), "256 0 256 0 0 0")
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

// TestServiceRangesCountInAnyForm: other programs write them.
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
	// What a Node had of a draining range is not given back to it.
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

// TestGrantIsACopy: what is granted is not the Book's memory.
func TestGrantIsACopy(t *testing.T) {
	b := bookOf(t, pool4("a", 24, "10.0.0.0/22"))
	set(b, start, "n1")
	grants, _ := b.Next(start, 1)
	grants[0].CIDRs[0] = netip.MustParsePrefix("10.0.3.0/24")
	b.Settle("n1", "n1", Refused)
	expect(t, usage(b, start), "4 0 4 0 0 0")
}
