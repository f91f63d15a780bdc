package subnet

import (
	"iter"
	"math/rand/v2"
	"net/netip"
)

// treap holds subnets of one family that do not overlap, each with the lease
// that it belongs to. It is a tree in the order of their addresses in which
// those of more weight are above, and weight is thrown: so it is about as low as
// such a tree can be, whatever comes and in whatever order. The zero treap is
// empty.
type treap struct{ root *node }

type node struct {
	prefix netip.Prefix
	entry  *entry
	child  [2]*node // what is before it and what is after it
	weight uint32
}

// insert adds s, which overlaps nothing that is held.
func (t *treap) insert(s netip.Prefix, e *entry) {
	n := &node{prefix: s, entry: e, weight: rand.Uint32()}
	at := &t.root
	for *at != nil && (*at).weight > n.weight {
		at = &(*at).child[(*at).childFor(s)]
	}
	n.child = split(*at, s)
	*at = n
}

// remove takes s out, which is held.
func (t *treap) remove(s netip.Prefix) {
	at := &t.root
	for (*at).prefix != s {
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
	if !n.prefix.Overlaps(s) {
		return n.child[n.childFor(s)].overlapping(s, yield)
	}
	return n.child[0].overlapping(s, yield) && yield(n.entry) && n.child[1].overlapping(s, yield)
}

// childFor returns the child of n to which a subnet belongs that does not overlap n.
func (n *node) childFor(s netip.Prefix) int {
	if s.Addr().Less(n.prefix.Addr()) {
		return 0
	}
	return 1
}

// split parts a tree into what is before s and what is after it.
func split(n *node, s netip.Prefix) (parts [2]*node) {
	if n == nil {
		return parts
	}
	side := n.childFor(s)
	parts = split(n.child[side], s)
	n.child[side], parts[1-side] = parts[1-side], n
	return parts
}

// join makes one tree of two, of which the first is before the second.
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
