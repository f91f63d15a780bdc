package ipam

import (
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// Code identifies the kind of a Finding, for programs. Codes never change.
type Code string

// The codes.
const (
	// A Node that waits for blocks:
	Exhausted Code = "exhausted" // no block is free
	Resting   Code = "resting"   // only resting blocks would be free
	NoPool    Code = "no-pool"   // no pool selects the Node

	// A Node's podCIDRs:
	Malformed  Code = "malformed"
	HostBits   Code = "host-bits"
	Mapped     Code = "ipv4-mapped"
	Duplicate  Code = "duplicate"
	TooMany    Code = "too-many"
	SameFamily Code = "same-family"
	Overlap    Code = "overlap"       // overlaps an older Node's
	Outside    Code = "outside"       // in no pool
	WholeRange Code = "whole-range"   // takes all blocks of a range
	InService  Code = "service-range" // in a range that services use
)

// Codes are all codes.
var Codes = []Code{Exhausted, Resting, NoPool, Malformed, HostBits, Mapped, Duplicate, TooMany, SameFamily, Overlap, Outside, WholeRange, InService}

// Finding is a fault of a Node's podCIDRs, or why a Node has none. It is only reported.
type Finding struct {
	Node, UID string
	Code      Code
	Text      string // what is wrong, with numbers, and the fix
	// The following are of a Node that waits: the first pool that it may use, the family
	// in which that pool has no free block, and when the rest of the next block ends.
	Pool   string
	Family subnet.Family
	Again  time.Time
}

// Waits reports whether the Node has no blocks.
func (c Code) Waits() bool { return c == Exhausted || c == Resting || c == NoPool }

// Findings yields all findings, in the order of the Nodes' names.
func (b *Book) Findings() iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		found := b.lacking()
		for n := range b.faulty {
			for _, f := range slices.Concat(n.faults, b.misplaced(n)) {
				found = append(found, Finding{Node: n.name, UID: n.uid, Code: f.code, Text: f.text})
			}
		}
		for n := range b.clashing {
			text := b.clash(n)
			if text == "" {
				delete(b.clashing, n)
				continue
			}
			found = append(found, Finding{Node: n.name, UID: n.uid, Code: Overlap, Text: text})
		}
		slices.SortStableFunc(found, func(a, b Finding) int { return strings.Compare(a.Node, b.Node) })
		for _, f := range found {
			if !yield(f) {
				return
			}
		}
	}
}

// judge records whether n has faults that do not depend on other Nodes.
func (b *Book) judge(n *node) {
	if len(n.faults) > 0 || len(b.misplaced(n)) > 0 {
		b.faulty[n] = struct{}{}
	} else {
		delete(b.faulty, n)
	}
}

// misplaced returns a fault for each block of n that no pool would grant.
func (b *Book) misplaced(n *node) (faults []fault) {
	if n.has != reported {
		return nil
	}
	for _, s := range n.blocks {
		say := func(code Code, format string, args ...any) {
			faults = append(faults, fault{code, fmt.Sprintf("podCIDR %s: "+format, append([]any{s}, args...)...) + recreate})
		}
		f, outside, service := subnet.FamilyOf(s.Addr()), true, netip.Prefix{}
		for _, p := range b.pools {
			for _, r := range p.ranges[f] {
				if !r.Overlaps(s) {
					continue
				}
				outside = false
				if s.Bits() <= r.Bits() && r.Bits() < p.Bits[f] {
					say(WholeRange, "takes all blocks of the range %s in pool %s; ", r, p.Name)
				}
				if i := slices.IndexFunc(p.Reserved, s.Overlaps); i >= 0 {
					service = p.Reserved[i]
				}
			}
		}
		if outside {
			say(Outside, "outside every pool; add a range that contains it, or ")
		}
		if service.IsValid() {
			say(InService, "overlaps the service range %s, so pods and services may get the same addresses; ", service)
		}
	}
	return faults
}

// mostOthers limits the count of Nodes with which a Node clashes.
const mostOthers = 100

