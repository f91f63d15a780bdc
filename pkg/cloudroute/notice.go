package cloudroute

import (
	"cmp"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// noticeDelay is how long a route has been in its table before a notice names it: a
// cloud needs a moment to carry it out.
const noticeDelay = 2 * time.Second

// someNetwork is the network of instances for which the cloud names none.
const someNetwork = "default"

// Notice returns what other nodes need to know about a node: which of its ranges every table of
// its network routes to it. It is not known before everything was read that it depends
// on. If again is not zero, it may be another one from then on without an event.
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

// isRouted reports whether every table of the node's network, and at least one, has the
// route.
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

// routedSince returns when the last of our changes of a destination's routes ended.
func (d *dest) routedSince(b *Book) (last time.Time) {
	for i := range d.slots {
		if s := &d.slots[i]; b.tables[s.table] != nil && s.wrote.After(last) {
			last = s.wrote
		}
	}
	return last
}
