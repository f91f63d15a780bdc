// Package backendtest is what the tests of all backends share: configs, a host and
// leases.
package backendtest

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// The families of a config.
const (
	V4   = `"Network": "10.5.0.0/16"`
	V6   = `"EnableIPv4": false, "EnableIPv6": true, "IPv6Network": "fd00:5::/48"`
	Dual = `"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"`
)

// Config returns a network's config for a type of backend. keys are the backend's,
// each with a comma before it.
func Config(t testing.TB, backendType, families, keys string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(`{` + families + `, "Backend": {"Type": "` + backendType + `"` + keys + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// New returns a backend.
func New(t testing.TB, factory backend.Factory, cfg subnet.Config, host backend.HostFacts) backend.Backend {
	t.Helper()
	b, err := factory(cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Addresses returns a pair of at most one address per family.
func Addresses(ips ...string) subnet.Pair[netip.Addr] {
	var p subnet.Pair[netip.Addr]
	for _, s := range ips {
		ip := netip.MustParseAddr(s)
		p[subnet.FamilyOf(ip)] = ip
	}
	return p
}

// Lease returns a lease of the subnets that key names.
func Lease(t testing.TB, key string, attrs subnet.Attrs) subnet.Lease {
	t.Helper()
	subnets, err := subnet.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return subnet.Lease{Subnets: subnets, Attrs: attrs}
}

// Uplinks returns eth0 with an MTU, an address and a public IP in each family.
func Uplinks(mtu int, address, public subnet.Pair[netip.Addr]) subnet.Pair[backend.Uplink] {
	var p subnet.Pair[backend.Uplink]
	for f := range p {
		p[f] = backend.Uplink{Link: "eth0", MTU: mtu, Address: address[f], Public: public[f]}
	}
	return p
}

// Host returns a host on one link with others. A router separates a part of the link.
func Host() backend.HostFacts {
	own := Addresses("198.18.0.1", "fd00:18::1")
	return backend.HostFacts{
		NodeID: "machine-1", Uplinks: Uplinks(1500, own, own),
		OnLink: []netstate.Route{
			{Dst: netip.MustParsePrefix("198.18.0.0/24"), Link: "eth0", Protocol: 2},
			{Dst: netip.MustParsePrefix("198.18.0.128/25"), Via: netip.MustParseAddr("198.18.0.254"), Link: "eth0", Protocol: 4},
			{Dst: netip.MustParsePrefix("fd00:18::/64"), Link: "eth0", Protocol: 2},
		},
	}
}

// WantLines fails the test unless objects print as these lines.
func WantLines(t testing.TB, what string, objects []netstate.Object, want ...string) {
	t.Helper()
	var got []string
	for _, o := range objects {
		got = append(got, o.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s is\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Kit makes the configs, backends and leases of one type of backend.
type Kit struct {
	Type string
	New  backend.Factory
}

// Config returns a network's config. keys are as in the function Config.
func (k Kit) Config(t testing.TB, families, keys string) subnet.Config {
	t.Helper()
	return Config(t, k.Type, families, keys)
}

// Backend returns a backend of such a config.
func (k Kit) Backend(t testing.TB, families, keys string, host backend.HostFacts) backend.Backend {
	t.Helper()
	return New(t, k.New, k.Config(t, families, keys), host)
}

// Lease returns a lease of the subnets that key names, at these public IPs.
func (k Kit) Lease(t testing.TB, key string, ips ...string) subnet.Lease {
	t.Helper()
	return Lease(t, key, subnet.Attrs{PublicIP: Addresses(ips...), BackendType: k.Type})
}
