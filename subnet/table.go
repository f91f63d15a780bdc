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

// Table decides which leases in the store to accept. It takes the updates of a
// store's Watch, and returns what each changes.
//
// The result depends on which leases there are, not on the order of their arrival. Of
// two leases that overlap, the one created earlier holds its subnet; ours precedes
// all. So every node accepts the same leases, before and after a restart, and a new
// lease cannot displace one that works. When the holder goes, the next in line is
// accepted.
//
// A lease that goes or becomes unreadable lingers: it stays accepted until
// DropLingering, because its node will usually write it again soon. It yields to
// every lease in the store, and to any other lease of its node.
//
// With many leases, a change costs some dozens of steps, and as many again for each
// lease whose standing it changes.
type Table struct {
	cfg       Config
	own       Lease
	ownKey    string
	entries   map[string]*entry // every key in the store, ours included
	held      Pair[treap]       // the subnets of accepted leases
	inside    map[*entry]bool   // accepted leases whose public IP is inside the network
	rejected  map[string]*LeaseError
	surplus   surplus             // unreadable keys
	unfits    surplus             // keys of leases that are rejected whatever others there are
	reserved  map[string]struct{} // keys
	published int                 // number of peers that the caller has
	queue     queue               // to be judged in this update
	touched   []*entry            // judged in this update
	leaving   leaving

	detailed, longest int // mostDetailed and longestDetailed, unless the caller wants all
}

// Changes is what an update changes of the peers. Each list has the earliest first.
type Changes struct {
	// Drop are the keys of leases that are no longer accepted. Apply them first:
	// another lease may hold their subnets now.
	Drop []string
	// Set are the peers that are new or changed.
	Set []Peer
	// Rejected are the leases that are rejected, once for each reason.
	Rejected []*LeaseError
	// Relist asks for a complete list: leases that the table only counts may be valid
	// now.
	Relist bool
}

// Peer is an accepted lease under its key in the store. Lease.Key may differ, because
// Lease leaves out a family that is off in the config.
type Peer struct {
	Key   string
	Lease *Lease // not to be changed
}

// NewTable returns an empty table for the node that holds own.
func NewTable(cfg Config, own Lease) *Table {
	return &Table{
		cfg:      cfg,
		own:      own,
		held:     newHeld(),
		ownKey:   own.Key(),
		entries:  map[string]*entry{},
		inside:   map[*entry]bool{},
		rejected: map[string]*LeaseError{},
		reserved: map[string]struct{}{},
		detailed: mostDetailed, longest: longestDetailed,
	}
}

// Apply applies an update from the store. A complete list after a gap changes only
// what differs. From then on the leases belong to the table.
func (t *Table) Apply(u Update) Changes {
	if u.Complete {
		// First, so that a node's new lease replaces its old one.
		t.leaveAllBut(u)
		t.surplus, t.unfits = nil, nil
	}
	for _, key := range u.Gone {
		if e := t.entries[key]; e != nil {
			t.leave(e)
		}
		t.surplus.remove(key)
		t.unfits.remove(key)
	}
	u = t.sift(u) // after Gone, so that a counted lease, too, replaces its node's old one
	for i := range u.Leases {
		t.put(&u.Leases[i])
	}
	t.takeAllUnreadable(u)
	return t.settle()
}

// leaveAllBut marks all entries that are not in u as gone from the store.
func (t *Table) leaveAllBut(u Update) {
	if len(t.entries) == 0 {
		return
	}
	present := make(map[string]bool, len(u.Leases)+len(u.Bad))
	for i := range u.Leases {
		present[u.Leases[i].Key()] = true
	}
	for _, b := range u.Bad {
		present[b.Key] = true
	}
	for key, e := range t.entries {
		if !present[key] {
			t.leave(e)
		}
	}
}

