package subnet

import "net/netip"

// Family is an IP family. Everything that stands once a family is indexed by
// it, so that one code path serves both.
type Family uint8

// The two families, also the indices of a Pair.
const (
	IPv4 Family = iota
	IPv6
)

// Families lists both in the order in which they are tried and written.
var Families = [...]Family{IPv4, IPv6}

// Pair holds one value a family.
type Pair[T any] [2]T

// Bits is the length of an address.
func (f Family) Bits() int {
	if f == IPv4 {
		return 32
	}
	return 128
}

// String is "IPv4" or "IPv6".
func (f Family) String() string {
	if f == IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

// FamilyOf is the family of an address; an IPv4-mapped one counts as IPv6.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}
