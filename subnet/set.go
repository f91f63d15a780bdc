package subnet

import (
	"iter"
	"math"
	"math/bits"
	"net/netip"
)

// Set records which blocks of one family's addresses are taken, and how many owners
// each block has. Blocks may have any length, and may contain one another. The zero
// Set is empty.
//
// A hole is a free block that is no part of a larger one.
//
// A Set is a binary trie over the addresses, in which only taken blocks and branches
// have nodes. Each node knows the lengths of the free blocks below it. So Take, Free
// and Fit descend once, however many blocks are taken.
type Set struct{ root *block }

// block is a node of the trie: a block with owners, or one in both of whose halves
// there is a block with owners.
type block struct {
	path
	half   [2]*block
	holes  uint128 // bit d-1: at depth d, a hole lies in the block
	owners uint32
}

// Room is what is free in a part of the address space.
type Room struct {
	// Blocks is the number of free blocks of the length that was asked for.
	Blocks uint64
	// Scraps is what lies in holes too small for such a block, as a number of blocks.
	Scraps float64
	// Largest is the length of the largest hole, or -1 if nothing is free.
	Largest int
}

// Take adds an owner to p. An invalid p is ignored.
func (s *Set) Take(p netip.Prefix) {
	if p.IsValid() {
		s.root = s.root.take(pathOf(p))
	}
}

// Free removes an owner of p, and reports whether there was one.
func (s *Set) Free(p netip.Prefix) bool {
	freed := false
	if p.IsValid() {
		s.root, freed = s.root.free(pathOf(p))
	}
	return freed
}

// Overlapping yields each taken block that overlaps p, with its number of owners:
// larger blocks first, then in the order of addresses.
func (s *Set) Overlapping(p netip.Prefix) iter.Seq2[netip.Prefix, int] {
	return func(yield func(netip.Prefix, int) bool) {
		if !p.IsValid() {
			return
		}
		in := pathOf(p)
		for n := s.root; n != nil; n = n.half[in.bit(n.depth)] {
			if in.contains(n.path) {
				n.each(p.Addr(), yield)
				return
			}
			if !n.contains(in) || n.owners > 0 && !yield(n.prefix(p.Addr()), int(n.owners)) {
				return
			}
		}
	}
}

// Fit returns the block of this length that fits best into what is free of within:
// the first one of the smallest hole that has room, and the lowest of such holes. So
// large holes stay. It returns the length of that hole, too, or -1 if none has room.
func (s *Set) Fit(within netip.Prefix, length int) (fits netip.Prefix, hole int) {
	if !within.IsValid() || length < within.Bits() || length > within.Addr().BitLen() {
		return netip.Prefix{}, -1
	}
	at := pathOf(within)
	n, taken := s.below(at)
	if taken {
		return netip.Prefix{}, -1
	}
	if n != nil {
		depth := n.holesFrom(at.depth).and(ones(depthOf(within, length))).len()
		if depth == 0 {
			return netip.Prefix{}, -1
		}
		at = n.lowest(depth)
	}
	in := at.prefix(within.Addr())
	return netip.PrefixFrom(in.Addr(), length), in.Bits()
}

// Holes yields the holes in within, in the order of addresses.
func (s *Set) Holes(within netip.Prefix) iter.Seq[netip.Prefix] {
	return func(yield func(netip.Prefix) bool) {
		if !within.IsValid() {
			return
		}
		at := pathOf(within)
		if n, taken := s.below(at); !taken {
			n.eachHole(at, func(hole path) bool { return yield(hole.prefix(within.Addr())) })
		}
	}
}

// Room measures what is free of within, for blocks of this length. It costs more the
// more holes there are.
func (s *Set) Room(within netip.Prefix, length int) Room {
	r := Room{Largest: -1}
	if !within.IsValid() || length < 0 || length > within.Addr().BitLen() {
		return r
	}
	for hole := range s.Holes(within) {
		if r.Largest < 0 || hole.Bits() < r.Largest {
			r.Largest = hole.Bits()
		}
		r.add(length - hole.Bits())
	}
	return r
}

