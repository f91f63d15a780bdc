package cloudroute

import (
	"cmp"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// noticeDelay is the time from the write of a route to a notice with it, because a cloud needs
// a moment to apply the route.
const noticeDelay = 2 * time.Second

// someNetwork is the network in a notice if the cloud does not name the instance's network.
const someNetwork = "default"

// Notice returns the notice of a node for the other nodes. It names the ranges that every table
// of the node's network routes to the node. known is false until the tables, the ledger and the
// instance were read. If again is not zero, the notice may change at that time without an event.
func (b *Book) Notice(name string, now time.Time) (v subnet.Notice, again time.Time, known bool) {
	n := b.nodes[name]
	switch {
	case n == nil || n.Target.Problem != "":
		return v, again, true
	case !b.isReady() || !n.Target.isKnown():
		return v, again, false
	case !b.ownsInstance(n) || !n.Target.Forwards:
		return v, again, true
	}
	v.Network = subnet.NoticeNetwork(cmp.Or(n.Target.Network, someNetwork))
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

// isRouted reports whether the node's network has tables, and all of them have the route.
func (b *Book) isRouted(d *dest) bool {
	tables := 0
	for _, id := range b.ids {
		switch b.inspect(d, b.tables[id]).code {
		case OtherNetwork:
		case Routed:
			tables++
		default:
			return false
		}
	}
	return tables > 0
}

// routedSince returns the end of our last change of a destination's routes.
func (d *dest) routedSince(b *Book) (last time.Time) {
	for i := range d.slots {
		if s := &d.slots[i]; b.tables[s.table] != nil && s.wrote.After(last) {
			last = s.wrote
		}
	}
	return last
}
