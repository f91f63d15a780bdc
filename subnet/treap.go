package subnet

import (
	"iter"
	"math/rand/v2"
	"net/netip"
)

// treap holds entries by their visible subnets of one family, which do not overlap and
// do not change meanwhile. It is a binary tree in the order of addresses and a heap by
// random weights. So its height is about logarithmic in any order of insertion.
type treap struct {
	root   *node
	family Family
}

// node has no copy of its subnet: there is one for each peer.
type node struct {
	entry  *entry
	child  [2]*node // the subtrees before and after it
	weight uint32
	family Family
}

// newHeld returns empty treaps for both families.
func newHeld() (held Pair[treap]) {
	for _, f := range Families {
		held[f].family = f
	}
	return held
}

func (n *node) subnet() netip.Prefix { return n.entry.visible.Subnets[n.family] }

// insert adds e. Its subnet overlaps none in the treap.
func (t *treap) insert(e *entry) {
	n := &node{entry: e, weight: rand.Uint32(), family: t.family}
	s := n.subnet()
	at := &t.root
	for *at != nil && (*at).weight > n.weight {
		at = &(*at).child[(*at).childFor(s)]
	}
	n.child = split(*at, s)
	*at = n
}

// remove removes e, which is in the treap.
func (t *treap) remove(e *entry) {
	s := e.visible.Subnets[t.family]
	at := &t.root
	for (*at).entry != e {
		at = &(*at).child[(*at).childFor(s)]
	}
	*at = join((*at).child)
}

// overlapping yields the holder of each subnet that overlaps s.
func (t *treap) overlapping(s netip.Prefix) iter.Seq[*entry] {
	return func(yield func(*entry) bool) { t.root.overlapping(s, yield) }
}

func (n *node) overlapping(s netip.Prefix, yield func(*entry) bool) bool {
	if n == nil {
		return true
	}
	if !n.subnet().Overlaps(s) {
		return n.child[n.childFor(s)].overlapping(s, yield)
	}
	return n.child[0].overlapping(s, yield) && yield(n.entry) && n.child[1].overlapping(s, yield)
}

// childFor returns the index of the child that a subnet belongs to which does not
// overlap n.
func (n *node) childFor(s netip.Prefix) int {
	if s.Addr().Less(n.subnet().Addr()) {
		return 0
	}
	return 1
}

// split splits a tree into the subnets before s and those after it.
func split(n *node, s netip.Prefix) (parts [2]*node) {
	if n == nil {
		return parts
	}
	side := n.childFor(s)
	parts = split(n.child[side], s)
	n.child[side], parts[1-side] = parts[1-side], n
	return parts
}

// join joins two trees, the first of which is before the second.
func join(parts [2]*node) *node {
	before, after := parts[0], parts[1]
	switch {
	case before == nil:
		return after
	case after == nil:
		return before
	case before.weight > after.weight:
		before.child[1] = join([2]*node{before.child[1], after})
		return before
	default:
		after.child[0] = join([2]*node{before, after.child[0]})
		return after
	}
}
