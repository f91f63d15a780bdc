package ipam

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/subnet"
)

// Pool is the ranges from which some Nodes get their blocks.
type Pool struct {
	Name string
	// Ranges are each family's addresses, and Bits the length of its blocks. A family
	// without ranges is off. A Node gets a block of each family that is on, or none.
	Ranges subnet.Pair[[]netip.Prefix]
	Bits   subnet.Pair[int]
	// First is the family whose block a Node lists first.
	First subnet.Family
	// Reserved are ranges that services use, of either family, in any notation. No new
	// block overlaps one.
	Reserved []netip.Prefix
	// Draining are ranges from which the Book grants no more blocks.
	Draining []netip.Prefix
	// Selector selects the pool's Nodes; nil selects all. A Node uses a pool without a
	// selector only if no pool that selects the Node has a free block.
	Selector *Selector
	// Grow is how an operator enlarges the pool, for findings: "add a range to …".
	Grow string
}

// most is the largest difference between a block's and its range's prefix length: with 2^48
// blocks, sums over all ranges fit into 64 bits.
const most = 48

// mapped are the IPv4-mapped addresses.
var mapped = netip.MustParsePrefix("::ffff:0:0/96")

// Check returns an error with the fix unless p is valid.
func (p *Pool) Check() error {
	if err := p.check(); err != nil {
		return fmt.Errorf("pool %.100q: %w", p.Name, err)
	}
	return nil
}

func (p *Pool) check() error {
	if p.Name == "" {
		return fmt.Errorf("no name; give it one")
	}
	if len(p.Ranges[subnet.IPv4])+len(p.Ranges[subnet.IPv6]) == 0 {
		return fmt.Errorf("no range; add one like 10.244.0.0/16")
	}
	for f, ranges := range p.Ranges {
		f := subnet.Family(f)
		for _, r := range ranges {
			bits := p.Bits[f]
			if err := checkRange(r); err != nil {
				return err
			}
			switch {
			case subnet.FamilyOf(r.Addr()) != f:
				return fmt.Errorf("range %s: not an %s range", r, f)
			case r.Bits() == 0:
				return fmt.Errorf("range %s: holds every address; use a smaller one", r)
			case r.Overlaps(mapped):
				return fmt.Errorf("range %s: holds the IPv4-mapped addresses; use one like fd00:5::/48", r)
			case bits < r.Bits() || bits > f.Bits():
				return fmt.Errorf("range %s: its blocks cannot be /%d; use a length from %d to %d", r, bits, r.Bits(), min(f.Bits(), r.Bits()+most))
			case bits-r.Bits() > most:
				return fmt.Errorf("range %s: has 2^%d blocks of /%d, the limit is 2^%d; use a smaller range or /%d", r, bits-r.Bits(), bits, most, r.Bits()+most)
			}
		}
	}
	for _, r := range p.Draining {
		if err := checkRange(r); err != nil {
			return err
		}
	}
	if p.Selector != nil {
		return p.Selector.Check()
	}
	return nil
}

func checkRange(r netip.Prefix) error {
	switch {
	case !r.IsValid():
		return fmt.Errorf("range without a value; write one like 10.244.0.0/16")
	case r.Addr().Is4In6():
		return fmt.Errorf("range %s: IPv4 written as IPv6; write it as IPv4", r)
	case r != r.Masked():
		return fmt.Errorf("range %s: has host bits; write %s", r, r.Masked())
	}
	return nil
}

// pool is a Pool with what a Book often needs, computed once.
type pool struct {
	Pool
	families []subnet.Family             // those that are on, in a Node's order
	ranges   subnet.Pair[[]netip.Prefix] // they do not overlap
	open     subnet.Pair[[]netip.Prefix] // from which the Book grants new blocks
	draining subnet.Pair[[]netip.Prefix] // the draining parts, without reserved ones
	ages     subnet.Pair[ages]           // of the Nodes that have addresses of the pool
	selector string
	index    int // in Book.pools
}

