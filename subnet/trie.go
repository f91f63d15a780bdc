package subnet

import (
	"iter"
	"net/netip"
)

// trie holds subnets of one family that do not overlap, each with the lease
// that it belongs to, and finds those that overlap a given one in as many steps
// as an address has bits, however many there are. The zero trie is empty.
type trie struct{ root *node }

// node is a subnet that is held, or the shortest prefix at which two of them
// part: then it has both children.
type node struct {
	prefix netip.Prefix
	entry  *entry
	child  [2]*node
}

// insert adds s, which overlaps nothing that is held.
func (t *trie) insert(s netip.Prefix, e *entry) {
	at := &t.root
	for *at != nil && (*at).entry == nil && (*at).prefix.Overlaps(s) {
		at = &(*at).child[bit(s, (*at).prefix.Bits())]
	}
	leaf := &node{prefix: s, entry: e}
	if *at == nil {
		*at = leaf
		return
	}
	fork := &node{prefix: common((*at).prefix, s)}
	side := bit(s, fork.prefix.Bits())
	fork.child[side], fork.child[1-side] = leaf, *at
	*at = fork
}

// remove takes s out, which is held.
func (t *trie) remove(s netip.Prefix) {
	at, parent := &t.root, (**node)(nil)
	for (*at).entry == nil {
		at, parent = &(*at).child[bit(s, (*at).prefix.Bits())], at
	}
	if parent == nil {
		*at = nil
		return
	}
	side := bit(s, (*parent).prefix.Bits())
	*parent = (*parent).child[1-side]
}

// overlapping yields the holder of each subnet that overlaps s.
func (t *trie) overlapping(s netip.Prefix) iter.Seq[*entry] {
	at := t.root
	for at != nil && at.entry == nil && at.prefix.Bits() < s.Bits() && at.prefix.Overlaps(s) {
		at = at.child[bit(s, at.prefix.Bits())]
	}
	return func(yield func(*entry) bool) {
		if at != nil && at.prefix.Overlaps(s) {
			at.each(yield)
		}
	}
}

func (n *node) each(yield func(*entry) bool) bool {
	if n.entry != nil {
		return yield(n.entry)
	}
	return n.child[0].each(yield) && n.child[1].each(yield)
}

// bit is the i-th bit of s's address.
func bit(s netip.Prefix, i int) uint64 {
	return number(s.Addr()).shr(uint(s.Addr().BitLen()-1-i)).lo & 1
}

// common is the longest prefix that two subnets which do not overlap share.
func common(a, b netip.Prefix) netip.Prefix {
	differ := number(a.Addr()).xor(number(b.Addr())).leadingZeros()
	p, _ := a.Addr().Prefix(differ - (128 - a.Addr().BitLen()))
	return p
}
