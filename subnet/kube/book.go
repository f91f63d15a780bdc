package kube

import (
	"hash/maphash"
	"sync"

	"github.com/tulle-net/tulle/pkg/kube"
)

// book holds what is known of all Nodes, and owns the entries. Updates from the
// watches and answers to patches may arrive in any order. For each Node the newest
// counts.
type book struct {
	annotations annotations
	seed        maphash.Seed

	mu       sync.Mutex
	name     string // of the node's own Node; "" until it is known
	nodes    map[string]*entry
	keys     map[string][]*entry // the Nodes that take part, by key
	holders  holders
	doubts   map[string]int64 // Nodes to fetch whole, with the last revision seen since
	limit    int              // of doubts; above it the watch asks for whole Nodes
	newest   int64            // revision of the own Node
	listed   [scopes]bool
	complete bool          // all Nodes are known, and which subnets each has
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

// take records the present state of a Node in a scope.
func (b *book) take(s scope, v *kube.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.in(s, string(v.Name)) {
		return
	}
	if s == itself {
		if v.Revision < b.newest {
			return // the answer to a patch was newer
		}
		b.newest = v.Revision
	}
	e := b.entryOf(v)
	news := b.put(e)
	if v.MetadataOnly && b.nodes[e.name].withoutPodCIDRs() {
		news = b.markDoubtful(b.nodes[e.name]) || news // it may have got podCIDRs since
	}
	if _, doubted := b.doubts[string(v.Name)]; doubted {
		b.doubts[e.name] = v.Revision
	}
	if news {
		b.wake()
	}
}

// remove records that a Node of a scope is gone.
func (b *book) remove(s scope, v *kube.Node) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.in(s, string(v.Name)) {
		return
	}
	if s == itself {
		b.newest = max(b.newest, v.Revision) // an answer to a patch may still arrive
	}
	if e := b.nodes[string(v.Name)]; e != nil && e.uid == string(v.UID) {
		b.drop(e)
		b.wake()
	}
}

// put replaces the entry of e's name by e, and reports whether e differs.
func (b *book) put(e *entry) bool {
	if e = b.enter(e); e == nil {
		return false
	}
	b.judge(e)
	b.tellOf(e)
	return true
}

// enter adds e to the book without judging it. It returns nil if e says nothing new.
// The caller holds mu.
func (b *book) enter(e *entry) *entry {
	before := b.nodes[e.name]
	if before != nil && !e.digest.differsFrom(before) {
		return nil
	}
	if before != nil {
		e.follow(before)
		b.drop(before)
	}
	if e.managed && !e.verified() && !e.accepted && !b.holders.plausible(e) {
		e.subnets = podCIDRs{} // an implausible claim takes nothing from others
		e.settle()
	}
	if e.own != nil && e.holds() && shapeOf(e.subnets) != b.holders.shape {
		b.reshape(shapeOf(e.subnets))
	}
	b.nodes[e.name] = e
	b.holders.add(e, 1)
	return e
}

// follow copies to e what the book knew of the same Node and e lacks.
func (e *entry) follow(before *entry) {
	if e.digest.all == before.digest.all {
		e.revision = before.revision
		e.lease.Revision = e.revision
	}
	if e.verified() || e.uid != before.uid || before.held || !before.verified() && !before.managed {
		return
	}
	e.subnets, e.cidrErr, e.accepted = before.subnets, before.cidrErr, true
	e.digest.cidrs, e.digest.whole = before.digest.cidrs, before.digest.whole
	e.settle()
}

// tellOf marks e's key as changed for the readers, unless e is held back.
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

// wake wakes all who wait for a change of the book. The first list is complete only
// if no Node in it is held back, because readers take an absent Node for gone.
func (b *book) wake() {
	if b.listed[others] && (b.listed[itself] || b.name == "") && len(b.doubts) == 0 {
		b.complete = true
	}
	close(b.changed)
	b.changed = make(chan struct{})
}

// ownNode returns the own Node's entry, or nil, and a channel that is closed at the
// next change. known reports whether the own Node was listed.
func (b *book) ownNode() (e *entry, known bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.nodes[b.name], b.name != "" && b.listed[itself], b.changed
}

// own returns the name of the own Node, or "" until it is known.
func (b *book) own() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.name
}

// rival returns an elder Node that takes part and has a part of e's subnets, if there
// is one. known is false while Nodes are missing from the book, or while such a claim
// is unverified.
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
