package cloudroute

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// settleTime is the time after a change in which a read may still show the old state.
	settleTime = 10 * time.Second
	// lateTime is the time after a change or a removal in which a write may still arrive.
	// Meanwhile the ledger keeps absent routes, and the former targets of routes.
	lateTime = 10 * time.Minute
	// fullTime is the time for which a table that the cloud reported as full gets no further
	// route. Then one route is tried, and if the cloud accepts it, all others follow.
	fullTime = time.Minute
	// throttledPause is the pause of all changes after the cloud has throttled one.
	throttledPause = time.Second
	// maxReadAge is the maximum age of a table's last read when a route in it is removed.
	maxReadAge = 15 * time.Second
)

// retries paces the retries of failed changes of one route, or of one instance.
var retries = retry.Backoff{First: 500 * time.Millisecond, Last: time.Minute}

// Book holds the state that the caller has read, and decides which changes to make. It is not
// safe for concurrent use.
type Book struct {
	options    Options
	nodes      map[string]*node
	byInstance map[string][]*node // by instance, the oldest first
	dests      map[netip.Prefix]*dest
	tables     map[string]*table
	ids        []string       // of the tables, sorted
	local      []netip.Prefix // the addresses of the cloud's networks

	hasTables, hasLedger bool
	began                time.Time // when the term began
	needed               int       // destinations that a node needs

	due        retry.Schedule[*dest]
	forwards   retry.Schedule[*node]
	queue      []*dest // the destinations that wait for room, the oldest node first
	retryQueue bool    // whether to try the queue again
	staged     map[*dest]bool
	writing    map[*dest][]Owned // the entries that are being written
	touched    map[string]bool   // nodes whose Status may have changed
	paused     time.Time         // until then no change begins
	read       time.Time         // the end of the tables' last read
	readBy     time.Time         // when to read the tables again, before the next comparison
	examined   int               // counts destinations, for tests of what an event costs
}

// node is a Node, with what the Book derives from it.
type node struct {
	Node
	dests   []*dest
	faults  []Finding // of its ranges
	forward attempt
}

// dest is a destination that a node needs or that the ledger has.
type dest struct {
	prefix netip.Prefix
	claims []*node // the nodes with the range, the oldest first
	owned  []Owned // from the ledger
	gone   time.Time
	slots  []slot
	// queued is set while the destination waits for room, and full if Admit found none.
	queued, full bool
}

// slot is the route of a destination in one table.
type slot struct {
	table string
	attempt
	code     Code
	wrote    time.Time // the end of our last change
	reserved bool      // room is reserved for the route, which does not exist yet
}

// attempt holds the state of one change and its retries.
type attempt struct {
	inFlight bool
	failures int // in a row
	next     time.Time
	err      error // of the last failure
}

func (a *attempt) ended(now time.Time, err error) {
	a.inFlight, a.err = false, err
	if err == nil {
		a.failures, a.next = 0, time.Time{}
		return
	}
	a.failures++
	a.next = now.Add(retries.After(a.failures))
}

// New returns an empty Book.
func New(o Options) *Book {
	b := &Book{
		options: o, nodes: make(map[string]*node), byInstance: make(map[string][]*node), dests: make(map[netip.Prefix]*dest), touched: make(map[string]bool),
	}
	b.Reset(time.Time{})
	return b
}

// Reset begins a term: it drops the tables, the ledger and the outcomes of changes, and keeps
// the nodes.
func (b *Book) Reset(now time.Time) {
	b.tables, b.ids, b.local, b.hasTables, b.hasLedger, b.began = make(map[string]*table), nil, nil, false, false, now
	b.due, b.forwards, b.queue, b.staged, b.writing = retry.Schedule[*dest]{}, retry.Schedule[*node]{}, nil, make(map[*dest]bool), nil
	b.readBy, b.paused = time.Time{}, time.Time{}
	for p, d := range b.dests {
		*d = dest{prefix: p, claims: d.claims, gone: now}
		if len(d.claims) == 0 {
			delete(b.dests, p)
		}
	}
	for _, n := range b.nodes {
		n.forward = attempt{}
		b.touched[n.Name] = true
		b.forwards.Advance(n, now)
	}
}

// SetNode adds or updates a node.
func (b *Book) SetNode(v Node, now time.Time) {
	n := b.nodes[v.Name]
	if n != nil && n.UID == v.UID && n.Created == v.Created && slices.Equal(n.Ranges, v.Ranges) {
		b.setTarget(n, v.Target, now)
		return
	}
	if n != nil {
		b.DeleteNode(v.Name, now)
	}
	n = &node{Node: v}
	b.nodes[v.Name] = n
	b.bindInstance(n, now)
	for _, text := range v.Ranges {
		p, f := b.parseRange(n, text)
		if f.Code != "" {
			n.faults = append(n.faults, f)
			continue
		}
		d := b.dest(p)
		if slices.Contains(n.dests, d) {
			continue
		}
		if len(d.claims) == 0 {
			b.needed++
			d.gone = time.Time{}
		}
		n.dests = append(n.dests, d)
		insert(&d.claims, n)
	}
	b.examineNode(n, now)
}

