package udp

import "github.com/tulle-net/tulle/backend/backendtest"

const (
	v4   = backendtest.V4
	v6   = backendtest.V6
	dual = backendtest.Dual
)

var (
	kit         = backendtest.Kit{Type: Type, New: New}
	parseConfig = kit.Config
	newBackend  = kit.Backend
	newLease    = kit.Lease

	addresses = backendtest.Addresses
	uplinks   = backendtest.Uplinks
	testHost  = backendtest.Host
	wantLines = backendtest.WantLines
)
