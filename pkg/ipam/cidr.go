package ipam

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// mostCIDRs limits the CIDRs of a Node that are read. An API server accepts two.
const mostCIDRs = 16

// fault is one thing that is wrong with a Node's CIDRs.
type fault struct {
	code Code
	text string
}

// recreate is the fix for a Node's CIDRs: Kubernetes does not change them.
const recreate = "delete and re-create the Node"

// read returns the blocks that a Node's CIDRs mean, each once, and the CIDRs' faults.
func read(cidrs []string) (blocks []netip.Prefix, faults []fault) {
	say := func(code Code, format string, args ...any) {
		faults = append(faults, fault{code, fmt.Sprintf(format, args...) + "; " + recreate})
	}
	if len(cidrs) > len(subnet.Families) {
		say(TooMany, "the Node has %d podCIDRs, at most one of each family is valid", len(cidrs))
	}
	var families subnet.Pair[int]
	for _, text := range cidrs[:min(len(cidrs), mostCIDRs)] {
		block, code, why := readCIDR(text)
		if code != "" {
			say(code, "podCIDR %.60q: %s", text, why)
		}
		if !block.IsValid() {
			continue
		}
		if slices.Contains(blocks, block) {
			say(Duplicate, "the Node has the podCIDR %s twice", block)
			continue
		}
		blocks = append(blocks, block)
		families[subnet.FamilyOf(block.Addr())]++
	}
	for f, n := range families {
		if n > 1 {
			say(SameFamily, "the Node has %d podCIDRs of %s, at most one is valid", n, subnet.Family(f))
		}
	}
	return blocks, faults
}

// readCIDR returns the block that text means, if any, and the fault of the text.
func readCIDR(text string) (block netip.Prefix, code Code, why string) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		// Some programs read a leading zero as decimal.
		if p, err = netip.ParsePrefix(withoutZeros(text)); err != nil {
			return netip.Prefix{}, Malformed, "not a network in CIDR notation"
		}
		code, why = Malformed, fmt.Sprintf("has leading zeros; reserving %s", p.Masked())
	}
	if plain := unmapped(p); plain != p {
		p = plain
		code, why = Mapped, fmt.Sprintf("IPv4 written as IPv6; reserving %s", p.Masked())
	}
	if p != p.Masked() {
		p = p.Masked()
		if code == "" {
			code, why = HostBits, fmt.Sprintf("has host bits; reserving %s", p)
		}
	}
	return p, code, why
}

// unmapped returns the IPv4 network that is written as an IPv6 network. It returns every
// other network unchanged.
func unmapped(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// withoutZeros removes leading zeros from the numbers in text.
func withoutZeros(text string) string {
	kept := make([]byte, 0, len(text))
	start := true
	for i := range len(text) {
		c := text[i]
		if start && c == '0' && i+1 < len(text) && '0' <= text[i+1] && text[i+1] <= '9' {
			continue
		}
		kept = append(kept, c)
		start = strings.IndexByte("./:", c) >= 0
	}
	return string(kept)
}
