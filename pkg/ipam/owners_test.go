package ipam

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

func TestOwnersAreAllWhoOwnAPart(t *testing.T) {
	b, err := New(nil)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	for name, cidr := range map[string]string{"a": "10.4.0.0/24", "b": "10.4.0.0/24", "c": "10.4.0.0/16", "d": "10.4.1.0/24"} {
		b.Set(Node{Name: name, UID: name, CIDRs: []string{cidr}}, now)
	}
	for text, want := range map[string][]string{
		"10.4.0.0/24": {"a", "b", "c"}, "10.4.0.7/32": {"a", "b", "c"}, "10.0.0.0/8": {"a", "b", "c", "d"}, "10.4.2.0/24": {"c"}, "10.5.0.0/16": nil,
	} {
		if got := slices.Sorted(b.Owners(netip.MustParsePrefix(text))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	b.Delete("a", now) // its block rests
	if got := slices.Sorted(b.Owners(netip.MustParsePrefix("10.4.0.0/24"))); !slices.Equal(got, []string{"b", "c"}) {
		t.Errorf("%q", got)
	}
}
