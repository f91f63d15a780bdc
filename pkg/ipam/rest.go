package ipam

import (
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// DefaultRest is how long a block rests after the deletion of its Node. Until then, peers
// and connections may still know the old Node.
const DefaultRest = time.Minute

// rest is the blocks that a Node has lost, usually by its deletion. They stay taken until the
// rest ends. A Node of the same name may get them at once.
type rest struct {
	name   string
	blocks []netip.Prefix
	ends   time.Time
}

// rest begins the rest of blocks that the Node of this name has lost.
func (b *Book) rest(name string, blocks []netip.Prefix) {
	if len(blocks) == 0 {
		return
	}
	if old := b.restOf[name]; old != nil {
		// A block that rests again rests longer, and counts once.
		old.blocks = slices.DeleteFunc(old.blocks, func(s netip.Prefix) bool {
			again := slices.Contains(blocks, s)
			if again {
				b.free(s)
			}
			return again
		})
	}
	r := &rest{name, blocks, b.now.Add(b.Rest)}
	b.rests = append(b.rests, r)
	b.restOf[name] = r
}

// advance sets the time, and frees the blocks whose rest is over.
func (b *Book) advance(now time.Time) {
	b.now = now
	ended := 0
	for _, r := range b.rests {
		if r.ends.After(now) {
			break
		}
		for _, s := range r.blocks {
			b.free(s)
		}
		if b.restOf[r.name] == r {
			delete(b.restOf, r.name)
		}
		b.rests[ended] = nil
		ended++
	}
	b.rests = b.rests[ended:]
}

// restored returns blocks of a pool for a Node whose name owned resting blocks: those, and a
// new block of a family in which it owned none. ok is false unless one of them is an old one.
func (b *Book) restored(n *node, p *pool) (blocks []netip.Prefix, ok bool) {
	r := b.restOf[n.name]
	if r == nil {
		return nil, false
	}
	for _, f := range p.families {
		i := slices.IndexFunc(r.blocks, func(s netip.Prefix) bool { return subnet.FamilyOf(s.Addr()) == f })
		var s netip.Prefix
		switch {
		case i < 0:
			s, _ = b.fit(p, f)
		case p.offers(r.blocks[i]) && b.onlyRests(r.blocks[i]):
			s, ok = r.blocks[i], true
		}
		if !s.IsValid() {
			return nil, false
		}
		blocks = append(blocks, s)
	}
	return blocks, ok
}

// onlyRests reports whether only its rest takes the block s.
func (b *Book) onlyRests(s netip.Prefix) bool {
	for other, owners := range b.taken[subnet.FamilyOf(s.Addr())].Overlapping(s) {
		if other != s || owners > 1 {
			return false
		}
	}
	return true
}
