package ipam

import (
	"iter"
	"net/netip"

	"github.com/tulle-net/tulle/subnet"
)

// Owners yields the Nodes that own a part of s, each once for each block of it.
func (b *Book) Owners(s netip.Prefix) iter.Seq[string] {
	return func(yield func(string) bool) {
		for block := range b.taken[subnet.FamilyOf(s.Addr())].Overlapping(s) {
			for o := b.owners[block]; o != nil; o = o.next {
				if !yield(o.node.name) {
					return
				}
			}
		}
	}
}