// add counts a hole of 2^larger blocks.
func (r *Room) add(larger int) {
	switch {
	case larger < 0:
		r.Scraps += math.Ldexp(1, larger)
	case larger > 63:
		r.Blocks = math.MaxUint64
	default:
		sum, carry := bits.Add64(r.Blocks, 1<<larger, 0)
		r.Blocks = sum | -carry
	}
}

// below returns the first node in s, and whether a larger block takes all of s.
func (s *Set) below(in path) (first *block, taken bool) {
	n := s.root
	for n != nil && !in.contains(n.path) {
		if !n.contains(in) {
			return nil, false
		}
		if n.owners > 0 {
			return nil, true
		}
		n = n.half[in.bit(n.depth)]
	}
	return n, false
}

// take adds an owner to s below n, and returns what takes the place of n.
func (n *block) take(s path) *block {
	switch {
	case n == nil:
		return &block{path: s, owners: 1}
	case n.path == s:
		n.owners++
	case n.contains(s):
		side := s.bit(n.depth)
		n.half[side] = n.half[side].take(s)
	case s.contains(n.path):
		above := &block{path: s, owners: 1}
		above.half[n.bit(s.depth)] = n
		n = above
	default:
		fork := &block{path: s.common(n.path)}
		fork.half[n.bit(fork.depth)] = n
		fork.half[s.bit(fork.depth)] = &block{path: s, owners: 1}
		n = fork
	}
	n.sum()
	return n
}

// free removes an owner of s below n, and returns what takes the place of n.
func (n *block) free(s path) (rest *block, freed bool) {
	switch {
	case n == nil || !n.contains(s):
		return n, false
	case n.path != s:
		side := s.bit(n.depth)
		n.half[side], freed = n.half[side].free(s)
	case n.owners > 0:
		n.owners--
		freed = true
	}
	if n.owners == 0 {
		for side, half := range n.half {
			if half == nil {
				return n.half[1-side], freed
			}
		}
	}
	n.sum()
	return n, freed
}

// sum finds the holes of n.
func (n *block) sum() {
	n.holes = uint128{}
	if n.owners == 0 {
		n.holes = n.half[0].holesFrom(n.depth + 1).or(n.half[1].holesFrom(n.depth + 1))
	}
}

// holesFrom returns the depths of the holes in a block at this depth, in which n is
// the first node, or which is free if n is nil.
func (n *block) holesFrom(depth uint) uint128 {
	if n == nil {
		return holeAt(depth)
	}
	// A hole lies beside each step of the path that leads to n.
	return n.holes.or(ones(n.depth).xor(ones(depth)))
}

// holeAt is a hole at this depth, which is not 0.
func holeAt(depth uint) uint128 { return uint128{0, 1}.shl(depth - 1) }

// lowest returns the lowest of the holes at this depth that are in n or beside the
// path that leads to n. There is one.
func (n *block) lowest(depth uint) path {
	for depth > n.depth {
		half := 0
		if n.half[0].holesFrom(n.depth+1).and(holeAt(depth)) == (uint128{}) {
			half = 1
		}
		if n.half[half] == nil {
			return n.part(half)
		}
		n = n.half[half]
	}
	return n.ancestor(depth).sibling()
}

// eachHole yields the holes in a block in which n is the first node, or which is free
// if n is nil.
func (n *block) eachHole(in path, yield func(path) bool) bool {
	switch {
	case n == nil:
		return yield(in)
	case in.depth == n.depth:
		return n.holes == uint128{} || n.half[0].eachHole(in.part(0), yield) && n.half[1].eachHole(in.part(1), yield)
	case n.bit(in.depth) == 0:
		return n.eachHole(in.part(0), yield) && yield(in.part(1))
	default:
		return yield(in.part(0)) && n.eachHole(in.part(1), yield)
	}
}

// each yields n and the blocks below it that have owners, in the family of a.
func (n *block) each(a netip.Addr, yield func(netip.Prefix, int) bool) bool {
	if n == nil {
		return true
	}
	return (n.owners == 0 || yield(n.prefix(a), int(n.owners))) && n.half[0].each(a, yield) && n.half[1].each(a, yield)
}
