package hostgw

import (
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
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
	testHost  = backendtest.Host
	wantLines = backendtest.WantLines
)

func parseConfig(t testing.TB, families, keys string) subnet.Config {
	t.Helper()
	return backendtest.Config(t, Type, families, keys)
}

func newBackend(t testing.TB, families, keys string, host backend.HostFacts) backend.Backend {
	t.Helper()
	return backendtest.New(t, New, parseConfig(t, families, keys), host)
}

// newLease returns a lease of the subnets that key names, at these public IPs.
func newLease(t testing.TB, key string, ips ...string) subnet.Lease {
	t.Helper()
	return backendtest.Lease(t, key, subnet.Attrs{PublicIP: addresses(ips...), BackendType: Type})
}
