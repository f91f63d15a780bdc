package subnet

// entry is what a Table knows of one key in the store. An entry that is neither held
// nor faulty waits for its holder to go. The node's own entry is neither, and waits
// for nothing.
type entry struct {
	key       string
	lease     *Lease  // as the store has it, or last had it
	visible   *Lease  // the part of lease that counts under the config
	published *Lease  // the version that the caller has, or nil
	rare      *rarity // nil for nearly all

	leaving         bool // gone from the store or unreadable there, and lingering
	departed        bool
	held            bool
	queued, touched bool
}

// rarity is what few entries have. There is an entry for each peer, and most need no
// memory for it.
type rarity struct {
	bad     error               // why the store's present value cannot be read
	faulty  error               // what is wrong with the lease, regardless of other leases
	holder  *entry              // an earlier entry that it overlaps
	waiting map[*entry]struct{} // the entries whose holder this is
}

func (e *entry) bad() error {
	if e.rare == nil {
		return nil
	}
	return e.rare.bad
}

func (e *entry) setBad(err error) {
	if err != nil || e.rare != nil {
		e.rarity().bad = err
	}
}

func (e *entry) faulty() error {
	if e.rare == nil {
		return nil
	}
	return e.rare.faulty
}

func (e *entry) setFaulty(err error) {
	if err != nil || e.rare != nil {
		e.rarity().faulty = err
	}
}

func (e *entry) holder() *entry {
	if e.rare == nil {
		return nil
	}
	return e.rare.holder
}

// waitFor makes e wait for holder.
func (e *entry) waitFor(holder *entry) {
	e.rarity().holder = holder
	r := holder.rarity()
	if r.waiting == nil {
		r.waiting = map[*entry]struct{}{}
	}
	r.waiting[e] = struct{}{}
}

// stopWaiting makes e wait for no entry.
func (e *entry) stopWaiting() {
	if holder := e.holder(); holder != nil {
		delete(holder.rare.waiting, e)
		holder.tidy()
		e.rare.holder = nil
	}
}

// freeWaiting makes no entry wait for e, and returns those that did.
func (e *entry) freeWaiting() map[*entry]struct{} {
	if e.rare == nil {
		return nil
	}
	freed := e.rare.waiting
	for w := range freed {
		w.rare.holder = nil
	}
	e.rare.waiting = nil
	return freed
}

// rarity returns e's, and adds one if there is none.
func (e *entry) rarity() *rarity {
	if e.rare == nil {
		e.rare = &rarity{}
	}
	return e.rare
}

// tidy drops e's rarity if it is empty.
func (e *entry) tidy() {
	if r := e.rare; r != nil && r.bad == nil && r.faulty == nil && r.holder == nil && len(r.waiting) == 0 {
		e.rare = nil
	}
}

// before reports whether e precedes q: entries in the store before lingering ones,
// then the one that was created earlier.
func (e *entry) before(q *entry) bool {
	if e.leaving != q.leaving {
		return q.leaving
	}
	if e.lease.Created != q.lease.Created {
		return e.lease.Created < q.lease.Created
	}
	return e.key < q.key
}

func compareEntries(a, b *entry) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}

// queue is a heap of entries, the earliest first.
type queue []*entry

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)        { *q = append(*q, e.(*entry)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}
