package subnet

import "net/netip"

// Family is an IP family. Whatever exists once per family is indexed by it, so that
// one code path serves both.
type Family uint8

// The two families, also the indices of a Pair.
const (
	IPv4 Family = iota
	IPv6
)

// Families lists both in the order in which they are tried and written.
var Families = [...]Family{IPv4, IPv6}

// Pair holds one value per family.
type Pair[T any] [2]T

// Bits returns the length of an address in bits.
func (f Family) Bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}

// String returns "IPv4" or "IPv6".
func (f Family) String() string {
	if f == IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

// FamilyOf returns the family of an address. An IPv4-mapped address counts as IPv6.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}
