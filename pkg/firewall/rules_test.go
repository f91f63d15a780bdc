package firewall

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

func prefixes(v4, v6 string) (p subnet.Pair[netip.Prefix]) {
	for f, s := range []string{v4, v6} {
		if s != "" {
			p[f] = netip.MustParsePrefix(s)
		}
	}
	return p
}

func dual() Rules {
	return Rules{
		Networks:   prefixes("10.5.0.0/16", "fd00:5::/48"),
		Own:        prefixes("10.5.3.0/24", "fd00:5:0:3::/64"),
		Masquerade: subnet.Pair[bool]{true, true},
		Random:     true,
		Exempt:     []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("2001:db8::/32")},
		Forward:    true,
	}
}

// TestConfines lets packets for the network leave through one device or two, and packets
// for own containers through any.
func TestConfines(t *testing.T) {
	r := dual()
	r.Confined = subnet.Pair[[2]string]{subnet.IPv4: {"tulle-wg"}}
	want := []Rule{
		{To: Net{Prefix: r.Own[subnet.IPv4]}, Does: Return},
		{To: Net{Prefix: r.Networks[subnet.IPv4]}, Out: Iface{Name: "tulle-wg", Not: true}, Does: Drop},
	}
	if got := r.Confines(subnet.IPv4); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	r.Confined[subnet.IPv4][1] = "tulle-wg2"
	want = slices.Insert(want, 1, Rule{To: Net{Prefix: r.Networks[subnet.IPv4]}, Out: Iface{Name: "tulle-wg2"}, Does: Return})
	if got := r.Confines(subnet.IPv4); !slices.Equal(got, want) {
		t.Errorf("with a second device: %v", got)
	}
	if got := r.Confines(subnet.IPv6); got != nil {
		t.Errorf("a family that is not confined has %v", got)
	}
	if r.Equal(dual()) {
		t.Error("the change is not one")
	}
}

// TestRules checks the wanted rules of each family.
func TestRules(t *testing.T) {
	plain, none, v6 := dual(), dual(), dual()
	plain.Random, plain.Exempt = false, nil
	none.Masquerade, none.Forward = subnet.Pair[bool]{}, false
	v6.Masquerade[subnet.IPv4] = false
	off := dual()
	off.Networks[subnet.IPv6], off.Own[subnet.IPv6] = netip.Prefix{}, netip.Prefix{}
	for _, c := range []struct {
		name  string
		rules Rules
		f     subnet.Family
		want  string
	}{
		{"all", dual(), subnet.IPv4, `
			mark 0x4000 return
			from 10.5.0.0/16 to 10.5.0.0/16 return
			to 10.5.3.0/24 return
			from 10.5.0.0/16 to 224.0.0.0/4 return
			from 10.5.0.0/16 to 192.0.2.0/24 return
			from 10.5.0.0/16 masquerade fully-random
			to 10.5.0.0/16 masquerade fully-random
			from 10.5.0.0/16 accept
			to 10.5.0.0/16 accept`},
		{"all", dual(), subnet.IPv6, `
			mark 0x4000 return
			from fd00:5::/48 to fd00:5::/48 return
			to fd00:5:0:3::/64 return
			from fd00:5::/48 to ff00::/8 return
			from fd00:5::/48 to 2001:db8::/32 return
			from fd00:5::/48 masquerade fully-random
			to fd00:5::/48 masquerade fully-random
			from fd00:5::/48 accept
			to fd00:5::/48 accept`},
		{"plain", plain, subnet.IPv4, `
			mark 0x4000 return
			from 10.5.0.0/16 to 10.5.0.0/16 return
			to 10.5.3.0/24 return
			from 10.5.0.0/16 to 224.0.0.0/4 return
			from 10.5.0.0/16 masquerade
			to 10.5.0.0/16 masquerade
			from 10.5.0.0/16 accept
			to 10.5.0.0/16 accept`},
		{"none", none, subnet.IPv4, ""},
		{"the other family", v6, subnet.IPv4, `
			from 10.5.0.0/16 accept
			to 10.5.0.0/16 accept`},
		{"a family that is off", off, subnet.IPv6, ""},
	} {
		var lines []string
		for _, r := range append(c.rules.NAT(c.f), c.rules.Forwards(c.f)...) {
			lines = append(lines, r.String())
		}
		want := strings.TrimSpace(strings.ReplaceAll(c.want, "\t", ""))
		if got := strings.Join(lines, "\n"); got != want {
			t.Errorf("%s, %s:\n%s\nwant\n%s", c.name, c.f, got, want)
		}
	}
	if !dual().Equal(dual()) || dual().Equal(plain) {
		t.Error("Equal")
	}
}
