package network

import "github.com/tulle-net/tulle/backend"

// A network with more than spreadAbove peers spreads its IPv4 routes over many
// metrics (netstate.SpreadMetric). One that shrinks below plainBelow returns to
// metric 0. In a small network metric 0 is plainer to read, and replaces flannel's
// routes in place.
const (
	spreadAbove = 1000
	plainBelow  = 500
)

// chooseMetrics chooses the metrics for the present number of peers, with those that come
// in a moment. It reports whether all routes change. The caller holds mu.
func (p *peerSet) chooseMetrics() (change bool) {
	before, peers := p.metrics, p.table.Len()+p.left
	p.metrics = backend.Metrics(peers > spreadAbove || bool(before) && peers >= plainBelow)
	return p.metrics != before
}
