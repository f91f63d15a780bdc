package cloudroute

import (
	"errors"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// Next returns at most n changes to make now, and when to call it again without an
// event. A returned change is in flight until Done.
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
		case b.nodes[x.Name] != x || !x.Target.isKnown() || x.Target.Forwards || x.forward.flying || len(x.dests) == 0 || !b.hasHost(x):
		case now.Before(x.forward.next):
			b.forwards.Advance(x, x.forward.next)
		default:
			x.forward.flying = true
			changes = append(changes, Change{Node: x.Name, RouteChange: cloud.RouteChange{Verb: Forward, Instance: x.Target.Instance, Interface: x.Target.Interface}})
		}
	}
	for len(changes) < n {
		d, due := b.due.Pop(now)
		if !due {
			break
		}
		more, later := b.step(d, now, n-len(changes))
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

// step returns at most n changes of a destination, and when more may be due.
func (b *Book) step(d *dest, now time.Time, n int) (changes []Change, later time.Time) {
	wait := func(until time.Time) {
		if later.IsZero() || until.Before(later) {
			later = until
		}
	}
	if _, marks := b.marking[d]; !marks && !b.staged[d] && !slices.EqualFunc(b.entry(d, now), d.owned, Owned.equal) {
		b.staged[d] = true // with time, the entry has become superfluous
	}
	for _, id := range b.ids {
		t, s := b.tables[id], d.slot(id)
		v := b.look(d, t)
		switch late := s.lateUntil(b, d); {
		case s.flying:
			continue
		case v.has && now.Before(late) && v.verb == "" && (len(d.claims) == 0 || len(v.owned.Targets) > 1):
			wait(late)
		}
		if v.verb == "" || v.verb == cloud.Add && !s.reserved || v.verb != cloud.Remove && !b.isMarked(v, d.prefix) {
			continue
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
		s.flying = true
		c := Change{RouteChange: cloud.RouteChange{Table: id, Verb: v.verb, Destination: d.prefix, Was: v.route}, Mark: v.owned.String()}
		if v.verb == cloud.Remove {
			c.Node = v.owned.Node
		} else {
			c.Node, c.Instance, c.Interface = v.node.Name, v.node.Target.Instance, v.node.Target.via(d.prefix)
			c.For = v.node.Name
		}
		if !v.has {
			c.Mark = Owned{id, []string{v.node.Target.id(d.prefix)}, c.Node}.String()
		}
		changes = append(changes, c)
	}
	return changes, later
}

// mayRemove returns when a route that no node needs may be removed, or a time that is not
// later than now. It requests a new read of the table if the last one is too old.
func (b *Book) mayRemove(d *dest, t *table, now time.Time) (until time.Time) {
	until = d.gone.Add(b.options.Grace)
	switch {
	case b.needed == 0:
		// A cluster without any node is taken for a mistake.
		return now.Add(forgetTime)
	case b.options.DryRun:
		return now
	case until.After(now):
	case t.read.Before(d.gone) || now.Sub(t.taken) > recentTime:
		if until = now.Add(recentTime); b.readBy.IsZero() || now.Before(b.readBy) {
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
		b.roomier = true
	case kind == cloud.Full:
		b.full(t, subnet.FamilyOf(c.Destination.Addr()), now)
	case kind == cloud.Changed || kind == cloud.Missing || kind == cloud.Taken:
		b.readBy = now
	}
	b.touch(d)
	b.examine(d, now)
}

// ended records the outcome of an attempt. A throttled one says nothing about its route:
// all changes pause for a moment, and then this one comes first.
func (b *Book) ended(a *attempt, now time.Time, err error) {
	e, ok := errors.AsType[*cloud.Error](err)
	if ok && e.Kind == cloud.Throttled {
		a.flying = false
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

// NotMade makes a change due again that was not begun.
func (b *Book) NotMade(c Change, now time.Time) {
	if n := b.nodes[c.Node]; c.Verb == Forward {
		if n != nil {
			n.forward.flying = false
			b.forwards.Advance(n, now)
		}
		return
	}
	if d := b.dests[c.Destination]; d != nil {
		d.slot(c.Table).flying = false
		b.examine(d, now)
	}
}

// made returns the route that a change has made.
func (c Change) made() cloud.Route {
	return cloud.Route{
		Destination: c.Destination, To: c.Destination.String(), Kind: cloud.ToInterface,
		Target: c.Interface, Instance: c.Instance, State: cloud.Active, Origin: cloud.Created,
	}
}

// full records that the cloud called a table full. All destinations that wait for room
// there release it, so that the oldest get what is left.
func (b *Book) full(t *table, f subnet.Family, now time.Time) {
	t.limit[f] = t.used[f]
	if t.Quota.Shared {
		t.limit = subnet.Pair[int]{t.used[f], t.used[f]}
	}
	t.limited = now.Add(forgetTime)
	for p, d := range b.dests {
		if s := d.slot(t.ID); s.reserved && !s.flying && (t.Quota.Shared || subnet.FamilyOf(p.Addr()) == f) {
			b.release(d)
			b.examine(d, now)
		}
	}
}

func (b *Book) forwarded(c Change, err error, now time.Time) {
	n := b.nodes[c.Node]
	if n == nil || n.Target.Instance != c.Instance {
		return
	}
	b.ended(&n.forward, now, err)
	if err == nil {
		n.Target.Forwards = true
	}
	b.touched[n.Name] = true
	b.forwards.Advance(n, n.forward.next)
}

// Marks returns the entries that the ledger needs before the changes that wait for them,
// and those that have become superfluous. They are being written until Marked.
func (b *Book) Marks(now time.Time) (entries []Entry) {
	b.Admit(now)
	if b.marking != nil || len(b.staged) == 0 || !b.isReady() {
		return nil
	}
	b.marking = make(map[*dest][]Owned, len(b.staged))
	for d := range b.staged {
		b.marking[d] = b.entry(d, now)
		entries = append(entries, Entry{d.prefix, b.marking[d]})
	}
	clear(b.staged)
	slices.SortFunc(entries, func(x, y Entry) int { return x.Destination.Compare(y.Destination) })
	return entries
}

// Marked records the outcome of a write of Marks.
func (b *Book) Marked(ok bool, now time.Time) {
	marked := b.marking
	b.marking = nil
	for d, owned := range marked {
		if ok {
			d.owned = owned
		}
		b.examine(d, now)
	}
}

// IsMarking reports whether entries are being written.
func (b *Book) IsMarking() bool { return b.marking != nil }

// ReadBy returns when to read the tables again before the next comparison, or zero.
func (b *Book) ReadBy() time.Time { return b.readBy }

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
