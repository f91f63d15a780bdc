package subnet

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func notice(network string, subnets ...string) Notice {
	n := Notice{Network: network}
	for _, s := range subnets {
		p := netip.MustParsePrefix(s)
		n.Subnets[FamilyOf(p.Addr())] = p
	}
	return n
}

func TestNoticeIsReadAsWritten(t *testing.T) {
	for text, want := range map[string]Notice{
		"":                      {},
		"vpc-1":                 notice("vpc-1"),
		"vpc-1 10.5.1.0/24":     notice("vpc-1", "10.5.1.0/24"),
		"vpc-1 fd00:5::/64":     notice("vpc-1", "fd00:5::/64"),
		"v 10.0.0.0/8 fd00::/8": notice("v", "10.0.0.0/8", "fd00::/8"),
	} {
		got, err := ParseNotice(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is read as %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{
		" ", " 10.5.1.0/24", "vpc-1 ", "vpc-1  10.5.1.0/24", "vpc-1 10.5.1.1/24", "vpc-1 10.5.1.0", "vpc-1 10.5.1.0/24 10.5.2.0/24",
		"vpc-1 fd00::/64 10.5.1.0/24", "vpc-1 ::ffff:10.5.1.0/120", "vpc\n 10.5.1.0/24", "vpc-é", strings.Repeat("v", 129), "v" + strings.Repeat(" 10.5.1.0/24", 40), "vpc-1\t10.5.1.0/24",
	} {
		if got, err := ParseNotice(text); !errors.Is(err, ErrNotice) || got != (Notice{}) {
			t.Errorf("%q is read as %+v, %v", text, got, err)
		}
	}
}

// Only nodes of one network use the routes, and only those to the peer's own subnets.
func TestNoticeCountsInItsNetworkAlone(t *testing.T) {
	peer := notice("", "10.5.1.0/24", "fd00:5::/64").Subnets
	for _, c := range []struct {
		name      string
		peer, own Notice
		want      Pair[bool]
	}{
		{"both families", notice("a", "10.5.1.0/24", "fd00:5::/64"), notice("a"), Pair[bool]{true, true}},
		{"one family", notice("a", "10.5.1.0/24"), notice("a", "10.5.9.0/24"), Pair[bool]{true, false}},
		{"another network", notice("a", "10.5.1.0/24"), notice("b", "10.5.9.0/24"), Pair[bool]{}},
		{"nothing known of this node", notice("a", "10.5.1.0/24"), Notice{}, Pair[bool]{}},
		{"nothing known of the peer", Notice{}, notice("a"), Pair[bool]{}},
		{"nothing known of either", notice("", "10.5.1.0/24"), Notice{}, Pair[bool]{}},
		{"another's subnet", notice("a", "10.5.2.0/24"), notice("a"), Pair[bool]{}},
		{"a larger subnet", notice("a", "10.5.0.0/16"), notice("a"), Pair[bool]{}},
	} {
		if got := c.peer.Routes(c.own, peer); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

func FuzzParseNotice(f *testing.F) {
	for _, text := range []string{"", "vpc-1 10.5.1.0/24 fd00::/64", "vpc-1 10.5.1.0/33", "\xff"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseNotice(text)
		if err == nil && n.String() != text || err != nil && (n != Notice{} || len(err.Error()) > 500) {
			t.Errorf("%q is read as %+v, %v", text, n, err)
		}
	})
}