// clash returns a text that names the overlapping blocks of older Nodes, with the fix, or "".
func (b *Book) clash(n *node) string {
	others, text := 0, ""
	for s, other := range b.older(n) {
		if others++; others == 1 {
			text = fmt.Sprintf("podCIDR %s: overlaps %s", s, other)
		}
		if others > mostOthers {
			break
		}
	}
	switch {
	case others == 0:
		return ""
	case others > mostOthers:
		text += fmt.Sprintf(" and more than %d others", mostOthers-1)
	case others > 1:
		text += fmt.Sprintf(" and %d more", others-1)
	}
	return text + "; delete and re-create this Node"
}

// older yields each block of n with the block of an older Node that it overlaps.
func (b *Book) older(n *node) iter.Seq2[netip.Prefix, string] {
	return func(yield func(netip.Prefix, string) bool) {
		for _, s := range n.blocks {
			for other := range b.taken[subnet.FamilyOf(s.Addr())].Overlapping(s) {
				for o := b.owners[other]; o != nil; o = o.next {
					if o.node.before(n) && !yield(s, fmt.Sprintf("%s of the older Node %s", other, o.node.name)) {
						return
					}
				}
			}
		}
	}
}

// lacking returns a Finding for each Node that found no block when it last tried.
func (b *Book) lacking() (found []Finding) {
	for c := range b.full {
		f := Finding{Code: NoPool, Text: "no pool selects the Node; change its labels or a pool's node selector"}
		if len(c.pools) > 0 {
			f = b.exhausted(c)
		}
		for _, n := range c.nodes.items {
			f.Node, f.UID = n.name, n.uid
			found = append(found, f)
		}
	}
	return found
}

// exhausted returns the Finding for the Nodes of c, which find no block. The caller adds the
// Node.
func (b *Book) exhausted(c *class) Finding {
	p := c.pools[0]
	_, family, _ := b.serve(p)
	u := b.measure(p, family)
	f := Finding{Code: Exhausted, Pool: p.Name, Family: family}
	text := fmt.Sprintf("pool %s has no free %s block of /%d: %s", p.Name, family, u.Bits, u.numbers())
	if more := len(c.pools) - 1; more > 0 {
		text += fmt.Sprintf("; the other pools that select the Node (%d) have none either", more)
	}
	for _, p := range c.pools {
		if at := b.serves(p); !at.IsZero() && (f.Again.IsZero() || at.Before(f.Again)) {
			f.Again = at
		}
	}
	if !f.Again.IsZero() {
		f.Code = Resting
		text += fmt.Sprintf("; the rest of the next block ends at %s", f.Again.UTC().Format(time.RFC3339))
	}
	grow := p.Grow
	if grow == "" {
		grow = "add a range to the pool"
	}
	f.Text = text + "; " + grow + ", or delete Nodes that are not needed"
	return f
}

// numbers returns a text with the number of blocks in each use.
func (u *PoolUsage) numbers() string {
	text := fmt.Sprintf("%d of %d used, %d free, %d resting, %d reserved by service ranges", u.Used, u.Total, u.Free, u.Resting, u.Reserved)
	if u.Draining > 0 {
		text += fmt.Sprintf(", %d draining", u.Draining)
	}
	if u.Largest > u.Bits {
		text += fmt.Sprintf(", the largest hole is a /%d", u.Largest)
	}
	return text
}

// serves returns when enough rests have ended for a pool without a free block to serve a
// Node. It returns zero if the resting blocks are not enough.
func (b *Book) serves(p *pool) (at time.Time) {
	ended := 0
	for _, r := range b.rests {
		ended++
		b.eachOf(r, func(set *subnet.Set, s netip.Prefix) { set.Free(s) })
		if !slices.ContainsFunc(r.blocks, p.overlaps) {
			continue
		}
		if _, _, ok := b.serve(p); ok {
			at = r.ends
			break
		}
	}
	for _, r := range b.rests[:ended] {
		b.eachOf(r, (*subnet.Set).Take)
	}
	return at
}
