package cloudroute

import (
	"errors"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// Next returns at most n changes to make now, and the time at which to call it again without
// an event. A returned change is in flight until Done or NotMade.
func (b *Book) Next(now time.Time, n int) (changes []Change, again time.Time) {
	b.Admit(now)
	switch {
	case !b.isReady() || len(b.ids) == 0:
		return nil, time.Time{}
	case now.Before(b.paused):
		return nil, b.paused
	}
	for len(changes) < n {
		x, due := b.forwards.Pop(now)
		if !due {
			break
		}
		switch {
		case b.nodes[x.Name] != x || !x.Target.isKnown() || x.Target.Forwards || x.Target.ForwardFix != "" || x.forward.inFlight || len(x.dests) == 0 || !b.ownsInstance(x):
		case now.Before(x.forward.next):
			b.forwards.Advance(x, x.forward.next)
		default:
			x.forward.inFlight = true
			changes = append(changes, Change{Node: x.Name, RouteChange: cloud.RouteChange{Verb: Forward, Instance: x.Target.Instance, Interface: x.Target.Interface}})
		}
	}
	for len(changes) < n {
		d, due := b.due.Pop(now)
		if !due {
			break
		}
		more, later := b.planDest(d, now, n-len(changes))
		changes = append(changes, more...)
		if !later.IsZero() {
			b.due.Advance(d, later)
		}
	}
	again = b.due.Next()
	if next := b.forwards.Next(); again.IsZero() || !next.IsZero() && next.Before(again) {
		again = next
	}
	return changes, again
}

// planDest returns at most n changes of a destination, and the time at which more may be due.
func (b *Book) planDest(d *dest, now time.Time, n int) (changes []Change, later time.Time) {
	wait := func(until time.Time) {
		if later.IsZero() || until.Before(later) {
			later = until
		}
	}
	if _, marks := b.writing[d]; !marks && !b.staged[d] && !slices.EqualFunc(b.entry(d, now), d.owned, Owned.equal) {
		b.staged[d] = true // a part of the entry has expired
	}
	first := b.firstAdd(d)
	for _, id := range b.ids {
		t, s := b.tables[id], d.slot(id)
		v := b.inspect(d, t)
		switch late := s.lateUntil(b, d); {
		case s.inFlight:
			continue
		case v.recorded && now.Before(late) && v.verb == "" && (len(d.claims) == 0 || len(v.owned.Targets) > 1):
			wait(late)
		}
		if v.verb == "" || v.verb == cloud.Add && !s.reserved || v.verb != cloud.Remove && !b.isMarked(v, d.prefix) {
			continue
		}
		if v.verb == cloud.Add && first != "" && id != first && !s.fails() {
			continue // Done examines the destination again
		}
		if v.verb == cloud.Remove {
			if until := b.mayRemove(d, t, now); until.After(now) {
				wait(until)
				continue
			}
		}
		if now.Before(s.next) {
			wait(s.next)
			continue
		}
		if len(changes) == n {
			wait(now)
			break
		}
		s.inFlight = true
		c := Change{RouteChange: cloud.RouteChange{Table: id, Verb: v.verb, Destination: d.prefix, Was: v.route}, Mark: v.owned.String()}
		if v.verb == cloud.Remove {
			c.Node = v.owned.Node
		} else {
			c.Node, c.Instance, c.Interface = v.node.Name, v.node.Target.Instance, v.node.Target.via(d.prefix)
			c.For = v.node.Name
		}
		if !v.recorded {
			c.Mark = Owned{id, []string{v.node.Target.id(d.prefix)}, c.Node}.String()
		}
		changes = append(changes, c)
	}
	return changes, later
}

// mayRemove returns the time from which a route that no node needs may be removed. The time is
// not later than now if the route may be removed at once. mayRemove requests a new read of the
// table if the last one is too old.
func (b *Book) mayRemove(d *dest, t *table, now time.Time) (until time.Time) {
	until = d.gone.Add(b.options.Grace)
	switch {
	case b.needed == 0:
		// If no node needs a route, the Book assumes a mistake, and removes none.
		return now.Add(lateTime)
	case b.options.DryRun:
		return now
	case until.After(now):
	case t.began.Before(d.gone) || now.Sub(t.end) > maxReadAge:
		if until = now.Add(maxReadAge); b.readBy.IsZero() || now.Before(b.readBy) {
			b.readBy = now
		}
	}
	return until
}

// Done records the outcome of a change.
func (b *Book) Done(c Change, err error, now time.Time) {
	if c.Verb == Forward {
		b.forwarded(c, err, now)
		return
	}
	d, t := b.dests[c.Destination], b.tables[c.Table]
	if d == nil {
		return
	}
	s := d.slot(c.Table)
	b.ended(&s.attempt, now, err)
	switch kind := cloud.KindOf(err); {
	case t == nil:
	case err == nil:
		s.wrote = now
		t.set(c.Destination, c.made(), c.Verb != cloud.Remove)
		if c.Verb == cloud.Add {
			t.accepted(subnet.FamilyOf(c.Destination.Addr()), now)
		}
		b.retryQueue = true
	case kind == cloud.Full:
		b.full(t, subnet.FamilyOf(c.Destination.Addr()), now)
	case kind == cloud.Changed || kind == cloud.Missing || kind == cloud.Taken:
		b.readBy = now
	}
	b.touch(d)
	b.examine(d, now)
	if c.Verb == cloud.Add && err == nil && b.firstAdd(d) != "" {
		// Its other tables come before the routes to further destinations, so that few
		// destinations have routes in some tables only.
		b.due.Advance(d, now.Add(-lateTime))
	}
}

// ended records the outcome of an attempt. A throttled attempt does not count as a failure of
// its route. All changes pause for a moment, and then this one comes first.
func (b *Book) ended(a *attempt, now time.Time, err error) {
	e, ok := errors.AsType[*cloud.Error](err)
	if ok && e.Kind == cloud.Throttled {
		a.inFlight = false
		if until := now.Add(max(e.After, throttledPause)); until.After(b.paused) {
			b.paused = until
		}
		return
	}
	a.ended(now, err)
	if ok && a.next.Before(now.Add(e.After)) {
		a.next = now.Add(e.After)
	}
}

// NotMade records that a change was not begun. The change is due again.
func (b *Book) NotMade(c Change, now time.Time) {
	if n := b.nodes[c.Node]; c.Verb == Forward {
		if n != nil {
			n.forward.inFlight = false
			b.forwards.Advance(n, now)
		}
		return
	}
	if d := b.dests[c.Destination]; d != nil {
		d.slot(c.Table).inFlight = false
		b.examine(d, now)
	}
}

// made returns the route that results from a change.
func (c Change) made() cloud.Route {
	return cloud.Route{
		Destination: c.Destination, To: c.Destination.String(), Kind: cloud.ToInterface,
		Target: c.Interface, Instance: c.Instance, State: cloud.Active, Origin: cloud.Created,
	}
}

// full records that the cloud reported a table as full. It releases all reserved room in the
// table, so that the oldest nodes get the room that is left.
func (b *Book) full(t *table, f subnet.Family, now time.Time) {
	t.limit[f] = t.used[f]
	if t.Quota.Shared {
		t.limit = subnet.Pair[int]{t.used[f], t.used[f]}
	}
	t.limited = now.Add(fullTime)
	for p, d := range b.dests {
		if s := d.slot(t.ID); s.reserved && !s.inFlight && (t.Quota.Shared || subnet.FamilyOf(p.Addr()) == f) {
			b.release(d)
			b.examine(d, now)
		}
	}
}

// forwarded records the outcome of a Forward.
func (b *Book) forwarded(c Change, err error, now time.Time) {
	n := b.nodes[c.Node]
	switch {
	case n == nil:
		return
	case n.Target.Instance != c.Instance:
		n.forward = attempt{} // it was another instance's
		b.forwards.Advance(n, now)
		return
	}
	b.ended(&n.forward, now, err)
	if err == nil {
		n.Target.Forwards = true
	}
	b.touched[n.Name] = true
	b.forwards.Advance(n, n.forward.next)
}

// PlanLedger returns the entries to write to the ledger: those that must precede changes of
// the cloud, and those that have become obsolete. Their write is in flight until LedgerDone.
func (b *Book) PlanLedger(now time.Time) (entries []Entry) {
	b.Admit(now)
	if b.writing != nil || len(b.staged) == 0 || !b.isReady() {
		return nil
	}
	b.writing = make(map[*dest][]Owned, len(b.staged))
	for d := range b.staged {
		b.writing[d] = b.entry(d, now)
		entries = append(entries, Entry{d.prefix, b.writing[d]})
	}
	clear(b.staged)
	slices.SortFunc(entries, func(x, y Entry) int { return x.Destination.Compare(y.Destination) })
	return entries
}

// LedgerDone records the outcome of the write of the entries from PlanLedger.
func (b *Book) LedgerDone(ok bool, now time.Time) {
	written := b.writing
	b.writing = nil
	for d, owned := range written {
		if ok {
			d.owned = owned
		}
		b.examine(d, now)
	}
}

// IsLedgerInFlight reports whether a write of entries is in flight.
func (b *Book) IsLedgerInFlight() bool { return b.writing != nil }

// ReadBy returns the time by which the tables must be read again, before the next full
// comparison. It returns zero if that comparison is early enough. While destinations wait for
// room, only a read shows that the quota was raised, or that a route may be tried.
func (b *Book) ReadBy() time.Time {
	if by := b.read.Add(fullTime); len(b.queue) > 0 && (b.readBy.IsZero() || by.Before(b.readBy)) {
		return by
	}
	return b.readBy
}

// Touched returns the nodes whose Status may have changed since the last call.
func (b *Book) Touched() []string {
	var names []string
	for name := range b.touched {
		names = append(names, name)
	}
	clear(b.touched)
	slices.Sort(names)
	return names
}
