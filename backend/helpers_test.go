package backend_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const (
	v4   = `"Network": "10.5.0.0/16"`
	v6   = `"EnableIPv4": false, "EnableIPv6": true, "IPv6Network": "fd00:5::/48"`
	dual = `"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"`
)

func parseConfig(t testing.TB, families, backend string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(`{` + families + `, "Backend": ` + backend + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func addresses(ips ...string) subnet.Pair[netip.Addr] {
	var p subnet.Pair[netip.Addr]
	for _, s := range ips {
		ip := netip.MustParseAddr(s)
		p[subnet.FamilyOf(ip)] = ip
	}
	return p
}

// lease is one of the subnets that key names, at these public IPs.
func lease(t testing.TB, key string, ips ...string) subnet.Lease {
	t.Helper()
	subnets, err := subnet.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return subnet.Lease{Subnets: subnets, Attrs: subnet.Attrs{PublicIP: addresses(ips...)}}
}

// onLink reads routes like "198.18.0.0/24 dev eth0" and "198.18.0.128/25 via
// 198.18.0.254 dev eth0".
func onLink(routes ...string) []netstate.Route {
	var out []netstate.Route
	for _, text := range routes {
		words := strings.Fields(text)
		r := netstate.Route{Dst: netip.MustParsePrefix(words[0]), Link: words[len(words)-1], Protocol: 2}
		if words[1] == "via" {
			r.Via, r.Protocol = netip.MustParseAddr(words[2]), 4
		}
		out = append(out, r)
	}
	return out
}

// plainHost is a host with one interface.
func plainHost() backend.Host {
	own := addresses("198.18.0.1", "fd00:18::1")
	return backend.Host{
		NodeID: "machine-1", Uplinks: uplinks(1500, own, own),
		OnLink: onLink("198.18.0.0/24 dev eth0", "fd00:18::/64 dev eth0"),
	}
}

// lines are objects as text, for golden tests.
func lines(objects []netstate.Object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.String())
	}
	return out
}

func wantLines(t testing.TB, what string, got []netstate.Object, want ...string) {
	t.Helper()
	if !slices.Equal(lines(got), want) {
		t.Errorf("%s is\n%s\nwant\n%s", what, strings.Join(lines(got), "\n"), strings.Join(want, "\n"))
	}
}

func wantErrors(t testing.TB, what string, got error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(got, w) {
			t.Errorf("%s: got error %v, want %v", what, got, w)
		}
	}
	if len(want) == 0 && got != nil {
		t.Errorf("%s: %v", what, got)
	}
}

// uplinks are eth0 with an MTU, an address and a public IP in each family.
func uplinks(mtu int, address, public subnet.Pair[netip.Addr]) subnet.Pair[backend.Uplink] {
	var p subnet.Pair[backend.Uplink]
	for f := range p {
		p[f] = backend.Uplink{Link: "eth0", MTU: mtu, Address: address[f], Public: public[f]}
	}
	return p
}
