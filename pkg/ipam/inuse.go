package ipam

import (
	"net/netip"
	"slices"
)

// InUse reports whether a Node has, or was granted, a block that may come from a pool. Nodes
// do not record a block's pool. So a block counts if the pool could have granted it, or if it
// overlaps the pool's ranges and no other pool could have granted it.
func (b *Book) InUse(name string) bool {
	i := slices.IndexFunc(b.pools, func(p *pool) bool { return p.Name == name })
	if i < 0 {
		return false
	}
	p := b.pools[i]
	for _, f := range p.families {
		for _, r := range p.ranges[f] {
			for s := range b.taken[f].Overlapping(r) {
				if b.owners[s] != nil && (p.gave(s) || !slices.ContainsFunc(b.pools, func(other *pool) bool { return other.gave(s) })) {
					return true
				}
			}
		}
	}
	return false
}

// gave reports whether the pool may have granted s before, whatever is reserved or draining
// now.
func (p *pool) gave(s netip.Prefix) bool { return p.within(p.ranges, s) }
