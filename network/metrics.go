package network

import "github.com/tulle-net/tulle/pkg/netstate"

// A network with more than spreadAbove peers spreads its IPv4 routes over many
// metrics (netstate.SpreadMetric). One that shrinks below plainBelow returns to
// metric 0.
const (
	spreadAbove = 1000
	plainBelow  = 500
)

// metrics chooses the metrics of the IPv4 routes to peers. In a small network
// metric 0 is plainer to read, and replaces flannel's routes in place.
type metrics struct{ spread bool }

// choose chooses the metrics for a network with that many peers. It reports whether
// all routes change.
func (m *metrics) choose(peers int) (change bool) {
	before := m.spread
	m.spread = peers > spreadAbove || m.spread && peers >= plainBelow
	return m.spread != before
}

// apply gives the routes among objects their metrics.
func (m *metrics) apply(objects []netstate.Object) {
	if !m.spread {
		return
	}
	for i, o := range objects {
		if r, ok := o.(netstate.Route); ok && r.Dst.Addr().Is4() && r.Metric == 0 {
			r.Metric = netstate.SpreadMetric(r.Dst)
			objects[i] = r
		}
	}
}
