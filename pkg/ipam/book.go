package ipam

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// Node is what a Book needs of a Node. Nothing in it is trusted.
type Node struct {
	Name, UID string
	// CIDRs are the Node's podCIDRs. A Node without podCIDRs waits for blocks.
	CIDRs    []string
	Deleting bool
	Created  int64 // in seconds
	// Labels include those that the pools' selectors name.
	Labels map[string]string
}

// Book holds all Nodes and pools. Its methods are not safe for concurrent use. The cost of a
// change grows with the change's size, and with the logarithm of the number of Nodes.
type Book struct {
	// Rest is how long freed blocks rest, DefaultRest at first. Set it before any Node.
	Rest time.Duration

	pools []*pool // in the order in which Nodes prefer them, if they meet equal requirements
	nodes map[string]*node
	now   time.Time

	taken  subnet.Pair[subnet.Set] // by Nodes, by grants, and by rests
	owners map[netip.Prefix]*owner

	rests    []*rest // in the order in which they end
	restOf   map[string]*rest
	waiting  map[string]*class // the Nodes without blocks, by the pools that they may use
	ready    queue[*class]
	full     map[*class]struct{} // found no free block when they last tried
	returned queue[*node]        // wait for their former blocks, which rest

	faulty   map[*node]struct{} // have faults, or blocks in unusual places
	clashing map[*node]struct{} // had a block that overlaps an older Node's
}

// node is a Node, and what it owns.
type node struct {
	name, uid string
	created   int64
	deleting  bool
	has       origin
	blocks    []netip.Prefix
	faults    []fault

	// Of a Node that waits:
	labels  map[string]string
	class   *class
	returns bool // is in Book.returned
	index   int  // in a queue
}

// origin is where a Node's blocks come from.
type origin uint8

const (
	none     origin = iota // the Node has no block
	granted                // by a Grant whose write may still be refused
	written                // by a Grant that was written; the watch has not shown the block on the Node yet
	reported               // the watch shows the blocks on the Node
)

func (n *node) place() *int { return &n.index }

// before reports whether n is older.
func (n *node) before(other *node) bool {
	return cmp.Or(cmp.Compare(n.created, other.created), strings.Compare(n.name, other.name)) < 0
}

// owner is one of the Nodes that own a block.
type owner struct {
	node *node
	next *owner
}

// New returns a Book without Nodes.
func New(pools []Pool) (*Book, error) {
	b := &Book{
		Rest:     DefaultRest,
		nodes:    map[string]*node{},
		owners:   map[netip.Prefix]*owner{},
		restOf:   map[string]*rest{},
		waiting:  map[string]*class{},
		full:     map[*class]struct{}{},
		faulty:   map[*node]struct{}{},
		clashing: map[*node]struct{}{},
	}
	if err := b.SetPools(pools); err != nil {
		return nil, err
	}
	return b, nil
}

// SetPools replaces the pools. Nodes keep their blocks. If a pool is invalid, SetPools
// changes nothing.
func (b *Book) SetPools(pools []Pool) error {
	names := map[string]bool{}
	var compiled []*pool
	for _, p := range pools {
		if err := p.Check(); err != nil {
			return err
		}
		if names[p.Name] {
			return fmt.Errorf("pool %.100q: exists twice; give each its own name", p.Name)
		}
		names[p.Name] = true
		compiled = append(compiled, compile(p))
	}
	b.pools = slices.SortedFunc(slices.Values(compiled), (*pool).compare)
	for i, p := range b.pools {
		p.index = i
	}
	b.waiting, b.ready, b.returned = map[string]*class{}, queue[*class]{}, queue[*node]{}
	clear(b.full)
	for _, n := range b.nodes {
		b.eachPool(n, (*ages).add)
		b.judge(n)
		if n.class != nil || n.returns {
			n.class, n.returns = nil, false
			b.wait(n)
		}
	}
	return nil
}

// Set records the current state of a Node. now never goes back.
func (b *Book) Set(say Node, now time.Time) {
	b.advance(now)
	n := b.nodes[say.Name]
	if n != nil && n.uid != say.UID {
		b.Delete(say.Name, now)
		n = nil
	}
	if n == nil {
		n = &node{name: strings.Clone(say.Name), uid: strings.Clone(say.UID), created: say.Created}
		b.nodes[n.name] = n
	}
	n.deleting = say.Deleting
	if len(say.CIDRs) == 0 && n.has != reported {
		b.waitAs(n, say.Labels)
		return
	}
	blocks, faults := read(say.CIDRs)
	if n.has == reported && len(say.CIDRs) > 0 && slices.Equal(blocks, n.blocks) && slices.Equal(faults, n.faults) {
		return
	}
	b.leave(n)
	n.has, n.faults, n.labels = reported, faults, nil
	b.replace(n, blocks)
	b.judge(n)
	if len(say.CIDRs) == 0 {
		n.has = none
		b.waitAs(n, say.Labels)
	}
}

// Delete removes a Node that was deleted. Its blocks rest.
func (b *Book) Delete(name string, now time.Time) {
	b.advance(now)
	n := b.nodes[name]
	if n == nil {
		return
	}
	b.leave(n)
	delete(b.nodes, name)
	b.replace(n, nil)
	delete(b.faulty, n)
	delete(b.clashing, n)
}

// replace replaces the blocks of n. Those that it loses rest.
func (b *Book) replace(n *node, blocks []netip.Prefix) {
	var gone []netip.Prefix
	for _, s := range blocks {
		if !slices.Contains(n.blocks, s) {
			b.own(n, s)
		}
	}
	for _, s := range n.blocks {
		if !slices.Contains(blocks, s) {
			b.disown(n, s)
			gone = append(gone, s)
		}
	}
	b.setBlocks(n, blocks)
	b.rest(n.name, gone)
}

// own makes n an owner of s.
func (b *Book) own(n *node, s netip.Prefix) {
	set := &b.taken[subnet.FamilyOf(s.Addr())]
	for other := range set.Overlapping(s) {
		for o := b.owners[other]; o != nil; o = o.next {
			switch {
			case o.node == n:
			case n.before(o.node):
				b.clashing[o.node] = struct{}{}
			default:
				b.clashing[n] = struct{}{}
			}
		}
	}
	set.Take(s)
	b.owners[s] = &owner{n, b.owners[s]}
}

// disown removes n from the owners of s. The block stays taken.
func (b *Book) disown(n *node, s netip.Prefix) {
	first := b.owners[s]
	for at := &first; *at != nil; at = &(*at).next {
		if (*at).node == n {
			*at = (*at).next
			break
		}
	}
	if first == nil {
		delete(b.owners, s)
	} else {
		b.owners[s] = first
	}
}

// free removes one use of s from the taken blocks. Without another use, s is free.
func (b *Book) free(s netip.Prefix) {
	b.taken[subnet.FamilyOf(s.Addr())].Free(s)
	b.retry()
}

// waitAs lets n wait for blocks, with these labels, unless it was granted some.
func (b *Book) waitAs(n *node, labels map[string]string) {
	waits := n.class != nil || n.returns
	if waits && !n.deleting && maps.Equal(n.labels, labels) {
		return
	}
	b.leave(n)
	n.labels = maps.Clone(labels)
	if n.has == none && !n.deleting {
		b.wait(n)
	}
}
