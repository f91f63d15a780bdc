package cloudroute

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// view is the state of a destination in one table, and the change that is due.
type view struct {
	code     Code
	verb     cloud.Verb // "" if no change is due
	node     *node      // the route should lead to this node
	route    cloud.Route
	there    bool // route exists
	owned    Owned
	recorded bool // the ledger has owned
}

// isReady reports whether the tables and the ledger have been read.
func (b *Book) isReady() bool { return b.hasTables && b.hasLedger }

// ownerOf returns the node to which a destination is routed, or nil. A younger node never gets
// the range of an older one, even if the older one has no instance yet.
func (b *Book) ownerOf(d *dest) *node {
	if len(d.claims) == 0 || !d.claims[0].Target.isKnown() || !b.ownsInstance(d.claims[0]) {
		return nil
	}
	return d.claims[0]
}

// ownsInstance reports whether a node is the oldest one with its instance.
func (b *Book) ownsInstance(n *node) bool {
	all := b.byInstance[n.Target.Instance]
	return n.Target.Instance == "" || len(all) > 0 && all[0] == n
}

// inspect returns the state of a destination in a table, and the change that is due.
func (b *Book) inspect(d *dest, t *table) (v view) {
	v.route, v.there = t.routes[d.prefix]
	v.owned, v.recorded = d.ownedIn(t.ID)
	v.node = b.ownerOf(d)
	ours := v.there && v.recorded && v.owned.owns(v.route)
	if len(d.claims) == 0 {
		switch {
		case ours:
			v.code, v.verb = Leftover, cloud.Remove
		case v.there:
			v.code = Foreign
		}
		return v
	}
	n := v.node
	leads := n != nil && v.there && v.route.LeadsTo(n.Target.instance(d.prefix))
	switch {
	case n == nil:
		v.code = Unknown
	case slices.ContainsFunc(b.local, d.prefix.Overlaps):
		v.code = OwnAddresses
	case n.Target.Network != "" && t.Network != "" && n.Target.Network != t.Network:
		v.code = OtherNetwork
	case n.Target.lacksHop(d.prefix):
		v.code = NoAddress
	case leads && v.route.Rival != "":
		v.code = Taken
	case leads && v.route.Split != "":
		if v.code = Taken; ours {
			v.code, v.verb = Pending, cloud.Replace
		}
	case leads && v.route.State == cloud.Blackhole:
		v.code = Blackhole
	case leads:
		v.code = Routed
	case ours:
		v.code, v.verb = Pending, cloud.Replace
	case v.there:
		v.code = Taken
	default:
		v.code, v.verb = Pending, cloud.Add
	}
	s := d.slot(t.ID)
	switch {
	case v.verb == cloud.Add && d.full && !s.reserved && !t.hasRoom(d.prefix):
		v.code = TableFull
	case v.verb != "" && s.failures > 0:
		v.code = Failing
	}
	return v
}

// examine updates the queue, the staged entries and the due changes after an event that
// concerns a destination, its nodes or its routes.
func (b *Book) examine(d *dest, now time.Time) {
	b.examined++
	if !b.isReady() {
		b.touch(d)
		return
	}
	lacksRoom := false
	for _, id := range b.ids {
		t, s := b.tables[id], d.slot(id)
		v := b.inspect(d, t)
		if s.code != v.code {
			s.code = v.code
			b.touch(d)
		}
		if v.verb != cloud.Add {
			b.unreserve(d, s)
		} else if !s.reserved {
			lacksRoom = true
		}
	}
	if lacksRoom {
		b.enqueue(d)
	} else {
		b.unqueue(d)
	}
	delete(b.staged, d)
	if !slices.EqualFunc(b.entry(d, now), d.owned, Owned.equal) {
		b.staged[d] = true
	}
	b.due.Advance(d, now)
	b.forget(d)
}

// touch records that the Status of a destination's nodes may have changed.
func (b *Book) touch(d *dest) {
	for _, n := range d.claims {
		b.touched[n.Name] = true
	}
}

