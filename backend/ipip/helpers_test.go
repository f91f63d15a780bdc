package ipip

import (
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

// parseConfig reads a network's config; keys are the backend's, each with a
// comma before it.
func parseConfig(t testing.TB, families, keys string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(`{` + families + `, "Backend": {"Type": "` + Type + `"` + keys + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func newBackend(t testing.TB, families, keys string, host backend.Host) backend.Backend {
	t.Helper()
	b, err := New(parseConfig(t, families, keys), host)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func addresses(ips ...string) subnet.Pair[netip.Addr] {
	var p subnet.Pair[netip.Addr]
	for _, s := range ips {
		ip := netip.MustParseAddr(s)
		p[subnet.FamilyOf(ip)] = ip
	}
	return p
}

// newLease is one of the subnets that key names, at these public IPs.
func newLease(t testing.TB, key string, ips ...string) subnet.Lease {
	t.Helper()
	subnets, err := subnet.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return subnet.Lease{Subnets: subnets, Attrs: subnet.Attrs{PublicIP: addresses(ips...), BackendType: Type}}
}

func testHost() backend.Host {
	own := addresses("198.18.0.1", "fd00:18::1")
	return backend.Host{
		NodeID: "machine-1", Uplinks: uplinks(1500, own, own),
		OnLink: []netstate.Route{
			{Dst: netip.MustParsePrefix("198.18.0.0/24"), Link: "eth0", Protocol: 2},
			{Dst: netip.MustParsePrefix("198.18.0.128/25"), Via: netip.MustParseAddr("198.18.0.254"), Link: "eth0", Protocol: 4},
			{Dst: netip.MustParsePrefix("fd00:18::/64"), Link: "eth0", Protocol: 2},
		},
	}
}

func wantLines(t testing.TB, what string, objects []netstate.Object, want ...string) {
	t.Helper()
	var got []string
	for _, o := range objects {
		got = append(got, o.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
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
