package vxlan

import (
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
	kit         = backendtest.Kit{Type: Type, New: New}
	parseConfig = kit.Config
	newBackend  = kit.Backend

	addresses = backendtest.Addresses
	uplinks   = backendtest.Uplinks
	testHost  = backendtest.Host
	wantLines = backendtest.WantLines
)

// newLease returns a lease of the subnets that key names, with what b publishes.
func newLease(t testing.TB, key string, b backend.Backend) subnet.Lease {
	t.Helper()
	return backendtest.Lease(t, key, b.Publish())
}

// links returns the devices of b, by family.
func links(t testing.TB, b backend.Backend) []netstate.Link {
	t.Helper()
	var out []netstate.Link
	for _, o := range b.Host(newLease(t, "10.5.1.0-24&fd00:5:0:1::-64", b)) {
		if l, ok := o.(netstate.Link); ok {
			out = append(out, l)
		}
	}
	return out
}