// entry returns the ledger's entry that a destination needs now: all possible targets of each
// route that is ours or that we are about to write.
func (b *Book) entry(d *dest, now time.Time) (all []Owned) {
	for _, id := range b.ids {
		t := b.tables[id]
		v, s := b.inspect(d, t), d.slot(id)
		late := s.lateUntil(b, d)
		switch n := v.node; {
		case n != nil && (v.verb == cloud.Replace || v.verb == cloud.Add && s.reserved || v.isExact()):
			targets := []string{n.Target.id(d.prefix)}
			for _, old := range v.owned.Targets {
				if old != n.Target.id(d.prefix) && len(targets) < mostTargets && (v.verb != "" || now.Before(late)) {
					targets = append(targets, old)
				}
			}
			all = append(all, Owned{id, targets, n.Name})
		case v.recorded && (len(d.claims) > 0 || v.verb == cloud.Remove || s.inFlight || now.Before(late)):
			all = append(all, v.owned)
		}
	}
	for _, o := range d.owned {
		if b.tables[o.Table] == nil && (len(d.claims) > 0 || now.Before(d.slot(o.Table).lateUntil(b, d))) {
			all = append(all, o)
		}
	}
	slices.SortFunc(all, func(o, p Owned) int { return cmp.Compare(o.Table, p.Table) })
	return all
}

// mostTargets limits the targets of one route in the ledger.
const mostTargets = 4

// isExact reports whether a route is exactly the one that we would write.
func (v view) isExact() bool {
	return (v.code == Routed || v.code == Blackhole) && v.route.Origin == cloud.Created && Owned{Targets: []string{v.node.Target.id(v.route.Destination)}}.owns(v.route)
}

// lateUntil returns the time until which a write of the route may still arrive.
func (s *slot) lateUntil(b *Book, d *dest) time.Time {
	last := b.began
	for _, t := range []time.Time{s.wrote, d.gone} {
		if t.After(last) {
			last = t
		}
	}
	return last.Add(lateTime)
}

// isMarked reports whether the ledger already has the new target of a route, so that we may
// write the route.
func (b *Book) isMarked(v view, to netip.Prefix) bool {
	return b.options.DryRun || v.recorded && v.owned.Targets[0] == v.node.Target.id(to)
}

// enqueue adds a destination to those that wait for room.
func (b *Book) enqueue(d *dest) {
	if b.retryQueue = true; d.queued {
		return
	}
	d.queued = true
	i, _ := slices.BinarySearchFunc(b.queue, d, byNode)
	b.queue = slices.Insert(b.queue, i, d)
}

func (b *Book) unqueue(d *dest) {
	if d.queued {
		i := slices.Index(b.queue, d)
		b.queue = slices.Delete(b.queue, i, i+1)
	}
	d.queued, d.full = false, false
}

// byNode orders destinations by the age of their oldest node.
func byNode(d, e *dest) int {
	return cmp.Or(byAge(d.claims[0], e.claims[0]), d.prefix.Compare(e.prefix))
}

// reserveRoom reserves room in every table that lacks a route to a destination. It reports
// false, and reserves none, if one of them has no room.
func (b *Book) reserveRoom(d *dest) bool {
	var slots []*slot
	for _, id := range b.ids {
		s := d.slot(id)
		if s.reserved || b.inspect(d, b.tables[id]).verb != cloud.Add {
			continue
		}
		if !b.tables[id].hasRoom(d.prefix) {
			return false
		}
		slots = append(slots, s)
	}
	for _, s := range slots {
		s.reserved = true
		b.tables[s.table].count(&b.tables[s.table].reserved, d.prefix, 1)
	}
	return true
}

// unreserve releases the reserved room of a slot.
func (b *Book) unreserve(d *dest, s *slot) {
	if !s.reserved {
		return
	}
	s.reserved, b.retryQueue = false, true
	if t := b.tables[s.table]; t != nil {
		t.count(&t.reserved, d.prefix, -1)
	}
}

// release releases all reserved room of a destination, and ends its wait.
func (b *Book) release(d *dest) {
	b.unqueue(d)
	for i := range d.slots {
		b.unreserve(d, &d.slots[i])
	}
}

// Admit reserves room for the destinations that wait, each in all tables or in none. It begins
// with the oldest nodes. It never removes a route to make room.
func (b *Book) Admit(now time.Time) {
	if !b.retryQueue || !b.isReady() {
		return
	}
	b.retryQueue = false
	var admitted []*dest
	waiting := b.queue[:0]
	for _, d := range b.queue {
		if b.reserveRoom(d) {
			admitted = append(admitted, d)
			continue
		}
		if waiting = append(waiting, d); !d.full {
			d.full = true
			b.touch(d)
			for _, id := range b.ids {
				d.slot(id).code = b.inspect(d, b.tables[id]).code
			}
		}
	}
	clear(b.queue[len(waiting):])
	b.queue = waiting
	for _, d := range admitted {
		d.queued, d.full = false, false
		b.due.Remove(d) // examine adds it again, so that the oldest come first there, too
		b.examine(d, now)
	}
	b.retryQueue = false
}
