package kube

import (
	"net/netip"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// A node repeats its podCIDRs in an annotation, its claim, for those who watch
// metadata alone. Who says what it likes there must gain nothing by it: a claim is
// believed as long as nobody else has any of it. To see that at once claims have
// to be of one shape, the own podCIDRs': then two of them overlap only if they are
// equal.

// podCIDRs are a Node's.
type podCIDRs = subnet.Pair[netip.Prefix]

// longestClaim is more than two prefixes take.
const longestClaim = 128

// formatClaim is how subnets are claimed.
func formatClaim(subnets podCIDRs) string {
	var texts []string
	for _, p := range subnets {
		if p.IsValid() {
			texts = append(texts, p.String())
		}
	}
	return strings.Join(texts, ",")
}

// isPlain says whether podCIDRs are written as a claim has them. A person's need not
// be, and a claim in other words is none to who compares the two as texts.
func isPlain(texts [][]byte) bool {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(string(text)); err != nil || p.String() != string(text) {
			return false
		}
	}
	return true
}

// parseClaim reads a claim; what is none claims nothing.
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

// shape is how long subnets are in each family, -1 where there is none.
type shape subnet.Pair[int]

func shapeOf(subnets podCIDRs) (s shape) {
	for f, p := range subnets {
		s[f] = p.Bits()
	}
	return s
}

// holders are the entries that have subnets, or are believed to, in a way that
// tells quickly who has the same.
type holders struct {
	shape      shape // of the own podCIDRs
	count      map[netip.Prefix]int32
	otherShape map[*entry]struct{} // those of another shape
	open       int                 // that are not verified
}

func newHolders() holders {
	return holders{
		shape: shapeOf(podCIDRs{}), // nobody's
		count: make(map[netip.Prefix]int32), otherShape: make(map[*entry]struct{}),
	}
}

// shaped says whether there is a shape.
func (h *holders) shaped() bool { return h.shape != shapeOf(podCIDRs{}) }

// plausible says whether e's claim is one that is seen at once to be contested, if
// it is.
func (h *holders) plausible(e *entry) bool {
	return e.claim != podCIDRs{} && shapeOf(e.claim) == h.shape
}

// add has e count, by n = 1, or not count any more, by -1.
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

// contested says whether it is to be looked at who has e's subnets: somebody else
// may have a part of them, and not both were verified.
func (h *holders) contested(e *entry) bool {
	return (!e.verified() || h.open > 0) && h.shared(e)
}

// shared says whether somebody else among those who count may have a part of e's
// subnets; e is one of them.
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