// DeleteNode removes a node.
func (b *Book) DeleteNode(name string, now time.Time) {
	n := b.nodes[name]
	if n == nil {
		return
	}
	delete(b.nodes, name)
	b.forwards.Remove(n)
	b.touched[name] = true
	b.unbindInstance(n, now)
	for _, d := range n.dests {
		remove(&d.claims, n)
		if len(d.claims) == 0 {
			b.needed--
			d.gone = now
			b.release(d)
		}
		b.examine(d, now)
	}
}

// SetTarget sets the target of a node's routes.
func (b *Book) SetTarget(name string, t Target, now time.Time) {
	if n := b.nodes[name]; n != nil {
		b.setTarget(n, t, now)
	}
}

func (b *Book) setTarget(n *node, t Target, now time.Time) {
	if n.Target == t {
		return
	}
	if n.Target.Instance != t.Instance {
		b.unbindInstance(n, now)
		n.Target = t
		b.bindInstance(n, now)
	}
	n.Target = t
	b.examineNode(n, now)
}

// examineNode examines all destinations of a node.
func (b *Book) examineNode(n *node, now time.Time) {
	b.touched[n.Name] = true
	b.forwards.Advance(n, now)
	for _, d := range n.dests {
		b.examine(d, now)
	}
}

// bindInstance adds a node to the nodes of its instance. If younger nodes have the same
// instance, the oldest of them loses it.
func (b *Book) bindInstance(n *node, now time.Time) {
	if id := n.Target.Instance; id != "" {
		all := b.byInstance[id]
		insert(&all, n)
		b.byInstance[id] = all
		if len(all) > 1 && all[0] == n {
			b.examineNode(all[1], now)
		}
	}
}

// unbindInstance removes a node from the nodes of its instance, which may then belong to
// another node.
func (b *Book) unbindInstance(n *node, now time.Time) {
	id := n.Target.Instance
	all := b.byInstance[id]
	if id == "" || !remove(&all, n) {
		return
	}
	if b.byInstance[id] = all; len(all) == 0 {
		delete(b.byInstance, id)
		return
	}
	b.examineNode(all[0], now)
}

// dest returns a destination. It creates the destination if necessary.
func (b *Book) dest(p netip.Prefix) *dest {
	d := b.dests[p]
	if d == nil {
		d = &dest{prefix: p}
		b.dests[p] = d
	}
	return d
}

// forget drops a destination if no node needs it, the ledger does not have it, and no write
// of it is in flight.
func (b *Book) forget(d *dest) {
	inFlight := slices.ContainsFunc(d.slots, func(s slot) bool { return s.inFlight })
	_, marks := b.writing[d]
	if len(d.claims) == 0 && len(d.owned) == 0 && !inFlight && !marks {
		b.due.Remove(d)
		b.unqueue(d)
		delete(b.staged, d)
		delete(b.dests, d.prefix)
	}
}

// slot returns the slot of a table. It creates the slot if necessary.
func (d *dest) slot(id string) *slot {
	for i := range d.slots {
		if d.slots[i].table == id {
			return &d.slots[i]
		}
	}
	d.slots = append(d.slots, slot{table: id})
	return &d.slots[len(d.slots)-1]
}

// ownedIn returns the ledger's route of a table.
func (d *dest) ownedIn(id string) (o Owned, ok bool) {
	for _, o := range d.owned {
		if o.Table == id {
			return o, true
		}
	}
	return o, false
}

// owns reports whether a route is ours according to the ledger. If the destination has a
// second route with our mark, the ledger must have its target, too.
func (o Owned) owns(r cloud.Route) bool {
	if r.Split != "" && !slices.Contains(o.Targets, r.Split) {
		return false
	}
	return r.Kind == cloud.ToInterface && r.Origin == cloud.Created && slices.ContainsFunc(o.Targets, func(t string) bool {
		return t == r.Target || t == r.Instance
	})
}

// insert inserts a node into a list that is sorted by age.
func insert(all *[]*node, n *node) {
	i, _ := slices.BinarySearchFunc(*all, n, byAge)
	*all = slices.Insert(*all, i, n)
}

func remove(all *[]*node, n *node) bool {
	i := slices.Index(*all, n)
	if i >= 0 {
		*all = slices.Delete(*all, i, i+1)
	}
	return i >= 0
}

func byAge(a, b *node) int {
	return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.Name, b.Name))
}
