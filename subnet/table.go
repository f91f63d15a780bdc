package subnet

import (
	"cmp"
	"container/heap"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
)

// Table owns the answer to which leases in the store may be believed. It is fed
// with all that a store's Watch tells, and says what that changes.
//
// The answer depends on which leases there are, not on how they came: of two
// that overlap the one created earlier holds its subnet, and ours before any.
// So every node believes the same, before a restart and after it, and a lease
// that appears cannot push out one that works. When the holder goes, the next
// in line is believed.
//
// A lease that goes lingers, and so does one that can no longer be read: it is
// still believed until Bury, for most often its node will write it again in a
// moment. It yields to every lease that is there, and to whatever its node writes
// instead.
//
// A change costs some dozens of steps where there are many leases, and as many
// again for each lease whose standing it changes.
type Table struct {
	cfg       Config
	own       Lease
	ownKey    string
	entries   map[string]*entry // every key in the store, ours too
	held      Pair[treap]       // the subnets of those believed
	inside    map[*entry]bool   // those believed whose public IP is inside the network
	rejected  map[string]*LeaseError
	published int      // how many peers the caller believes in
	queue     queue    // to be judged in this update
	touched   []*entry // judged in this update
	leaving   leaving
}

// Changes are what an update makes of the peers, in each list the earliest first.
type Changes struct {
	// Drop are the keys of those that are no longer believed. They go first:
	// what they held may be another's now.
	Drop []string
	// Set are the peers that are new or changed.
	Set []Peer
	// Rejected are the leases that are not believed, each once for each reason.
	Rejected []*LeaseError
}

// Peer is a lease that is believed, under its key in the store: the lease itself
// may have another, for a family that is off in the config is left out of it.
type Peer struct {
	Key   string
	Lease *Lease // not to be changed
}

// NewTable is an empty table for the node that holds own.
func NewTable(cfg Config, own Lease) *Table {
	return &Table{
		cfg:      cfg,
		own:      own,
		ownKey:   own.Key(),
		entries:  map[string]*entry{},
		inside:   map[*entry]bool{},
		rejected: map[string]*LeaseError{},
	}
}

// Apply takes in what a store tells. After a gap a complete list changes no
// more than what became different. The leases are the table's from then on.
func (t *Table) Apply(u Update) Changes {
	if u.Complete {
		// First, so that what a node has instead takes the place of what it had.
		t.leaveAllBut(u)
	}
	for _, key := range u.Gone {
		if e := t.entries[key]; e != nil {
			t.leave(e)
		}
	}
	for i := range u.Leases {
		t.put(&u.Leases[i])
	}
	for _, b := range u.Bad {
		t.takeUnreadable(b)
	}
	return t.settle()
}

// leaveAllBut has all entries leave that are not in u.
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

// Portions divides a list for an empty table into updates of at most size
// leases, to be applied one after the other: the earlier leases first, so that
// none displaces one of a portion before. Any other update it leaves whole. It
// puts the list in order where it is: a large one is not there twice.
func (t *Table) Portions(u Update, size int) []Update {
	if !u.Complete || len(t.entries) > 0 || len(u.Leases) <= size {
		return []Update{u}
	}
	sortByRank(u.Leases)
	var portions []Update
	for leases := range slices.Chunk(u.Leases, size) {
		portions = append(portions, Update{Leases: leases})
	}
	portions[0].Bad = u.Bad
	return portions
}

// Reconfigure judges every lease anew, for a config or a lease of ours that
// changed.
func (t *Table) Reconfigure(cfg Config, own Lease) Changes {
	unchanged := cfg == t.cfg && sameToPeers(&own, &t.own)
	t.cfg, t.own, t.ownKey = cfg, own, own.Key()
	if unchanged {
		return Changes{}
	}
	t.held = Pair[treap]{}
	clear(t.inside)
	for _, e := range t.entries {
		e.held, e.holder, e.waiting = false, nil, nil
		t.judge(e)
	}
	return t.settle()
}

// DropLingering drops what has lingered since the last DropLingering.
func (t *Table) DropLingering() Changes {
	for e, burial := range t.leaving.entries {
		if burial < t.leaving.burials {
			t.depart(e)
		}
	}
	t.leaving.burials++
	return t.settle()
}

// Lingering says whether a lease that went is still believed.
func (t *Table) Lingering() bool { return len(t.leaving.entries) > 0 }

// Len is how many leases are believed.
func (t *Table) Len() int { return t.published }

// Peers are all leases that are believed, by key. They are not to be changed.
func (t *Table) Peers() iter.Seq2[string, *Lease] {
	return func(yield func(string, *Lease) bool) {
		for key, e := range t.entries {
			if e.held && !yield(key, e.visible) {
				return
			}
		}
	}
}

// Peer is the lease of a peer by its key in the store, or nil.
func (t *Table) Peer(key string) *Lease {
	if e := t.entries[key]; e != nil && e.held {
		return e.visible
	}
	return nil
}

// Rejected are all leases that are not believed, by key.
func (t *Table) Rejected() []*LeaseError {
	rejected := make([]*LeaseError, 0, len(t.rejected))
	for _, e := range t.rejected {
		rejected = append(rejected, e)
	}
	slices.SortFunc(rejected, func(a, b *LeaseError) int { return strings.Compare(a.Key, b.Key) })
	return rejected
}

