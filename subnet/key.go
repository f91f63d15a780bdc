package subnet

import (
	"net/netip"
	"strconv"
	"strings"
)

// Key returns the name of the lease in the store, like 10.5.34.0-24 or
// 10.5.34.0-24&fd00:5:0:22::-64. It is "" for a lease without a subnet.
func (l Lease) Key() string { return FormatKey(l.Subnets) }

// FormatKey returns the name of a lease of these subnets.
func FormatKey(subnets Pair[netip.Prefix]) string {
	return string(appendKey(make([]byte, 0, 64), subnets)) // enough for most keys
}

func appendKey(key []byte, subnets Pair[netip.Prefix]) []byte {
	for _, s := range subnets {
		if !s.IsValid() {
			continue
		}
		if len(key) > 0 {
			key = append(key, '&')
		}
		key = s.Addr().AppendTo(key)
		key = append(key, '-')
		key = strconv.AppendInt(key, int64(s.Bits()), 10)
	}
	return key
}

// ParseKey reads what FormatKey writes, and nothing else: with a second name for the
// same subnets, two nodes could hold them. The error is a *LeaseError that wraps
// ErrKey.
func ParseKey(key string) (Pair[netip.Prefix], error) {
	var subnets Pair[netip.Prefix]
	rest, more := key, true
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "&")
		s, ok := parseSubnet(part)
		if !ok {
			return Pair[netip.Prefix]{}, keyError(key, "it must be like 10.5.34.0-24")
		}
		subnets[FamilyOf(s.Addr())] = s
	}
	if canonical := appendKey(make([]byte, 0, 64), subnets); string(canonical) != key {
		return Pair[netip.Prefix]{}, keyError(key, "it must be written "+string(canonical))
	}
	return subnets, nil
}

// parseSubnet reads one subnet. ParseKey checks its spelling.
func parseSubnet(s string) (netip.Prefix, bool) {
	address, length, _ := strings.Cut(s, "-")
	a, err := netip.ParseAddr(address)
	if err != nil || a.Is4In6() || a.Zone() != "" {
		return netip.Prefix{}, false
	}
	bits, err := strconv.Atoi(length)
	if err != nil {
		return netip.Prefix{}, false
	}
	// Masked, so that a key with host bits differs from what FormatKey writes.
	p := netip.PrefixFrom(a, bits).Masked()
	return p, p.IsValid()
}
