package ipam

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// seeded returns a random source, and logs its seed to repeat a failed test.
func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// pool4 returns a pool of IPv4 ranges.
func pool4(name string, bits int, ranges ...string) Pool {
	p := Pool{Name: name}
	p.Ranges[subnet.IPv4], p.Bits[subnet.IPv4] = prefixes(ranges...), bits
	return p
}

// with6 adds IPv6 ranges to p.
func (p Pool) with6(bits int, ranges ...string) Pool {
	p.Ranges[subnet.IPv6], p.Bits[subnet.IPv6] = prefixes(ranges...), bits
	return p
}

// labelled makes p the pool of the Nodes that have a label.
func (p Pool) labelled(keys ...string) Pool {
	var t Term
	for _, key := range keys {
		t.Labels = append(t.Labels, Requirement{Key: key, Operator: "Exists"})
	}
	p.Selector = &Selector{[]Term{t}}
	return p
}

// model is a Book by the plain rules, with lists and loops.
type model struct {
	pools []Pool
	nodes map[string]*modelNode
	rests []modelRest
	now   time.Time
}

type modelNode struct {
	Node
	granted []netip.Prefix
	tried   bool // to get what rests for it
}

type modelRest struct {
	name  string
	block netip.Prefix
	ends  time.Time
	when  int // which of the Node's lives
}

func (n *modelNode) blocks() []netip.Prefix {
	if len(n.CIDRs) == 0 {
		return n.granted
	}
	blocks, _ := read(n.CIDRs)
	return blocks
}

func (m *model) advance(now time.Time) {
	m.now = now
	m.rests = slices.DeleteFunc(m.rests, func(r modelRest) bool { return !r.ends.After(now) })
}

func (m *model) rest(name string, blocks []netip.Prefix) {
	if len(blocks) == 0 {
		return
	}
	life := 0
	for _, r := range m.rests {
		if r.name == name {
			life = max(life, r.when+1)
		}
	}
	m.rests = slices.DeleteFunc(m.rests, func(r modelRest) bool {
		return r.name == name && r.when == life-1 && slices.Contains(blocks, r.block)
	})
	for _, s := range blocks {
		m.rests = append(m.rests, modelRest{name, s, m.now.Add(DefaultRest), life})
	}
}

func (m *model) set(say Node, now time.Time) {
	m.advance(now)
	n := m.nodes[say.Name]
	if n != nil && n.UID != say.UID {
		m.delete(say.Name, now)
		n = nil
	}
	if n == nil {
		n = &modelNode{}
		m.nodes[say.Name] = n
	}
	before := n.blocks()
	n.tried = n.tried && maps.Equal(n.Labels, say.Labels)
	if len(say.CIDRs) > 0 || len(n.CIDRs) > 0 {
		n.granted, n.tried = nil, false
	}
	n.Node = say
	after := n.blocks()
	m.rest(say.Name, slices.DeleteFunc(slices.Clone(before), func(s netip.Prefix) bool { return slices.Contains(after, s) }))
}

func (m *model) delete(name string, now time.Time) {
	m.advance(now)
	if n := m.nodes[name]; n != nil {
		delete(m.nodes, name)
		m.rest(name, n.blocks())
	}
}

// free reports whether s is free, or would be if the Node of this name owned what
// rests for it.
func (m *model) free(s netip.Prefix, rested string) bool {
	for _, n := range m.nodes {
		if slices.ContainsFunc(n.blocks(), s.Overlaps) {
			return false
		}
	}
	for _, r := range m.rests {
		if s.Overlaps(r.block) && (r.name != rested || r.block != s) {
			return false
		}
	}
	return true
}

// usable reports whether new blocks of p may overlap s.
func usable(p Pool, s netip.Prefix) bool {
	f := subnet.FamilyOf(s.Addr())
	return slices.ContainsFunc(p.Ranges[f], func(r netip.Prefix) bool { return r.Bits() <= s.Bits() && r.Contains(s.Addr()) }) &&
		!slices.ContainsFunc(slices.Concat(p.Reserved, p.Draining), s.Overlaps)
}

// all returns the blocks of p.
func all(p Pool, f subnet.Family, bits int) (blocks []netip.Prefix) {
	for _, r := range p.Ranges[f] {
		sub := subnet.Pool{Network: r, SubnetLen: bits, Min: r.Addr()}
		for i := range uint64(1) << (bits - r.Bits()) {
			if s := sub.Subnet(i); !slices.Contains(blocks, s) {
				blocks = append(blocks, s)
			}
		}
	}
	slices.SortFunc(blocks, netip.Prefix.Compare)
	return blocks
}

// fit returns the free block of p in the smallest free range of a power of two.
func (m *model) fit(p Pool, f subnet.Family) (best netip.Prefix, ok bool) {
	smallest := -1
	for _, s := range all(p, f, p.Bits[f]) {
		hole := -1
		for up := s; usable(p, up) && m.free(up, ""); up = netip.PrefixFrom(up.Addr(), up.Bits()-1).Masked() {
			hole = up.Bits()
			if up.Bits() == 0 {
				break
			}
		}
		if hole > smallest {
			best, smallest = s, hole
		}
	}
	return best, smallest >= 0
}

