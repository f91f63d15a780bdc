package hostif

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// viewOf reads a host from lines like
//
//	link eth0 1500 192.0.2.7/24 fd00::7/64,dynamic,temporary
//	default eth0 100 via 192.0.2.1 src 192.0.2.7 down
//	direct 192.0.2.0/24 eth0
//	reach eth0 192.0.2.7
func viewOf(t testing.TB, text string) View {
	t.Helper()
	var v View
	for line := range strings.Lines(text) {
		word := strings.Fields(line)
		if len(word) == 0 {
			continue
		}
		switch word[0] {
		case "link":
			l := netstate.HostLink{Link: netstate.Link{Name: word[1], MTU: number(t, word[2])}, RouterAdvertisements: word[1] == "ra0"}
			for _, text := range word[3:] {
				l.Addrs = append(l.Addrs, addrOf(t, text))
			}
			v.Links = append(v.Links, l)
		case "default":
			v.Defaults = append(v.Defaults, defaultOf(t, word[1:]))
		case "direct":
			v.OnLink = append(v.OnLink, netstate.Route{Dst: netip.MustParsePrefix(word[1]), Link: word[2], Protocol: 2})
		case "reach":
			v.Reach = netstate.Path{Link: word[1], Source: netip.MustParseAddr(word[2])}
		default:
			t.Fatalf("what is %q?", line)
		}
	}
	return v
}

func addrOf(t testing.TB, text string) netstate.HostAddr {
	t.Helper()
	word := strings.Split(text, ",")
	a := netstate.HostAddr{Prefix: netip.MustParsePrefix(word[0])}
	for _, flag := range word[1:] {
		switch flag {
		case "secondary", "temporary":
			a.Secondary = true
		case "deprecated":
			a.Deprecated = true
		case "duplicate":
			a.Duplicate = true
		case "dynamic":
			a.Dynamic = true
		default:
			t.Fatalf("what is %q?", flag)
		}
	}
	return a
}

func defaultOf(t testing.TB, word []string) netstate.DefaultRoute {
	t.Helper()
	d := netstate.DefaultRoute{Route: netstate.Route{Dst: netip.MustParsePrefix("0.0.0.0/0"), Link: word[0]}, Priority: uint32(number(t, word[1]))}
	for i := 2; i < len(word); i++ {
		switch word[i] {
		case "via":
			i++
			d.Via = netip.MustParseAddr(word[i])
		case "src":
			i++
			d.Source = netip.MustParseAddr(word[i])
		case "down":
			d.Down = true
		case "6":
			d.Dst = netip.MustParsePrefix("::/0")
		default:
			t.Fatalf("what is %q?", word[i])
		}
	}
	if d.Via.Is6() {
		d.Dst = netip.MustParsePrefix("::/0")
	}
	return d
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// networks returns the overlay of the families in text: "4", "6" or "46".
func networks(text string) subnet.Pair[netip.Prefix] {
	var p subnet.Pair[netip.Prefix]
	if strings.Contains(text, "4") {
		p[subnet.IPv4] = netip.MustParsePrefix("10.5.0.0/16")
	}
	if strings.Contains(text, "6") {
		p[subnet.IPv6] = netip.MustParsePrefix("fd00:5::/48")
	}
	return p
}
