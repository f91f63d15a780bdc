package subnet

// entry is what a Table knows of one key in the store. An entry that is neither held
// nor faulty waits for its holder to go. The node's own entry is neither, and waits
// for nothing.
type entry struct {
	key   string
	lease *Lease // as the store has it, or last had it
	bad   error  // why the store's present value cannot be read

	visible *Lease              // the part of lease that counts under the config
	faulty  error               // what is wrong with it, regardless of other leases
	holder  *entry              // an earlier entry that it overlaps
	waiting map[*entry]struct{} // the entries whose holder this is

	published *Lease // the version that the caller has, or nil

	leaving         bool // gone from the store or unreadable there, and lingering
	departed        bool
	held            bool
	queued, touched bool
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
