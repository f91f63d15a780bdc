package subnet

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

// notice returns a notice with these addresses and subnets.
func notice(network string, words ...string) Notice {
	n := Notice{Network: network}
	for _, s := range words {
		if a, err := netip.ParseAddr(s); err == nil {
			n.Hosts[FamilyOf(a)] = a
			continue
		}
		p := netip.MustParsePrefix(s)
		n.Subnets[FamilyOf(p.Addr())] = p
	}
	return n
}

func TestNoticeIsReadAsWritten(t *testing.T) {
	for text, want := range map[string]Notice{
		"":                            {},
		"vpc-1 192.0.2.1":             notice("vpc-1", "192.0.2.1"),
		"vpc-1 192.0.2.1 10.5.1.0/24": notice("vpc-1", "192.0.2.1", "10.5.1.0/24"),
		"vpc-1 2001:db8::1 fd00::/64": notice("vpc-1", "2001:db8::1", "fd00::/64"),
		"v 192.0.2.1 2001:db8::1 10.0.0.0/8 fd00::/8": notice("v", "192.0.2.1", "2001:db8::1", "10.0.0.0/8", "fd00::/8"),
	} {
		got, err := ParseNotice(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is read as %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		" ", " 192.0.2.1 10.5.1.0/24", "vpc-1", "vpc-1 ", "vpc-1 10.5.1.0/24", "vpc-1 192.0.2.1 ", "vpc-1 192.0.2.1  10.5.1.0/24", "vpc-1 192.0.2.1 10.5.1.1/24",
		"vpc-1 192.0.2.1 10.5.1.0", "vpc-1 192.0.2.1 192.0.2.2", "vpc-1 10.5.1.0/24 192.0.2.1", "vpc-1 2001:db8::1 192.0.2.1", "vpc-1 ::ffff:192.0.2.1", "vpc-1 0.0.0.0",
		"vpc-1 fe80::1%eth0", "vpc-1 192.0.2.01", "vpc-1 2001:DB8::1", "vpc-1 192.0.2.1 10.5.1.0/24 10.5.2.0/24", "vpc-1 192.0.2.1 fd00::/64 10.5.1.0/24",
		"vpc-1 192.0.2.1 ::ffff:10.5.1.0/120", "vpc\n 192.0.2.1", "vpc-é 192.0.2.1", strings.Repeat("v", 129) + " 192.0.2.1",
		"v 192.0.2.1" + strings.Repeat(" 10.5.1.0/24", 40), "vpc-1\t192.0.2.1",
	} {
		if got, err := ParseNotice(text); !errors.Is(err, ErrNotice) || got != (Notice{}) {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
}

// Any cloud's name of a network can stand in a notice, and two names never become one.
func TestNoticeHasTheNetworksOfAllClouds(t *testing.T) {
	long := "/subscriptions/0b1f6471-1bf0-4dda-aec3-cb9272f09590/resourcegroups/nodes/providers/microsoft.network/virtualnetworks/" + strings.Repeat("n", 64)
	seen := make(map[string]string)
	for name, want := range map[string]string{
		"": "", "vpc-1": "vpc-1", "my-project/default": "my-project/default", strings.Repeat("v", 128): strings.Repeat("v", 128),
		long: strings.Repeat("n", 64) + "~", long + "x": strings.Repeat("n", 64) + "~", "/group é/net": "net~", "/group è/net": "net~", "a b": "ab~", "é": "~",
	} {
		got := NoticeNetwork(name)
		if other, twice := seen[got]; twice {
			t.Errorf("%q and %q are both %q", name, other, got)
		}
		seen[got] = name
		if !strings.HasPrefix(got, want) || len(got) > len(want) && len(got) != len(want)+16 {
			t.Errorf("%q becomes %q, want %q", name, got, want)
		}
		n := notice(got, "192.0.2.1", "2001:db8::1", "10.5.1.0/24", "fd00:5::/64")
		if again, err := ParseNotice(n.String()); err != nil || got != "" && again != n {
			t.Errorf("%q: %v", n, err)
		}
	}
}

// Only nodes of one network use the routes, and only those to the peer's own subnets, by a
// notice about the peer's own host.
func TestNoticeCountsInItsNetworkAlone(t *testing.T) {
	const host4, host6 = "192.0.2.1", "2001:db8::1"
	about := notice("", host4, host6, "10.5.1.0/24", "fd00:5::/64")
	peer := Lease{Subnets: about.Subnets, Attrs: Attrs{PublicIP: about.Hosts}}
	for _, c := range []struct {
		name      string
		peer, own Notice
		want      Pair[bool]
	}{
		{"both families", notice("a", host4, host6, "10.5.1.0/24", "fd00:5::/64"), notice("a"), Pair[bool]{true, true}},
		{"one family", notice("a", host4, host6, "10.5.1.0/24"), notice("a", "10.5.9.0/24"), Pair[bool]{true, false}},
		{"another network", notice("a", host4, host6, "10.5.1.0/24"), notice("b", "10.5.9.0/24"), Pair[bool]{}},
		{"nothing known of this node", notice("a", host4, host6, "10.5.1.0/24"), Notice{}, Pair[bool]{}},
		{"nothing known of the peer", Notice{}, notice("a"), Pair[bool]{}},
		{"nothing known of either", notice("", host4, host6, "10.5.1.0/24"), Notice{}, Pair[bool]{}},
		{"another's subnet", notice("a", host4, host6, "10.5.2.0/24"), notice("a"), Pair[bool]{}},
		{"a larger subnet", notice("a", host4, host6, "10.5.0.0/16"), notice("a"), Pair[bool]{}},
		{"the last holder of the subnet", notice("a", "192.0.2.2", host6, "10.5.1.0/24"), notice("a"), Pair[bool]{}},
		{"the last holder, in the other family", notice("a", host4, "2001:db8::2", "10.5.1.0/24"), notice("a"), Pair[bool]{}},
		{"one address of two", notice("a", host4, "10.5.1.0/24"), notice("a"), Pair[bool]{}},
		{"no host", notice("a", "10.5.1.0/24"), notice("a"), Pair[bool]{}},
	} {
		if got := c.peer.Routes(c.own, &peer); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	if about.Names(&Lease{}) || !about.Names(&Lease{Attrs: Attrs{PublicIP: Pair[netip.Addr]{about.Hosts[IPv4]}}}) {
		t.Error("a notice names a lease without an address, or not one of its first address")
	}
}

func FuzzParseNotice(f *testing.F) {
	for _, text := range []string{"", "vpc-1 192.0.2.1 2001:db8::1 10.5.1.0/24 fd00::/64", "vpc-1 192.0.2.1 10.5.1.0/33", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseNotice(text)
		if err == nil && n.String() != text || err != nil && (n != Notice{} || len(err.Error()) > 500) {
			t.Errorf("%q is read as %+v, %v", text, n, err)
		}
	})
}
