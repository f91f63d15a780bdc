package subnet

import (
	"math/bits"
	"net/netip"
)

// path leads from the root of a trie to a block of addresses: the block's first
// address, and the number of bits that all its addresses share. An IPv4 address is in
// its IPv4-mapped form, so 96 of them come before its own.
type path struct {
	first uint128
	depth uint
}

// pathOf returns the path to p, which is valid.
func pathOf(p netip.Prefix) path {
	depth := depthOf(p, p.Bits())
	host := ones(128 - depth)
	return path{number(p.Addr()).or(host).xor(host), depth}
}

// depthOf returns the depth of blocks of a length, in p's family.
func depthOf(p netip.Prefix, length int) uint {
	return uint(128 - p.Addr().BitLen() + length)
}

// prefix returns the block in the family of a.
func (p path) prefix(a netip.Addr) netip.Prefix {
	first := p.first.addr()
	if a.Is6() {
		first = netip.AddrFrom16(first.As16())
	}
	return netip.PrefixFrom(first, int(p.depth)-128+a.BitLen())
}

// contains reports whether q is p or a part of it.
func (p path) contains(q path) bool {
	return p.depth <= q.depth && p.first.xor(q.first).shr(128-p.depth) == uint128{}
}

// bit returns the half, 0 or 1, of the block at this depth that p is in.
func (p path) bit(depth uint) int { return int(p.first.shr(127-depth).lo & 1) }

// part returns a half of p.
func (p path) part(half int) path {
	return path{p.first.or(uint128{0, uint64(half)}.shl(127 - p.depth)), p.depth + 1}
}

// ancestor returns the block at this depth that contains p.
func (p path) ancestor(depth uint) path {
	host := ones(128 - depth)
	return path{p.first.or(host).xor(host), depth}
}

// sibling returns the other half of the block that p is a half of.
func (p path) sibling() path {
	return path{p.first.xor(uint128{0, 1}.shl(128 - p.depth)), p.depth}
}

// common returns the smallest block that contains p and q.
func (p path) common(q path) path {
	return p.ancestor(min(p.depth, q.depth, 128-p.first.xor(q.first).len()))
}

func (u uint128) and(v uint128) uint128 { return uint128{u.hi & v.hi, u.lo & v.lo} }

// len returns the number of bits that u needs, 0 for 0.
func (u uint128) len() uint {
	if u.hi != 0 {
		return uint(64 + bits.Len64(u.hi))
	}
	return uint(bits.Len64(u.lo))
}
