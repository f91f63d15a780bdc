package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// PoolUsage counts a pool's blocks of one family by use. Each block counts once: Used, Free,
// Resting, Reserved and Draining add up to Total.
type PoolUsage struct {
	Pool   string
	Family subnet.Family
	Bits   int // the length of a block

	Total    uint64
	Used     uint64 // a Node has the block, or a part of it, or was granted it
	Free     uint64
	Resting  uint64
	Reserved uint64 // overlap a service range, whether Nodes use them or not
	Draining uint64 // unused, in a draining range
	// Largest is the length of the largest free range, or -1 without one.
	Largest int
	// Fragmentation is the share of the free addresses in holes that are smaller than a
	// block.
	Fragmentation float64
	// Nodes is the number of Nodes that have addresses of the pool.
	Nodes    int
	Forecast Forecast
}

// Usage returns the usage of each pool and family, in the order in which Nodes prefer
// the pools. It costs more the more holes there are, and the more Nodes have changed
// since the last call.
func (b *Book) Usage(now time.Time) []PoolUsage {
	b.advance(now)
	var all []PoolUsage
	for _, p := range b.pools {
		for _, f := range p.families {
			u := b.measure(p, f)
			created := p.ages[f].inOrder()
			u.Nodes = len(created)
			u.Forecast = forecast(created, u.Free+u.Resting, now)
			all = append(all, u)
		}
	}
	return all
}

// setBlocks sets the blocks of n, and updates the pools' ages.
func (b *Book) setBlocks(n *node, blocks []netip.Prefix) {
	b.eachPool(n, (*ages).remove)
	n.blocks = blocks
	b.eachPool(n, (*ages).add)
}

// eachPool changes the ages of each pool and family that n has addresses of.
func (b *Book) eachPool(n *node, change func(*ages, int64)) {
	for _, p := range b.pools {
		for _, f := range p.families {
			if slices.ContainsFunc(n.blocks, func(s netip.Prefix) bool { return subnet.FamilyOf(s.Addr()) == f && p.overlaps(s) }) {
				change(&p.ages[f], n.created)
			}
		}
	}
}

// measure returns the usage of a pool, without Nodes and Forecast.
func (b *Book) measure(p *pool, f subnet.Family) PoolUsage {
	u := PoolUsage{Pool: p.Name, Family: f, Bits: p.Bits[f], Total: p.blocks(f, p.ranges[f])}
	open, draining := p.blocks(f, p.open[f]), p.blocks(f, p.draining[f])
	u.Reserved = u.Total - open - draining
	room := b.room(f, p.open[f], u.Bits)
	u.Free, u.Largest = room.Blocks, room.Largest
	if all := room.Scraps + float64(room.Blocks); all > 0 {
		u.Fragmentation = room.Scraps / all
	}
	b.withoutRests(func() {
		u.Resting = b.room(f, p.open[f], u.Bits).Blocks - u.Free
		u.Draining = b.room(f, p.draining[f], u.Bits).Blocks
	})
	u.Used = open - u.Free - u.Resting + draining - u.Draining
	return u
}

// withoutRests calls do with all rests suspended.
func (b *Book) withoutRests(do func()) {
	for _, r := range b.rests {
		b.eachOf(r, func(set *subnet.Set, s netip.Prefix) { set.Free(s) })
	}
	do()
	for _, r := range b.rests {
		b.eachOf(r, (*subnet.Set).Take)
	}
}

// eachOf calls change for each block of r, with the Set of the block's family.
func (b *Book) eachOf(r *rest, change func(*subnet.Set, netip.Prefix)) {
	for _, s := range r.blocks {
		change(&b.taken[subnet.FamilyOf(s.Addr())], s)
	}
}

// room measures the free parts of ranges.
func (b *Book) room(f subnet.Family, ranges []netip.Prefix, bits int) subnet.Room {
	sum := subnet.Room{Largest: -1}
	for _, r := range ranges {
		room := b.taken[f].Room(r, bits)
		sum.Blocks += room.Blocks
		sum.Scraps += room.Scraps
		if sum.Largest < 0 || room.Largest >= 0 && room.Largest < sum.Largest {
			sum.Largest = room.Largest
		}
	}
	return sum
}
