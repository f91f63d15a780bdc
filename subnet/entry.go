package subnet

// entry is what a Table knows of one key in the store. One that is neither
// held nor faulty waits for its holder to go; ours does nothing.
type entry struct {
	key   string
	lease *Lease // as the store has it, or had it if it lingers
	bad   error  // why the store cannot read what it has now

	visible *Lease              // what of lease counts under the config
	faulty  error               // what is wrong with it, whatever other leases there are
	holder  *entry              // an earlier one that it overlaps
	waiting map[*entry]struct{} // those whose holder it is

	published *Lease // what the caller believes of it, or nil

	leaving         bool // it can be read in the store no more, and lingers
	departed        bool
	held            bool
	queued, touched bool
}

// before says whether e was there before q. What lingers comes after all that is
// there.
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
