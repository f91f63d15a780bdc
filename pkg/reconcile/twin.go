package reconcile

import "github.com/tulle-net/tulle/pkg/netstate"

// twin returns the key of another route to o's destination, if one is wanted: the one
// that replaces it when the routes of a network get other metrics.
func (d *Desired) twin(o netstate.Object) (netstate.Key, bool) {
	r, ok := o.(netstate.Route)
	if !ok || !r.Dst.Addr().Is4() {
		return netstate.Key{}, false
	}
	for _, metric := range []uint32{0, netstate.SpreadMetric(r.Dst)} {
		k := netstate.Route{Dst: r.Dst, Metric: metric}.Key()
		if _, wanted := d.state.Get(k); wanted && metric != r.Metric {
			return k, true
		}
	}
	return netstate.Key{}, false
}
