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
	// settleTime is how long a cloud may still show the state before a change.
	settleTime = 10 * time.Second
	// forgetTime is how long a write may arrive late. Until then, the ledger keeps absent
	// routes, and the former targets of routes.
	forgetTime = 10 * time.Minute
	// throttledPause is how long changes pause after the cloud has throttled one.
	throttledPause = time.Second
	// recentTime is the largest age of a table's last read when a route in it is removed.
	recentTime = 15 * time.Second
)

// retries paces the retries of failed changes of one route, or of one instance.
var retries = retry.Backoff{First: 500 * time.Millisecond, Last: time.Minute}

// Book holds what was read, and decides what to change. It is not safe for concurrent
// use.
type Book struct {
	options Options
	nodes   map[string]*node
	hosts   map[string][]*node // by instance, the oldest first
	dests   map[netip.Prefix]*dest
	tables  map[string]*table
	ids     []string       // of the tables, sorted
	local   []netip.Prefix // addresses of the networks themselves

	hasTables, hasLedger bool
	began                time.Time // when the term began
	needed               int       // destinations that a node needs

	due      retry.Schedule[*dest]
	forwards retry.Schedule[*node]
	queue    []*dest // waits for room, the oldest node first
	roomier  bool    // whether to try the queue again
	staged   map[*dest]bool
	marking  map[*dest][]Owned // the entries that are being written
	touched  map[string]bool   // nodes whose Status may have changed
	paused   time.Time         // until then no change begins
	readBy   time.Time         // when to read the tables again, before the next comparison
	examined int               // counts destinations, for tests of what an event costs
}

// node is a Node, with what the Book derives from it.
type node struct {
	Node
	dests   []*dest
	faults  []Finding // of its ranges
	forward attempt
}

// dest is a destination that a node needs or the ledger has.
type dest struct {
	prefix netip.Prefix
	claims []*node // the nodes with the range, the oldest first
	owned  []Owned // from the ledger
	gone   time.Time
	slots  []slot
	// queued is set while it waits for room, and full if there was no room.
	queued, full bool
}

// slot is the route of a destination in one table.
type slot struct {
	table string
	attempt
	code     Code
	wrote    time.Time // when the last change of ours ended
	reserved bool      // it has room, and is not there yet
}

// attempt records the tries of one change.
type attempt struct {
	flying   bool
	failures int // in a row
	next     time.Time
	why      error // of the last failure
}

func (a *attempt) ended(now time.Time, err error) {
	a.flying, a.why = false, err
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
		options: o, nodes: make(map[string]*node), hosts: make(map[string][]*node), dests: make(map[netip.Prefix]*dest), touched: make(map[string]bool),
	}
	b.Reset(time.Time{})
	return b
}

// Reset forgets the tables, the ledger and the outcomes of changes, at the beginning of a
// term. It keeps the nodes.
func (b *Book) Reset(now time.Time) {
	b.tables, b.ids, b.local, b.hasTables, b.hasLedger, b.began = make(map[string]*table), nil, nil, false, false, now
	b.due, b.forwards, b.queue, b.staged, b.marking = retry.Schedule[*dest]{}, retry.Schedule[*node]{}, nil, make(map[*dest]bool), nil
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

// SetNode records what a node needs.
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
	b.host(n, now)
	for _, text := range v.Ranges {
		p, f := b.read(n, text)
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
	b.follow(n, now)
}

// DeleteNode records that a node is gone.
func (b *Book) DeleteNode(name string, now time.Time) {
	n := b.nodes[name]
	if n == nil {
		return
	}
	delete(b.nodes, name)
	b.forwards.Remove(n)
	b.touched[name] = true
	b.unhost(n, now)
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

// SetTarget records the target of a node's routes.
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
		b.unhost(n, now)
		n.Target = t
		b.host(n, now)
	}
	n.Target = t
	b.follow(n, now)
}

// follow examines all destinations of a node.
func (b *Book) follow(n *node, now time.Time) {
	b.touched[n.Name] = true
	b.forwards.Advance(n, now)
	for _, d := range n.dests {
		b.examine(d, now)
	}
}

// host records which instance a node has. A younger node loses the instance.
func (b *Book) host(n *node, now time.Time) {
	if id := n.Target.Instance; id != "" {
		all := b.hosts[id]
		insert(&all, n)
		b.hosts[id] = all
		if len(all) > 1 && all[0] == n {
			b.follow(all[1], now)
		}
	}
}

// unhost separates a node from its instance, which may then belong to another node.
func (b *Book) unhost(n *node, now time.Time) {
	id := n.Target.Instance
	all := b.hosts[id]
	if id == "" || !remove(&all, n) {
		return
	}
	if b.hosts[id] = all; len(all) == 0 {
		delete(b.hosts, id)
		return
	}
	b.follow(all[0], now)
}

// dest returns a destination, which it creates if necessary.
func (b *Book) dest(p netip.Prefix) *dest {
	d := b.dests[p]
	if d == nil {
		d = &dest{prefix: p}
		b.dests[p] = d
	}
	return d
}

// forget drops a destination that no node needs and the ledger does not have.
func (b *Book) forget(d *dest) {
	flies := slices.ContainsFunc(d.slots, func(s slot) bool { return s.flying })
	_, marks := b.marking[d]
	if len(d.claims) == 0 && len(d.owned) == 0 && !flies && !marks {
		b.due.Remove(d)
		b.unqueue(d)
		delete(b.staged, d)
		delete(b.dests, d.prefix)
	}
}

// slot returns the slot of a table.
func (d *dest) slot(id string) *slot {
	for i := range d.slots {
		if d.slots[i].table == id {
			return &d.slots[i]
		}
	}
	d.slots = append(d.slots, slot{table: id})
	return &d.slots[len(d.slots)-1]
}

// ownedIn returns what the ledger has of a table.
func (d *dest) ownedIn(id string) (o Owned, ok bool) {
	for _, o := range d.owned {
		if o.Table == id {
			return o, true
		}
	}
	return o, false
}

// owns reports whether the ledger says that a route is ours, and so are others of its
// destination that bear our mark.
func (o Owned) owns(r cloud.Route) bool {
	if r.Split != "" && !slices.Contains(o.Targets, r.Split) {
		return false
	}
	return r.Kind == cloud.ToInterface && r.Origin == cloud.Created && slices.ContainsFunc(o.Targets, func(t string) bool {
		return t == r.Target || t == r.Instance
	})
}

// insert inserts a node after the older ones.
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
