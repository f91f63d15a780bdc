package reconcile

import (
	"cmp"
	"slices"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// A network of more routes than spreadAbove has them on many metrics
// (netstate.SpreadMetric), one that shrinks below plainBelow on metric 0 again.
const (
	spreadAbove = 1000
	plainBelow  = 500
)

// spread decides the metrics of the IPv4 routes. In a small network metric 0
// is plainer to read, and replaces flannel's routes in place.
type spread struct {
	on       bool
	routes   int // that it decides on
	expected int // that will come
}

// decides says whether o is a route that spread gives the metric, or gave it.
func decides(o netstate.Object) (netstate.Route, bool) {
	r, ok := o.(netstate.Route)
	return r, ok && r.Dst.Addr().Is4() && (r.Metric == 0 || r.Metric == netstate.SpreadMetric(r.Dst))
}

func (s *spread) count(objects []netstate.Object, sign int) {
	for _, o := range objects {
		if _, ok := decides(o); ok {
			s.routes += sign
		}
	}
}

// turn says whether the network has just grown or shrunk past a bound.
func (s *spread) turn() bool {
	before := s.on
	routes := s.routes + s.expected
	s.on = routes > spreadAbove || s.on && routes >= plainBelow
	return s.on != before
}

// shape is objects with the metrics that they are to have. It leaves the given
// slice as it is.
func (s *spread) shape(objects []netstate.Object) []netstate.Object {
	if !s.on {
		return objects
	}
	out := slices.Clone(objects)
	for i, o := range objects {
		if r, ok := decides(o); ok {
			out[i] = s.route(r)
		}
	}
	return out
}

// route is r with the metric that it is to have.
func (s *spread) route(r netstate.Route) netstate.Route {
	r.Metric = 0
	if s.on {
		r.Metric = netstate.SpreadMetric(r.Dst)
	}
	return r
}

// reshape moves all routes to the other kind of metric after a turn. The
// routes of the new metrics are made before the old ones go, so no packet
// finds none. Who holds a key that several want stays its holder.
func (d *Desired) reshape() {
	type move struct {
		owner    string
		from, to netstate.Object
		turn     int // how many have the key before owner
	}
	moves := make([]move, 0, d.spread.routes)
	for owner, objects := range d.owners {
		objects = slices.Clone(objects) // which may be the owner's too
		for i, o := range objects {
			if r, ok := decides(o); ok && r != d.spread.route(r) {
				objects[i] = d.spread.route(r)
				moves = append(moves, move{owner, o, objects[i], 1 + claimIndex(d.waiting[o.Key()], owner)})
			}
		}
		d.owners[owner] = objects
	}
	slices.SortStableFunc(moves, func(a, b move) int { return cmp.Compare(a.turn, b.turn) })
	for _, m := range moves {
		d.claim(m.owner, m.to)
	}
	// In reverse, so that nobody comes to hold what he will let go next.
	for _, m := range slices.Backward(moves) {
		d.release(m.owner, m.from.Key())
	}
}

// twin is the key of another route to o's destination, if one is wanted: that
// which takes over from it when the network grows or shrinks past a bound.
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
