package kube

import (
	"net/netip"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// A node repeats its podCIDRs in an annotation, its claim, for nodes that watch
// metadata alone. A false claim must gain nothing. So a claim is accepted only while
// no other Node has any part of it. To check that at once, claims must have the shape
// of the own podCIDRs: two of one shape overlap only if they are equal.

// podCIDRs are a Node's subnets, one per family.
type podCIDRs = subnet.Pair[netip.Prefix]

// longestClaim exceeds the length of two prefixes.
const longestClaim = 128

// formatClaim returns the claim for these subnets.
func formatClaim(subnets podCIDRs) string {
	var texts []string
	for _, p := range subnets {
		if p.IsValid() {
			texts = append(texts, p.String())
		}
	}
	return strings.Join(texts, ",")
}

// isPlain reports whether podCIDRs are spelled as in a claim. Those that a person
// wrote may not be, and other nodes compare the texts.
func isPlain(texts [][]byte) bool {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(string(text)); err != nil || p.String() != string(text) {
			return false
		}
	}
	return true
}

// parseClaim reads a claim. An invalid one claims nothing.
func parseClaim(text []byte) podCIDRs {
	if len(text) == 0 || len(text) > longestClaim {
		return podCIDRs{}
	}
	var texts [][]byte
	for part := range strings.SplitSeq(string(text), ",") {
		texts = append(texts, []byte(part))
	}
	subnets, err := parseCIDRs(texts)
	if err != nil {
		return podCIDRs{}
	}
	return subnets
}

// shape is the subnets' prefix length in each family, -1 for none.
type shape subnet.Pair[int]

func shapeOf(subnets podCIDRs) (s shape) {
	for f, p := range subnets {
		s[f] = p.Bits()
	}
	return s
}

// holders are the entries that have subnets, verified or not, indexed to find those
// that share a subnet.
type holders struct {
	shape      shape // of the own podCIDRs
	count      map[netip.Prefix]int32
	otherShape map[*entry]struct{} // the entries of another shape
	open       int                 // number of unverified entries
}

func newHolders() holders {
	return holders{
		shape: shapeOf(podCIDRs{}), // of no Node
		count: make(map[netip.Prefix]int32), otherShape: make(map[*entry]struct{}),
	}
}

// shaped reports whether the own podCIDRs' shape is known.
func (h *holders) shaped() bool { return h.shape != shapeOf(podCIDRs{}) }

// plausible reports whether e's claim has the shape that makes conflicts visible at
// once.
func (h *holders) plausible(e *entry) bool {
	return e.claim != podCIDRs{} && shapeOf(e.claim) == h.shape
}

// add counts e with n = 1, and removes it from the count with n = -1.
func (h *holders) add(e *entry, n int32) {
	if !e.holds() {
		return
	}
	for _, p := range e.subnets {
		if !p.IsValid() {
			continue
		}
		if h.count[p] += n; h.count[p] == 0 {
			delete(h.count, p)
		}
	}
	if !e.verified() {
		h.open += int(n)
	}
	delete(h.otherShape, e)
	if n > 0 && shapeOf(e.subnets) != h.shape {
		h.otherShape[e] = struct{}{}
	}
}

// contested reports whether e's subnets must be verified: another entry may have a
// part of them, and one of the two is unverified.
func (h *holders) contested(e *entry) bool {
	return (!e.verified() || h.open > 0) && h.shared(e)
}

// shared reports whether another counted entry may have a part of e's subnets. e
// itself is counted.
func (h *holders) shared(e *entry) bool {
	if !e.holds() {
		return false
	}
	if shapeOf(e.subnets) != h.shape {
		return true
	}
	for _, p := range e.subnets {
		if p.IsValid() && h.count[p] > 1 {
			return true
		}
	}
	for other := range h.otherShape {
		if other.overlaps(e) {
			return true
		}
	}
	return false
}
