package cloudroute

import (
	"cmp"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// noticeDelay is how long a route must be in its table before a notice names it, because a
// cloud needs a moment to apply it.
const noticeDelay = 2 * time.Second

// someNetwork is the network in notices of instances whose network the cloud does not name.
const someNetwork = "default"

// Notice returns the notice of a node for the other nodes: those of its ranges that every table
// of its network routes to it. known is false until everything that it depends on was read. If
// again is not zero, the notice may change then without an event.
func (b *Book) Notice(name string, now time.Time) (v subnet.Notice, again time.Time, known bool) {
	n := b.nodes[name]
	switch {
	case n == nil || n.Target.Problem != "":
		return v, again, true
	case !b.isReady() || !n.Target.isKnown():
		return v, again, false
	case !b.hasHost(n) || !n.Target.Forwards:
		return v, again, true
	}
	v.Network = cmp.Or(n.Target.Network, someNetwork)
	for _, d := range n.dests {
		if d.claims[0] != n || !b.isRouted(d) {
			continue
		}
		if since := d.routedSince(b); now.Before(since.Add(noticeDelay)) {
			if at := since.Add(noticeDelay); again.IsZero() || at.Before(again) {
				again = at
			}
			continue
		}
		if f := subnet.FamilyOf(d.prefix.Addr()); !v.Subnets[f].IsValid() {
			v.Subnets[f] = d.prefix
		}
	}
	return v, again, true
}

// isRouted reports whether every table of the node's network has the route, and there is at
// least one.
func (b *Book) isRouted(d *dest) bool {
	tables := 0
	for _, id := range b.ids {
		switch b.look(d, b.tables[id]).code {
		case Elsewhere:
		case Routed:
			tables++
		default:
			return false
		}
	}
	return tables > 0
}

// routedSince returns when our last change of a destination's routes ended.
func (d *dest) routedSince(b *Book) (last time.Time) {
	for i := range d.slots {
		if s := &d.slots[i]; b.tables[s.table] != nil && s.wrote.After(last) {
			last = s.wrote
		}
	}
	return last
}