// entry is what there is under a key, and may be nothing yet.
func (t *Table) entry(key string) *entry {
	e := t.entries[key]
	if e == nil {
		e = &entry{key: key, lease: &Lease{}}
		t.entries[key] = e
	}
	return e
}

// put takes in a lease that the store has.
func (t *Table) put(l *Lease) {
	e := t.entry(l.Key())
	if !e.departed && !e.leaving && e.bad == nil && *e.lease == *l {
		return
	}
	t.release(e)
	t.leaving.remove(e)
	e.lease, e.bad, e.departed = l, nil, false
	for _, old := range t.leaving.of(l.Attrs) {
		t.depart(old) // its node has this one now
	}
	t.judge(e)
}

// takeUnreadable records that the value of a key cannot be read.
func (t *Table) takeUnreadable(b *LeaseError) {
	e := t.entry(b.Key)
	e.bad, e.departed = b.Err, false
	t.linger(e)
}

// leave takes in that the store has nothing under e's key.
func (t *Table) leave(e *entry) {
	e.bad = nil
	t.linger(e)
}

// linger has e linger if it is believed, and else depart.
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

// depart has e be believed no more; what cannot be read stays, to be told of.
func (t *Table) depart(e *entry) {
	t.release(e)
	t.leaving.remove(e)
	if e.bad == nil {
		e.departed = true
		t.touch(e)
		return
	}
	e.lease = &Lease{}
	t.judge(e)
}

// judge says what is wrong with e by itself, and queues it to find its place
// among the others.
func (t *Table) judge(e *entry) {
	e.visible = e.lease
	if visible := t.cfg.visible(*e.lease); visible != *e.lease {
		differs := visible // so that only this one is on the heap
		e.visible = &differs
	}
	e.faulty = nil
	switch {
	case e.bad != nil && !e.leaving:
		e.faulty = e.bad
	case !t.isOwn(e):
		e.faulty = t.cfg.check(*e.visible, t.own)
	}
	t.enqueue(e)
}

// isOwn says whether e is ours. Where others give the subnets, a key may name one
// of a family that is off, and ours does not.
func (t *Table) isOwn(e *entry) bool {
	return e.key == t.ownKey ||
		t.cfg.Given && t.own.Node.Name != "" && e.visible.Node.Name == t.own.Node.Name && e.visible.Subnets == t.own.Subnets
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

// release takes e's standing from it, and lets those who waited for that find
// theirs.
func (t *Table) release(e *entry) {
	if e.holder != nil {
		delete(e.holder.waiting, e)
		e.holder = nil
	}
	if !e.held {
		return
	}
	e.held = false
	delete(t.inside, e)
	for f, s := range e.visible.Subnets {
		if s.IsValid() {
			t.held[f].remove(s)
		}
	}
	for w := range e.waiting {
		w.holder = nil
		t.enqueue(w)
	}
	e.waiting = nil
}

// settle finds everyone's place and tells what changed. The queue gives the
// earliest first, and placing one moves later ones alone: each is placed once.
func (t *Table) settle() Changes {
	// What was queued may have been written to again since, and moved.
	heap.Init(&t.queue)
	for len(t.queue) > 0 {
		e := heap.Pop(&t.queue).(*entry)
		e.queued = false
		switch {
		case e.departed:
		case e.faulty == nil && !t.isOwn(e):
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
		if e.departed {
			delete(t.entries, e.key)
		}
	}
	t.touched = nil
	return c
}

// enter gives e its subnets, or has it wait for an earlier one. One that lingers
// does not wait.
func (t *Table) enter(e *entry) {
	var later []*entry
	for q := range t.rivals(e) {
		if q.before(e) {
			if e.leaving {
				t.depart(e)
				return
			}
			if q.waiting == nil {
				q.waiting = map[*entry]struct{}{}
			}
			q.waiting[e] = struct{}{}
			e.holder = q
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
			t.held[f].insert(s, e)
		}
		if ip := e.visible.PublicIP[f]; ip.IsValid() && t.cfg.Pools[f].Network.Contains(ip) {
			t.inside[e] = true
		}
	}
	e.held = true
}

// rivals are the held leases of which only one can be, them or e: because
// subnets overlap, or because one's subnet holds the other's public IP, so that
// who reaches the containers loses the host. Public IPs may stand in the network
// where the pool leaves room, and only leases that are none of the pool's can
// reach there.
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

// publish compares e with what the caller knows of it, and adds the difference to c.
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
	err := cmp.Or(e.bad, e.faulty)
	if e.holder != nil {
		err = fmt.Errorf("%w: %s", ErrOverlap, e.holder.key)
	}
	if err == nil || e.departed {
		delete(t.rejected, e.key)
		return
	}
	if before := t.rejected[e.key]; before == nil || before.Err.Error() != err.Error() {
		t.rejected[e.key] = &LeaseError{e.key, err}
		c.Rejected = append(c.Rejected, t.rejected[e.key])
	}
}

// sameToPeers says whether two versions of a lease come to the same for whoever
// reaches its holder: when it expires does not.
func sameToPeers(a, b *Lease) bool { return a.Subnets == b.Subnets && a.Attrs == b.Attrs }
