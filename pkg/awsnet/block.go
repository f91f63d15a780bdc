package awsnet

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// nth returns the part of block with that length and number, or false if there is none.
// For IPv6, length is at most 64.
func nth(block netip.Prefix, length, i int) (netip.Prefix, bool) {
	if !block.IsValid() || length < block.Bits() || i < 0 || length-block.Bits() < bits.Len(uint(i)) {
		return netip.Prefix{}, false
	}
	if block.Addr().Is4() {
		if length > 32 {
			return netip.Prefix{}, false
		}
		b := block.Masked().Addr().As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(i)<<(32-length))
		return netip.PrefixFrom(netip.AddrFrom4(b), length), true
	}
	if length > 64 {
		return netip.Prefix{}, false
	}
	b := block.Masked().Addr().As16()
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+uint64(i)<<(64-length))
	return netip.PrefixFrom(netip.AddrFrom16(b), length), true
}

// split divides block into at least n blocks of one length, and returns the first n. It
// returns false if they would be smaller than the length smallest.
func split(block netip.Prefix, n, smallest int) (all []netip.Prefix, ok bool) {
	length := block.Bits() + bits.Len(uint(n-1))
	if n < 1 || length > smallest {
		return nil, false
	}
	for i := range n {
		p, ok := nth(block, length, i)
		if !ok {
			return nil, false
		}
		all = append(all, p)
	}
	return all, true
}

// number returns the number, from 1, of the /64 of block that p is, or 0 if p is not a
// /64 of it.
func number(block, p netip.Prefix) int {
	if !block.IsValid() || block.Bits() > 64 || p.Bits() != 64 || !p.Addr().Is6() || !block.Contains(p.Addr()) {
		return 0
	}
	a, b := block.Masked().Addr().As16(), p.Addr().As16()
	n := binary.BigEndian.Uint64(b[:8]) - binary.BigEndian.Uint64(a[:8])
	if n >= 1<<24 {
		return 0
	}
	return int(n) + 1
}

// within reports whether p is inside block.
func within(block, p netip.Prefix) bool {
	return block.IsValid() && block.Bits() <= p.Bits() && block.Contains(p.Addr())
}
