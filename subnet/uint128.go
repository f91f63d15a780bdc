package subnet

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
)

// uint128 is an address as a number, for counting subnets. An IPv4 address is in its
// IPv4-mapped form: differences are the same, and one arithmetic serves both
// families.
type uint128 struct{ hi, lo uint64 }

func number(a netip.Addr) uint128 {
	b := a.As16()
	return uint128{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

func (u uint128) addr() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], u.hi)
	binary.BigEndian.PutUint64(b[8:], u.lo)
	return netip.AddrFrom16(b).Unmap()
}

func (u uint128) add(v uint128) uint128 {
	lo, carry := bits.Add64(u.lo, v.lo, 0)
	hi, _ := bits.Add64(u.hi, v.hi, carry)
	return uint128{hi, lo}
}

func (u uint128) sub(v uint128) uint128 {
	lo, borrow := bits.Sub64(u.lo, v.lo, 0)
	hi, _ := bits.Sub64(u.hi, v.hi, borrow)
	return uint128{hi, lo}
}

func (u uint128) or(v uint128) uint128 { return uint128{u.hi | v.hi, u.lo | v.lo} }

func (u uint128) xor(v uint128) uint128 { return uint128{u.hi ^ v.hi, u.lo ^ v.lo} }

// shr and shl rely on Go: a shift by 64 or more gives zero. A negative count, as
// unsigned, is such a shift.
func (u uint128) shr(n uint) uint128 {
	return uint128{u.hi >> n, u.lo>>n | u.hi<<(64-n) | u.hi>>(n-64)}
}

func (u uint128) shl(n uint) uint128 {
	return uint128{u.hi<<n | u.lo>>(64-n) | u.lo<<(n-64), u.lo << n}
}

func (u uint128) less(v uint128) bool {
	return u.hi < v.hi || u.hi == v.hi && u.lo < v.lo
}

func minOf(u, v uint128) uint128 {
	if v.less(u) {
		return v
	}
	return u
}

func maxOf(u, v uint128) uint128 {
	if u.less(v) {
		return v
	}
	return u
}

// ones returns a number whose n low bits are set.
func ones(n uint) uint128 {
	return uint128{0, 1}.shl(n).sub(uint128{0, 1})
}

// last returns the highest address of p.
func last(p netip.Prefix) uint128 {
	return number(p.Addr()).or(ones(uint(p.Addr().BitLen() - p.Bits())))
}