func compile(p Pool) *pool {
	c := &pool{Pool: p}
	c.Reserved = nil
	for _, r := range p.Reserved {
		if r.IsValid() {
			c.Reserved = append(c.Reserved, unmapped(r).Masked())
		}
	}
	for _, f := range []subnet.Family{p.First, 1 - p.First} {
		if len(p.Ranges[f]) == 0 {
			continue
		}
		c.families = append(c.families, f)
		c.ranges[f] = disjoint(p.Ranges[f])
		usable := without(c.ranges[f], c.Reserved, p.Bits[f])
		c.open[f] = without(usable, p.Draining, p.Bits[f])
		c.draining[f] = without(usable, c.open[f], p.Bits[f])
	}
	if p.Selector != nil {
		c.selector = p.Selector.text()
	}
	return c
}

// disjoint returns the ranges in order, without those that lie in others.
func disjoint(ranges []netip.Prefix) []netip.Prefix {
	sorted := slices.SortedFunc(slices.Values(ranges), netip.Prefix.Compare)
	kept := sorted[:0]
	for _, r := range sorted {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(r) {
			kept = append(kept, r)
		}
	}
	return kept
}

// without returns the parts of ranges in which no block of this length overlaps a range in
// taken.
func without(ranges, taken []netip.Prefix, bits int) []netip.Prefix {
	var set subnet.Set
	for _, t := range taken {
		for _, r := range ranges {
			if t.Overlaps(r) {
				set.Take(netip.PrefixFrom(t.Addr(), min(t.Bits(), bits)))
			}
		}
	}
	var rest []netip.Prefix
	for _, r := range ranges {
		rest = slices.AppendSeq(rest, set.Holes(r))
	}
	return rest
}

// blocks returns the number of a family's blocks in ranges.
func (p *pool) blocks(f subnet.Family, ranges []netip.Prefix) uint64 {
	n := uint64(0)
	for _, r := range ranges {
		n += 1 << (p.Bits[f] - r.Bits())
	}
	return n
}

// overlaps reports whether s overlaps a range of the pool.
func (p *pool) overlaps(s netip.Prefix) bool {
	return slices.ContainsFunc(p.ranges[subnet.FamilyOf(s.Addr())], s.Overlaps)
}

// offers reports whether s could be a new block of the pool, if it is free.
func (p *pool) offers(s netip.Prefix) bool { return p.within(p.open, s) }

// within reports whether s has the length of the pool's blocks, and lies in one of
// ranges.
func (p *pool) within(ranges subnet.Pair[[]netip.Prefix], s netip.Prefix) bool {
	f := subnet.FamilyOf(s.Addr())
	return s.Bits() == p.Bits[f] && slices.ContainsFunc(ranges[f], func(r netip.Prefix) bool {
		return r.Bits() <= s.Bits() && r.Overlaps(s)
	})
}

// fewest returns the number of Nodes that the empty pool can serve: that of its smaller
// family.
func (p *pool) fewest() uint64 {
	n := uint64(math.MaxUint64)
	for _, f := range p.families {
		n = min(n, p.blocks(f, p.ranges[f]))
	}
	return n
}

// compare orders pools for a Node that meets equally many requirements of both: first the
// smaller pool, then the one with smaller blocks, then by selector, range and name.
func (p *pool) compare(q *pool) int {
	one := func(p *pool) (subnet.Family, string) {
		f := subnet.IPv4
		if len(p.ranges[f]) == 0 {
			f = subnet.IPv6
		}
		return f, p.ranges[f][0].String()
	}
	pf, ptext := one(p)
	qf, qtext := one(q)
	return cmp.Or(
		cmp.Compare(p.fewest(), q.fewest()),
		cmp.Compare(q.Bits[qf], p.Bits[pf]),
		strings.Compare(p.selector, q.selector),
		strings.Compare(ptext, qtext),
		strings.Compare(p.Name, q.Name),
	)
}