// Portions splits a complete list for an empty table into updates of at most size
// leases, to be applied in order. The earlier leases come first, so that none
// displaces a lease of an earlier portion. It returns any other update whole. It
// sorts the list in place, because a large list should not be in memory twice. It
// already counts the unfit leases that it leaves out.
func (t *Table) Portions(u Update, size int) []Update {
	if !u.Complete || len(t.entries) > 0 || len(u.Leases) <= size {
		return []Update{u}
	}
	t.surplus, t.unfits = nil, nil
	u = t.sift(u)
	sortByRank(u.Leases)
	t.entries = make(map[string]*entry, len(u.Leases))
	var portions []Update
	for leases := range slices.Chunk(u.Leases, size) {
		portions = append(portions, Update{Leases: leases})
	}
	portions[0].Bad = u.Bad
	return portions
}

// Reconfigure judges every lease again after the config or our own lease changed.
func (t *Table) Reconfigure(cfg Config, own Lease) Changes {
	unchanged := cfg == t.cfg && sameToPeers(&own, &t.own)
	t.cfg, t.own, t.ownKey = cfg, own, own.Key()
	if unchanged {
		return Changes{}
	}
	t.held = newHeld()
	clear(t.inside)
	for _, e := range t.entries {
		e.held = false
		e.freeWaiting()
		t.judge(e)
	}
	c := t.settle()
	c.Relist = len(t.unfits) > 0
	return c
}

// DropLingering drops the leases that began to linger before the previous call.
func (t *Table) DropLingering() Changes {
	for e, burial := range t.leaving.entries {
		if burial < t.leaving.rounds {
			t.depart(e)
		}
	}
	t.leaving.rounds++
	return t.settle()
}

// Lingering reports whether any lease lingers.
func (t *Table) Lingering() bool { return len(t.leaving.entries) > 0 }

// Len returns the number of accepted leases.
func (t *Table) Len() int { return t.published }

// Peers returns all accepted leases by key. The caller must not change them.
func (t *Table) Peers() iter.Seq2[string, *Lease] {
	return func(yield func(string, *Lease) bool) {
		for key, e := range t.entries {
			if e.held && !yield(key, e.visible) {
				return
			}
		}
	}
}

// Peer returns an accepted lease by its key in the store, or nil.
func (t *Table) Peer(key string) *Lease {
	if e := t.entries[key]; e != nil && e.held {
		return e.visible
	}
	return nil
}

// noLease is the lease of an entry that has none. Nothing changes it.
var noLease = &Lease{}

// entry returns the entry of a key, and adds an empty one if there is none.
func (t *Table) entry(key string) *entry {
	e := t.entries[key]
	if e == nil {
		e = &entry{key: key, lease: noLease}
		t.entries[key] = e
	}
	return e
}

// put records a lease that the store has.
func (t *Table) put(l *Lease) {
	key := l.Key()
	t.surplus.remove(key)
	t.unfits.remove(key)
	e := t.entry(key)
	if !e.departed && !e.leaving && e.bad() == nil && *e.lease == *l {
		return
	}
	t.release(e)
	t.leaving.remove(e)
	e.lease, e.departed = l, false
	e.setBad(nil)
	t.succeed(l)
	t.judge(e)
}

// succeed drops the lingering leases of the node that has l now.
func (t *Table) succeed(l *Lease) {
	for _, old := range t.leaving.of(l.Attrs) {
		t.depart(old)
	}
}

// leave records that the store has nothing under e's key.
func (t *Table) leave(e *entry) {
	e.setBad(nil)
	t.linger(e)
}

// linger keeps e as a lingering entry if it is accepted, and drops it otherwise.
func (t *Table) linger(e *entry) {
	switch {
	case e.leaving:
		t.touch(e)
	case !e.held:
		t.depart(e)
	default:
		t.release(e)
		t.leaving.add(e)
		t.enqueue(e)
	}
}

// depart stops accepting e. An entry that the store cannot read stays, to be
// reported.
func (t *Table) depart(e *entry) {
	t.release(e)
	t.leaving.remove(e)
	if e.bad() == nil {
		e.departed = true
		t.touch(e)
		return
	}
	e.lease = noLease
	t.judge(e)
}

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
