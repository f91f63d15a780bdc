package subnet

import "net/netip"

// Pool is what one family's subnets are leased from: those of SubnetLen from Min to
// Max. The zero Pool is a family that is off.
type Pool struct {
	Network   netip.Prefix
	SubnetLen int
	Min, Max  netip.Addr
}

// maxCount keeps sums of two subnet numbers within 64 bits. Only the first 2^63
// subnets of a larger pool are leased, which no cluster exhausts.
const maxCount = 1 << 63

// IsValid reports whether the family is on.
func (p Pool) IsValid() bool { return p.Network.IsValid() }

// Count returns the number of subnets in the pool.
func (p Pool) Count() uint64 { return p.window().count }

// Subnet returns the pool's i-th subnet, from 0.
func (p Pool) Subnet(i uint64) netip.Prefix {
	w := p.window()
	return netip.PrefixFrom(w.low.add(uint128{0, i}.shl(w.shift)).addr(), p.SubnetLen)
}

// Has reports whether s is one of the pool's subnets.
func (p Pool) Has(s netip.Prefix) bool {
	first, last, ok := p.window().span(s)
	return ok && first == last && p.Subnet(first) == s
}

// covers reports whether a lies in one of the pool's subnets.
func (p Pool) covers(a netip.Addr) bool {
	if a.Zone() != "" {
		return false
	}
	_, _, ok := p.window().span(netip.PrefixFrom(a, a.BitLen()))
	return ok
}

// Within reports whether s is a part of the network, and not all of it. A lease of
// the whole network or more must cost no node its subnet.
func (p Pool) Within(s netip.Prefix) bool {
	return s.IsValid() && s == s.Masked() && s.Bits() > p.Network.Bits() && p.Network.Contains(s.Addr())
}

// Holds reports whether s is a part of the network or all of it. A small cluster may
// give its only node all of it.
func (p Pool) Holds(s netip.Prefix) bool { return s == p.Network || p.Within(s) }

// window is a pool in numbers.
type window struct {
	low, high uint128 // the first and the last address
	count     uint64  // of subnets
	shift     uint    // bits of an address below a subnet's
	bits      int     // of an address; 0 without a pool
}

func (p Pool) window() window {
	if !p.IsValid() {
		return window{}
	}
	w := window{
		low:   number(p.Min),
		high:  last(netip.PrefixFrom(p.Max, p.SubnetLen)),
		shift: uint(p.Min.BitLen() - p.SubnetLen),
		bits:  p.Min.BitLen(),
		count: maxCount,
	}
	if n := w.high.sub(w.low).shr(w.shift); n.hi == 0 && n.lo < maxCount {
		w.count = n.lo + 1
	}
	return w
}

// span returns the numbers of the first and the last of the pool's subnets that s
// overlaps. s may be of any length, and may extend beyond the pool.
func (w window) span(s netip.Prefix) (first, end uint64, ok bool) {
	if !s.IsValid() || s.Addr().BitLen() != w.bits {
		return 0, 0, false
	}
	host := ones(uint(w.bits - s.Bits()))
	hi := number(s.Addr()).or(host)
	lo := hi.xor(host)
	if hi.less(w.low) || w.high.less(lo) {
		return 0, 0, false
	}
	begin := maxOf(lo, w.low).sub(w.low).shr(w.shift)
	stop := minOf(hi, w.high).sub(w.low).shr(w.shift)
	if begin.hi != 0 || begin.lo >= w.count {
		return 0, 0, false
	}
	if stop.hi != 0 || stop.lo >= w.count {
		stop.lo = w.count - 1
	}
	return begin.lo, stop.lo, true
}
