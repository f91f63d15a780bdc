package ipam

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// Grant is the blocks for a Node: one of each family of the pool, in the order in which the
// Node lists them.
type Grant struct {
	Node, UID string
	Pool      string
	CIDRs     []netip.Prefix
}

// Outcome is how the write of a Grant ended.
type Outcome int

// The outcomes.
const (
	// Written is a write that succeeded.
	Written Outcome = iota
	// Refused is a write that was not applied, and never will be.
	Refused
	// Ambiguous is a write that may have been applied, or may still be.
	Ambiguous
)

// class is the Nodes that wait for blocks of the same pools. If the oldest finds no block,
// the others find none either.
type class struct {
	key   string
	pools []*pool
	nodes queue[*node]
	index int // in Book.ready
}

func (c *class) place() *int { return &c.index }

func (c *class) before(other *class) bool { return c.nodes.items[0].before(other.nodes.items[0]) }

// Next grants blocks to at most n Nodes without blocks, the oldest first. A granted
// block belongs to its Node until Settle reports that the write was refused, or until
// Set or Delete shows a later state of the Node. Until then, Next does not return the
// Node again. If Nodes wait for resting blocks, again is when the next block is free.
func (b *Book) Next(now time.Time, n int) (grants []Grant, again time.Time) {
	b.advance(now)
	for len(grants) < n {
		if n, ok := b.returned.first(); ok {
			b.leave(n)
			if p, blocks := b.former(n); p != nil {
				grants = append(grants, b.grant(n, p, blocks))
			} else {
				b.join(n)
			}
			continue
		}
		c, ok := b.ready.first()
		if !ok {
			break
		}
		p, blocks := b.search(c)
		if p == nil {
			b.ready.remove(c)
			b.full[c] = struct{}{}
			continue
		}
		n, _ := c.nodes.first()
		b.leave(n)
		grants = append(grants, b.grant(n, p, blocks))
	}
	if len(b.rests) > 0 && b.lacks() {
		again = b.rests[0].ends
	}
	return grants, again
}

// lacks reports whether Nodes wait for pools that have no free block.
func (b *Book) lacks() bool {
	for c := range b.full {
		if len(c.pools) > 0 {
			return true
		}
	}
	return false
}

// Settle records how the write of a grant ended. After Refused, the blocks are free at
// once and the Node waits for others. Otherwise the Node keeps them. Settle does nothing
// once Set or Delete has shown a later state of the Node.
func (b *Book) Settle(name, uid string, o Outcome) {
	n := b.nodes[name]
	switch {
	case n == nil || n.uid != uid || n.has != granted || o == Ambiguous:
		return
	case o == Written:
		n.has = written
		return
	}
	for _, s := range n.blocks {
		b.disown(n, s)
		b.free(s)
	}
	n.has = none
	b.setBlocks(n, nil)
	if !n.deleting {
		b.wait(n)
	}
}

// grant gives blocks to n, which no longer waits.
func (b *Book) grant(n *node, p *pool, blocks []netip.Prefix) Grant {
	n.has = granted
	b.setBlocks(n, blocks)
	for _, s := range blocks {
		b.own(n, s)
	}
	return Grant{n.name, n.uid, p.Name, slices.Clone(blocks)}
}

// search returns new blocks for a Node of c and their pool, or no pool.
func (b *Book) search(c *class) (*pool, []netip.Prefix) {
	for _, p := range c.pools {
		if blocks, _, ok := b.serve(p); ok {
			return p, blocks
		}
	}
	return nil, nil
}

// serve returns new blocks of p for a Node, or the family in which p has no free block.
func (b *Book) serve(p *pool) (blocks []netip.Prefix, lacking subnet.Family, ok bool) {
	for _, f := range p.families {
		s, ok := b.fit(p, f)
		if !ok {
			return nil, f, false
		}
		blocks = append(blocks, s)
	}
	return blocks, 0, true
}

// fit returns the free block of p that leaves the largest holes.
func (b *Book) fit(p *pool, f subnet.Family) (best netip.Prefix, ok bool) {
	smallest := -1
	for _, r := range p.open[f] {
		if s, hole := b.taken[f].Fit(r, p.Bits[f]); hole > smallest {
			best, smallest = s, hole
		}
	}
	return best, smallest >= 0
}

// former returns the blocks that a Node of this name had, and their pool, or no pool.
func (b *Book) former(n *node) (*pool, []netip.Prefix) {
	for _, p := range b.poolsFor(n) {
		if blocks, ok := b.restored(n, p); ok {
			return p, blocks
		}
	}
	return nil, nil
}

// poolsFor returns the pools that n may use, in the order in which it tries them.
func (b *Book) poolsFor(n *node) []*pool {
	type match struct {
		pool         *pool
		requirements int
	}
	var matches []match
	for _, p := range b.pools {
		if p.Selector == nil {
			matches = append(matches, match{p, -1})
		} else if requirements, ok := p.Selector.match(n.name, n.labels); ok {
			matches = append(matches, match{p, requirements})
		}
	}
	slices.SortStableFunc(matches, func(a, b match) int { return cmp.Compare(b.requirements, a.requirements) })
	pools := make([]*pool, len(matches))
	for i, m := range matches {
		pools[i] = m.pool
	}
	return pools
}

// wait lets n wait for blocks: for its former ones, if they rest.
func (b *Book) wait(n *node) {
	if b.restOf[n.name] == nil {
		b.join(n)
		return
	}
	n.returns = true
	b.returned.add(n)
}

// join lets n wait for new blocks.
func (b *Book) join(n *node) {
	pools := b.poolsFor(n)
	key := make([]byte, 0, 2*len(pools))
	for _, p := range pools {
		key = binary.AppendUvarint(key, uint64(p.index))
	}
	c := b.waiting[string(key)]
	if c == nil {
		c = &class{key: string(key), pools: pools}
		b.waiting[c.key] = c
	}
	n.class = c
	c.nodes.add(n)
	switch {
	case b.isFull(c):
	case len(c.nodes.items) == 1:
		b.ready.add(c)
	default:
		b.ready.fix(c)
	}
}

// leave removes n from the Nodes that wait.
func (b *Book) leave(n *node) {
	switch c := n.class; {
	case n.returns:
		b.returned.remove(n)
		n.returns = false
	case c == nil:
	case len(c.nodes.items) > 1:
		c.nodes.remove(n)
		if !b.isFull(c) {
			b.ready.fix(c)
		}
	default:
		// The queue orders classes by their first Nodes, so c leaves before its last.
		if b.isFull(c) {
			delete(b.full, c)
		} else {
			b.ready.remove(c)
		}
		delete(b.waiting, c.key)
	}
	n.class = nil
}

func (b *Book) isFull(c *class) bool {
	_, full := b.full[c]
	return full
}

// retry makes the Nodes try again that found no free block.
func (b *Book) retry() {
	for c := range b.full {
		b.ready.add(c)
	}
	clear(b.full)
}
