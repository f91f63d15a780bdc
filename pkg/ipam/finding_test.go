package ipam

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestInvalidPodCIDRsAreOnlyReported(t *testing.T) {
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
	// A resting block is reported as resting, with the end of its rest.
	b.Delete("n1", later)
	grants, again := b.Next(later, 10)
	if len(grants) > 0 || !again.Equal(later.Add(DefaultRest)) {
		t.Errorf("granted %v, again %v", grants, again)
	}
	for f := range b.Findings() {
		if f.Code != Resting || !f.Again.Equal(again) || !strings.Contains(f.Text, ": 4 of 8 used, 0 free, 1 resting, ") || !strings.Contains(f.Text, "the rest of the next block ends at 1970-01-12T13:47:41Z; add a range") {
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