func families(p Pool) (on []subnet.Family) {
	for _, f := range []subnet.Family{p.First, 1 - p.First} {
		if len(p.Ranges[f]) > 0 {
			on = append(on, f)
		}
	}
	return on
}

// poolsFor returns the pools that a Node may use. The model's pools are in the order
// of preference, those without a selector last.
func (m *model) poolsFor(n *modelNode) (pools []Pool) {
	for _, p := range m.pools {
		if p.Selector == nil {
			pools = append(pools, p)
		} else if _, ok := p.Selector.match(n.Name, n.Labels); ok {
			pools = append(pools, p)
		}
	}
	return pools
}

func (m *model) former(n *modelNode) (Grant, bool) {
	life := -1
	for _, r := range m.rests {
		if r.name == n.Name {
			life = max(life, r.when)
		}
	}
	for _, p := range m.poolsFor(n) {
		g := Grant{Node: n.Name, UID: n.UID, Pool: p.Name}
		any := false
		for _, f := range families(p) {
			i := slices.IndexFunc(m.rests, func(r modelRest) bool {
				return r.name == n.Name && r.when == life && subnet.FamilyOf(r.block.Addr()) == f
			})
			if i < 0 {
				if s, ok := m.fit(p, f); ok {
					g.CIDRs = append(g.CIDRs, s)
				}
				continue
			}
			s := m.rests[i].block
			alone := !slices.ContainsFunc(m.rests, func(r modelRest) bool {
				return r != m.rests[i] && r.block.Overlaps(s)
			})
			if s.Bits() == p.Bits[f] && usable(p, s) && m.free(s, n.Name) && alone {
				g.CIDRs, any = append(g.CIDRs, s), true
			}
		}
		if any && len(g.CIDRs) == len(families(p)) {
			return g, true
		}
	}
	return Grant{}, false
}

func (m *model) fresh(n *modelNode) (Grant, bool) {
next:
	for _, p := range m.poolsFor(n) {
		g := Grant{Node: n.Name, UID: n.UID, Pool: p.Name}
		for _, f := range families(p) {
			s, ok := m.fit(p, f)
			if !ok {
				continue next
			}
			g.CIDRs = append(g.CIDRs, s)
		}
		return g, true
	}
	return Grant{}, false
}

// next returns the grants that a Book must give. At first it gives Nodes what they
// had, then it gives the others what fits.
func (m *model) next(now time.Time, n int) (grants []Grant) {
	m.advance(now)
	for i, find := range []func(*modelNode) (Grant, bool){m.former, m.fresh} {
		for _, w := range m.waiting() {
			if len(grants) == n {
				return grants
			}
			if i == 0 && w.tried {
				continue
			}
			w.tried = true
			if g, ok := find(w); ok {
				w.granted = g.CIDRs
				grants = append(grants, g)
			}
		}
	}
	return grants
}

// waiting returns the Nodes that need blocks, the oldest first.
func (m *model) waiting() (nodes []*modelNode) {
	for _, n := range m.nodes {
		if len(n.CIDRs) == 0 && n.granted == nil && !n.Deleting {
			nodes = append(nodes, n)
		}
	}
	slices.SortFunc(nodes, func(a, b *modelNode) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), strings.Compare(a.Name, b.Name))
	})
	return nodes
}

// usage counts each block of a pool by looking at it.
func (m *model) usage(p Pool, f subnet.Family) string {
	counts := map[string]int{}
	for _, s := range all(p, f, p.Bits[f]) {
		owned := slices.ContainsFunc(slices.Collect(maps.Values(m.nodes)), func(n *modelNode) bool { return slices.ContainsFunc(n.blocks(), s.Overlaps) })
		switch {
		case slices.ContainsFunc(p.Reserved, s.Overlaps):
			counts["reserved"]++
		case owned:
			counts["used"]++
		case slices.ContainsFunc(p.Draining, s.Overlaps):
			counts["draining"]++
		case slices.ContainsFunc(m.rests, func(r modelRest) bool { return r.block.Overlaps(s) }):
			counts["resting"]++
		default:
			counts["free"]++
		}
		counts["total"]++
	}
	return fmt.Sprint(counts["total"], counts["used"], counts["free"], counts["resting"], counts["reserved"], counts["draining"])
}

// inUse reports whether a Node has a block that may come from p.
func (m *model) inUse(p Pool) bool {
	gave := func(p Pool, s netip.Prefix) bool {
		f := subnet.FamilyOf(s.Addr())
		return slices.Contains(all(p, f, p.Bits[f]), s)
	}
	for _, n := range m.nodes {
		for _, s := range n.blocks() {
			own, others := gave(p, s), slices.ContainsFunc(m.pools, func(other Pool) bool { return gave(other, s) })
			if own || !others && slices.ContainsFunc(p.Ranges[subnet.FamilyOf(s.Addr())], s.Overlaps) {
				return true
			}
		}
	}
	return false
}
