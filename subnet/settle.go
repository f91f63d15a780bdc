package subnet

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"slices"
)

// judge checks e by itself, and queues it to be compared with the others.
func (t *Table) judge(e *entry) {
	e.visible = e.lease
	if visible := t.cfg.visible(*e.lease); visible != *e.lease {
		differs := visible // allocated only if it differs
		e.visible = &differs
	}
	var faulty error
	switch {
	case e.bad() != nil && !e.leaving:
		faulty = e.bad()
	case !t.isOwn(e.key, e.visible):
		faulty = t.cfg.check(*e.visible, t.own)
	}
	e.setFaulty(faulty)
	t.enqueue(e)
}

// isOwn reports whether a lease is ours. Where Given is set, a key may name a subnet of
// a family that is off, which our own key lacks.
func (t *Table) isOwn(key string, visible *Lease) bool {
	return key == t.ownKey ||
		t.cfg.Given && t.own.Node.Name != "" && visible.Node.Name == t.own.Node.Name && visible.Subnets == t.own.Subnets
}

func (t *Table) enqueue(e *entry) {
	t.touch(e)
	if !e.queued {
		e.queued = true
		heap.Push(&t.queue, e)
	}
}

func (t *Table) touch(e *entry) {
	if !e.touched {
		e.touched = true
		t.touched = append(t.touched, e)
	}
}

// release takes e's subnets from it, and queues the entries that waited for them.
func (t *Table) release(e *entry) {
	e.stopWaiting()
	if !e.held {
		return
	}
	e.held = false
	delete(t.inside, e)
	for f, s := range e.visible.Subnets {
		if s.IsValid() {
			t.held[f].remove(e)
		}
	}
	for w := range e.freeWaiting() {
		t.enqueue(w)
	}
}

// settle places all queued entries and returns what changed. The queue yields the
// earliest entry first. Placing an entry displaces only later ones, so each is placed
// once.
func (t *Table) settle() Changes {
	// The order of queued entries may have changed since they were queued.
	heap.Init(&t.queue)
	for len(t.queue) > 0 {
		e := heap.Pop(&t.queue).(*entry)
		e.queued = false
		switch {
		case e.departed:
		case e.faulty() == nil && !t.isOwn(e.key, e.visible):
			t.enter(e)
		case e.leaving:
			t.depart(e)
		}
	}
	slices.SortFunc(t.touched, func(a, b *entry) int { return compareEntries(a, b) })
	c := Changes{Set: make([]Peer, 0, len(t.touched))}
	for _, e := range t.touched {
		e.touched = false
		t.publish(e, &c)
		e.tidy()
		if e.departed {
			delete(t.entries, e.key)
		}
	}
	t.touched = nil
	return c
}

// enter gives e its subnets, or makes it wait for an earlier entry. A lingering entry
// does not wait; it departs.
func (t *Table) enter(e *entry) {
	var later []*entry
	for q := range t.rivals(e) {
		if q.before(e) {
			if e.leaving {
				t.depart(e)
				return
			}
			e.waitFor(q)
			return
		}
		later = append(later, q)
	}
	for _, q := range later {
		t.release(q)
		t.enqueue(q)
	}
	for f, s := range e.visible.Subnets {
		if s.IsValid() {
			t.held[f].insert(e)
		}
		if ip := e.visible.PublicIP[f]; ip.IsValid() && t.cfg.Pools[f].Network.Contains(ip) {
			t.inside[e] = true
		}
	}
	e.held = true
}

// rivals returns the held entries that exclude e, because subnets overlap or because
// one lease's subnet holds the other's public IP. In the latter case the route to the
// containers would hide the host.
//
// Public IPs may lie in the network where the pool leaves room. Only leases outside
// the pool can hold them.
func (t *Table) rivals(e *entry) iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for f, s := range e.visible.Subnets {
			if ip := e.visible.PublicIP[f]; ip.IsValid() && t.cfg.Pools[f].Network.Contains(ip) {
				for q := range t.held[f].overlapping(netip.PrefixFrom(ip, ip.BitLen())) {
					if !yield(q) {
						return
					}
				}
			}
			if !s.IsValid() {
				continue
			}
			for q := range t.held[f].overlapping(s) {
				if !yield(q) {
					return
				}
			}
			if t.cfg.Pools[f].Has(s) {
				continue
			}
			for q := range t.inside {
				if s.Contains(q.visible.PublicIP[f]) && !yield(q) {
					return
				}
			}
		}
	}
}

// publish compares e with what the caller has, and adds the difference to c.
func (t *Table) publish(e *entry, c *Changes) {
	switch {
	case e.held:
		if e.published == nil || !sameToPeers(e.visible, e.published) {
			c.Set = append(c.Set, Peer{e.key, e.visible})
		}
		if e.published == nil {
			t.published++
		}
		e.published = e.visible
	case e.published != nil:
		c.Drop = append(c.Drop, e.key)
		e.published = nil
		t.published--
	}
	t.recordReservation(e)
	err := cmp.Or(e.bad(), e.faulty())
	if holder := e.holder(); holder != nil {
		err = fmt.Errorf("%w: %s", ErrOverlap, holder.key)
	}
	if err == nil || e.departed || errors.Is(err, errReserved) {
		delete(t.rejected, e.key)
		return
	}
	if before := t.rejected[e.key]; before == nil || before.Err.Error() != err.Error() {
		t.rejected[e.key] = &LeaseError{e.key, err}
		c.Rejected = append(c.Rejected, t.rejected[e.key])
	}
}

// sameToPeers reports whether two versions of a lease are the same to peers of its
// holder. When it expires does not matter.
func sameToPeers(a, b *Lease) bool { return a.Subnets == b.Subnets && a.Attrs == b.Attrs }
