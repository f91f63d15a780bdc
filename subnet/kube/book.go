package kube

import (
	"hash/maphash"
	"sync"

	"github.com/tulle-net/tulle/pkg/kube"
)

// book is what is known of all Nodes. It owns them; what comes from the watches
// and what the answer to a patch says may come in any order, and of each Node the
// newest counts.
type book struct {
	annotations annotations
	seed        maphash.Seed

	mu       sync.Mutex
	name     string // of the node's own; "" while it is not known
	nodes    map[string]*entry
	keys     map[string][]*entry // those that take part, by key
	holders  holders
	doubts   map[string]int64 // Nodes that are to be fetched whole, and what was seen of them since
	limit    int              // of them, or they come with all others
	newest   int64            // revision of the node's own
	listed   [scopes]bool
	complete bool          // all are known, and who has which subnet
	changed  chan struct{} // closed, and replaced, at every change
	readers  map[*reader]struct{}
}

func newBook(a annotations) *book {
	return &book{
		annotations: a, seed: maphash.MakeSeed(),
		nodes: make(map[string]*entry), keys: make(map[string][]*entry),
		holders: newHolders(), doubts: make(map[string]int64), limit: maxSingleFetches,
		changed: make(chan struct{}), readers: make(map[*reader]struct{}),
	}
}

// take takes in what a Node of a scope is now.
func (b *book) take(s scope, v *kube.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.in(s, string(v.Name)) {
		return
	}
	if s == itself {
		if v.Revision < b.newest {
			return // it was overtaken by the answer to a patch
		}
		b.newest = v.Revision
	}
	e := b.entryOf(v)
	news := b.put(e)
	if v.MetadataOnly && b.nodes[e.name].withoutPodCIDRs() {
		news = b.markDoubtful(b.nodes[e.name]) || news // it may have been given some
	}
	if _, doubted := b.doubts[string(v.Name)]; doubted {
		b.doubts[e.name] = v.Revision
	}
	if news {
		b.wake()
	}
}

// remove takes in that a Node of a scope is gone.
func (b *book) remove(s scope, v *kube.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.in(s, string(v.Name)) {
		return
	}
	if s == itself {
		b.newest = max(b.newest, v.Revision) // the answer to a patch may be on the way
	}
	if e := b.nodes[string(v.Name)]; e != nil && e.uid == string(v.UID) {
		b.drop(e)
		b.wake()
	}
}

// put has e stand where an entry of its name did, if it says anything else.
func (b *book) put(e *entry) bool {
	if e = b.enter(e); e == nil {
		return false
	}
	b.judge(e)
	b.tellOf(e)
	return true
}

// enter puts e into the book, to be judged later. It returns nil if e says nothing new. The
// caller holds mu.
func (b *book) enter(e *entry) *entry {
	before := b.nodes[e.name]
	if before != nil && !e.digest.differsFrom(before) {
		return nil
	}
	if before != nil {
		e.follow(before)
		b.drop(before)
	}
	if e.managed && !e.verified() && !e.believed && !b.holders.plausible(e) {
		e.subnets = podCIDRs{} // nor does it stand in anybody's way
		e.settle()
	}
	if e.own != nil && e.holds() && shapeOf(e.subnets) != b.holders.shape {
		b.reshape(shapeOf(e.subnets))
	}
	b.nodes[e.name] = e
	b.holders.add(e, 1)
	return e
}

// follow takes over what was known of the same Node, and is not said by e.
func (e *entry) follow(before *entry) {
	if e.digest.all == before.digest.all {
		e.revision = before.revision
		e.lease.Revision = e.revision
	}
	if e.verified() || e.uid != before.uid || before.held || !before.verified() && !before.managed {
		return
	}
	e.subnets, e.cidrErr, e.believed = before.subnets, before.cidrErr, true
	e.digest.cidrs, e.digest.whole = before.digest.cidrs, before.digest.whole
	e.settle()
}

// tellOf has watchers be told of e, unless it is held back.
func (b *book) tellOf(e *entry) {
	if e.managed && !e.held {
		b.keys[e.key] = append(b.keys[e.key], e)
		b.touch(e.key)
	}
}

func (b *book) drop(e *entry) {
	delete(b.nodes, e.name)
	delete(b.doubts, e.name)
	b.holders.add(e, -1)
	if !e.managed || e.held {
		return
	}
	var rest []*entry
	for _, other := range b.keys[e.key] {
		if other != e {
			rest = append(rest, other)
		}
	}
	if b.keys[e.key] = rest; len(rest) == 0 {
		delete(b.keys, e.key)
	}
	b.touch(e.key)
}

// wake has all who wait look again. The first list is complete only when nobody in
// it is held back: what is not in it counts as gone.
func (b *book) wake() {
	if b.listed[others] && (b.listed[itself] || b.name == "") && len(b.doubts) == 0 {
		b.complete = true
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// ownNode is the node's own Node as it is now, nil where there is none, and what
// is closed when anything changes.
func (b *book) ownNode() (e *entry, known bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[b.name], b.name != "" && b.listed[itself], b.changed
}

// own is the name of the node's own Node, "" while it is not known.
func (b *book) own() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.name
}

// rival is another Node that takes part and was given a part of the same subnets
// before e was, if there is one. It is not known while not all Nodes are, or while
// one claims to be that and is still to be looked at.
func (b *book) rival(e *entry) (rival *entry, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	known = b.complete
	if e == b.nodes[e.name] && !b.holders.shared(e) {
		return nil, known
	}
	for _, other := range b.nodes {
		switch {
		case other.name == e.name || !other.managed || other.bad != nil || !other.before(e) || !other.overlaps(e):
		case other.verified():
			return other, true
		default:
			known = false
		}
	}
	return nil, known
}
