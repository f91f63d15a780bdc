package subnet

import (
	"iter"
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

// Lingered returns how many leases have begun to linger so far.
func (t *Table) Lingered() int { return t.leaving.begun }

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

// Own returns this node's own lease as the updates said last, or nil if they did not.
func (t *Table) Own() *Lease {
	if e := t.entries[t.ownKey]; e != nil && !e.departed && !e.leaving && e.bad() == nil {
		return e.lease
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
