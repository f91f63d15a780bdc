package backend_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const (
	v4   = backendtest.V4
	v6   = backendtest.V6
	dual = backendtest.Dual
)

var (
	addresses = backendtest.Addresses
	uplinks   = backendtest.Uplinks
	wantLines = backendtest.WantLines
)

func parseConfig(t testing.TB, families, backend string) subnet.Config {
	t.Helper()
	cfg, err := subnet.ParseConfig([]byte(`{` + families + `, "Backend": ` + backend + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// lease returns a lease of the subnets that key names, at these public IPs.
func lease(t testing.TB, key string, ips ...string) subnet.Lease {
	t.Helper()
	return backendtest.Lease(t, key, subnet.Attrs{PublicIP: addresses(ips...)})
}

// onLink parses routes like "198.18.0.0/24 dev eth0" and "198.18.0.128/25 via
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

// plainHost returns a host with one interface.
func plainHost() backend.HostFacts {
	h := backendtest.Host()
	h.OnLink = onLink("198.18.0.0/24 dev eth0", "fd00:18::/64 dev eth0")
	return h
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
