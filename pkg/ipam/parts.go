package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// Layout is how the ranges of a pool are used in one family.
type Layout struct {
	Pool   string
	Family subnet.Family
	// Each is the number of blocks in a part. A smaller range is one part.
	Each   uint64
	Ranges []RangeLayout
	// Left is the number of ranges that are not in Ranges.
	Left int
}

// RangeLayout is a range of a pool, divided into parts of one size.
type RangeLayout struct {
	Range netip.Prefix
	Parts []Part
}

// Part counts the blocks in a part of a range, as PoolUsage does.
type Part struct{ Used, Free, Resting, Reserved, Draining uint64 }

// Total returns the number of blocks in the part.
func (p Part) Total() uint64 { return p.Used + p.Free + p.Resting + p.Reserved + p.Draining }

// Layouts returns the Layouts of the first pools and families, at most most of them, in the
// order of Usage. It divides each into at most parts parts.
func (b *Book) Layouts(now time.Time, most, parts int) (all []Layout) {
	b.advance(now)
	for _, p := range b.pools {
		for _, f := range p.families {
			if len(all) == most {
				return all
			}
			all = append(all, b.layout(p, f, parts))
		}
	}
	return all
}

// layout divides the ranges of a pool into parts.
func (b *Book) layout(p *pool, f subnet.Family, most int) Layout {
	ranges := p.ranges[f]
	l := Layout{Pool: p.Name, Family: f, Left: max(0, len(ranges)-most)}
	ranges = ranges[:len(ranges)-l.Left]
	shift := 0 // a part has 2^shift blocks
	parts := func() (n int) {
		for _, r := range ranges {
			n += 1 << max(0, p.Bits[f]-r.Bits()-shift)
		}
		return n
	}
	for parts() > most {
		shift++
	}
	l.Each = 1 << shift
	for _, r := range ranges {
		bits := max(r.Bits(), p.Bits[f]-shift)
		l.Ranges = append(l.Ranges, RangeLayout{r, b.parts(p, f, r, bits)})
	}
	return l
}

// parts divides a range into parts of a prefix length, and counts the blocks in each.
func (b *Book) parts(p *pool, f subnet.Family, in netip.Prefix, bits int) []Part {
	open, draining := within(p.open[f], in), within(p.draining[f], in)
	all := make([]Part, 1<<(bits-in.Bits()))
	each := func(count func(part *Part, open, draining []netip.Prefix)) {
		at := in.Addr()
		for i := range all {
			part := netip.PrefixFrom(at, bits)
			count(&all[i], within(open, part), within(draining, part))
			at = after(part)
		}
	}
	each(func(part *Part, open, _ []netip.Prefix) { part.Free = b.room(f, open, p.Bits[f]).Blocks })
	b.withoutRests(func() {
		each(func(part *Part, open, draining []netip.Prefix) {
			part.Resting = b.room(f, open, p.Bits[f]).Blocks - part.Free
			part.Draining = b.room(f, draining, p.Bits[f]).Blocks
			usable := p.blocks(f, open) + p.blocks(f, draining)
			part.Used = usable - part.Free - part.Resting - part.Draining
			part.Reserved = 1<<(p.Bits[f]-bits) - usable
		})
	})
	return all
}

// within returns the parts of ranges that lie in a range. ranges are sorted and do not
// overlap.
func within(ranges []netip.Prefix, in netip.Prefix) []netip.Prefix {
	first, _ := slices.BinarySearchFunc(ranges, in, func(r, in netip.Prefix) int {
		if r.Overlaps(in) {
			return 1 // the first of those
		}
		return r.Addr().Compare(in.Addr())
	})
	last := first
	for last < len(ranges) && ranges[last].Overlaps(in) {
		last++
	}
	if last-first == 1 && ranges[first].Bits() < in.Bits() {
		return []netip.Prefix{in}
	}
	return ranges[first:last]
}

// after returns the first address after a range. It is invalid after the last address.
func after(r netip.Prefix) netip.Addr {
	bytes := r.Addr().AsSlice()
	for i := range bytes {
		switch before := r.Bits() - 8*i; {
		case before <= 0:
			bytes[i] = 0xff
		case before < 8:
			bytes[i] |= 0xff >> before
		}
	}
	last, _ := netip.AddrFromSlice(bytes)
	return last.Next()
}
