package ipam

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// cluster is a Book and its model, and what an API server would hold.
type cluster struct {
	t      *testing.T
	rnd    *rand.Rand
	book   *Book
	model  *model
	now    time.Time
	nodes  map[string]*Node // as the server has them
	flight []Grant          // writes that may still land
	uids   int
	log    []string
}

// pools returns random pools, in the order in which Nodes prefer them.
func (c *cluster) pools() []Pool {
	v4, v6 := []string{"10.0.0.0/27", "10.0.0.64/28"}, []string{"fd00::/123", "fd00::40/124"}
	random := func(name string, at int) Pool {
		p := pool4(name, 29+c.rnd.IntN(2), v4[at])
		if c.rnd.IntN(3) > 0 {
			p = p.with6(125+c.rnd.IntN(2), v6[at])
		}
		p.First = subnet.Family(c.rnd.IntN(2))
		if c.rnd.IntN(3) == 0 {
			p.Reserved = prefixes("10.0.0.16/29", "fd00::8/126")
		}
		if c.rnd.IntN(4) == 0 {
			p.Draining = prefixes("10.0.0.0/29", "fd00::/125")
		}
		return p
	}
	first, second := random("a", c.rnd.IntN(2)), random("b", 0)
	if c.rnd.IntN(3) == 0 {
		first.Ranges[subnet.IPv4] = prefixes("10.0.0.0/28", "10.0.0.64/28")
	}
	return []Pool{first.labelled("a"), second}
}

// garbage are podCIDRs that no program should write.
var garbage = [][]string{
	{"10.0.0.0/26"}, {"10.0.0.5/29"}, {"::ffff:10.0.0.8/125"}, {"nonsense"}, {""}, {"10.0.0.0/29", "10.0.0.0/29"},
	{"10.0.0.0/30", "10.0.0.8/30", "fd00::/126"}, {"172.16.0.0/24"}, {"0.0.0.0/0"}, {"010.0.0.016/30"}, {"fd00::/64"}, {"10.0.0.4/30", "10.0.0.0/29"},
}

// show hands the Book what the server has of a Node.
func (c *cluster) show(name string) {
	n := c.nodes[name]
	if n == nil {
		c.logf("deleted %s", name)
		c.book.Delete(name, c.now)
		c.model.delete(name, c.now)
		return
	}
	c.logf("shown %+v", *n)
	c.book.Set(*n, c.now)
	c.model.set(*n, c.now)
}

func (c *cluster) logf(format string, args ...any) {
	c.log = append(c.log, fmt.Sprintf(format, args...))
}

// land writes a grant, if the server accepts it.
func (c *cluster) land(g Grant) bool {
	n := c.nodes[g.Node]
	if n == nil || n.UID != g.UID || len(n.CIDRs) > 0 {
		return false
	}
	for _, s := range g.CIDRs {
		n.CIDRs = append(n.CIDRs, s.String())
	}
	return true
}

func (c *cluster) refuse(g Grant) {
	c.logf("refused %s", g.Node)
	c.book.Settle(g.Node, g.UID, Refused)
	if n := c.model.nodes[g.Node]; n != nil && n.UID == g.UID && len(n.CIDRs) == 0 {
		n.granted, n.tried = nil, false
	}
}

func (c *cluster) step() {
	name := fmt.Sprintf("n%02d", c.rnd.IntN(14))
	n := c.nodes[name]
	switch op := c.rnd.IntN(24); {
	case op < 7: // A Node comes, or changes its labels.
		if n == nil {
			c.uids++
			n = &Node{Name: name, UID: fmt.Sprint("uid", c.uids), Created: int64(c.rnd.IntN(5))}
			c.nodes[name] = n
		}
		n.Labels = nil
		if c.rnd.IntN(2) == 0 {
			n.Labels = map[string]string{"a": ""}
		}
	case op == 7 && n != nil && len(n.CIDRs) == 0: // Another program writes.
		n.CIDRs = garbage[c.rnd.IntN(len(garbage))]
	case op == 8 && n != nil: // A finalizer holds it.
		n.Deleting = true
	case op < 12:
		delete(c.nodes, name)
	case op == 12: // Gone and back before the watch has shown it.
		if n != nil {
			c.uids++
			c.nodes[name] = &Node{Name: name, UID: fmt.Sprint("uid", c.uids), Created: n.Created + 1}
		}
	case op == 13 && n != nil && c.rnd.IntN(3) == 0: // The server is restored from a backup.
		n.CIDRs = nil
		c.flight = slices.DeleteFunc(c.flight, func(g Grant) bool { return g.UID == n.UID })
	case op == 13:
		pools := c.pools()
		if err := c.book.SetPools(pools); err != nil {
			c.t.Fatal(err)
		}
		c.model.pools = pools
		for _, n := range c.model.nodes {
			n.tried = false
		}
		c.logf("pools %+v", pools)
	case op < 16:
		c.now = c.now.Add(time.Duration(c.rnd.IntN(40)) * time.Second)
		c.logf("now %v", c.now)
	case op < 20:
		c.next(c.rnd.IntN(4))
		return
	default: // A write ends, in one way or another, or its answer is lost.
		if len(c.flight) == 0 {
			return
		}
		i := c.rnd.IntN(len(c.flight))
		g := c.flight[i]
		switch c.rnd.IntN(4) {
		case 0:
			c.logf("ambiguous %s", g.Node)
			c.book.Settle(g.Node, g.UID, Ambiguous)
			return // It may land later.
		case 1:
			c.refuse(g)
		default:
			if c.land(g) {
				c.logf("written %v", g)
				c.book.Settle(g.Node, g.UID, Written)
				if c.rnd.IntN(2) == 0 {
					c.book.Settle(g.Node, g.UID, Refused) // too late
				}
			} else {
				c.refuse(g)
			}
		}
		c.flight = slices.Delete(c.flight, i, i+1)
		return
	}
	c.show(name)
}

func (c *cluster) next(n int) {
	got, again := c.book.Next(c.now, n)
	want := c.model.next(c.now, n)
	c.logf("granted %v, again %v", got, again)
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		c.fail("granted %v, want %v", got, want)
	}
	c.flight = append(c.flight, got...)
	if len(got) < n && len(c.model.waiting()) > 0 && len(c.model.rests) > 0 && !again.After(c.now) {
		c.fail("blocks rest, but Next is to be asked again at %v", again)
	}
	if !again.IsZero() && len(c.model.rests) == 0 {
		c.fail("nothing rests, but Next is to be asked again at %v", again)
	}
}

func (c *cluster) fail(format string, args ...any) {
	c.t.Helper()
	for _, line := range c.log[max(0, len(c.log)-60):] {
		c.t.Log(line)
	}
	c.t.Fatalf(format, args...)
}

// check compares what holds at any time.
func (c *cluster) check() {
	c.t.Helper()
	// Only Nodes themselves can make two owners of one block.
	type owned struct {
		name  string
		block netip.Prefix
		said  bool
	}
	var blocks []owned
	for name, n := range c.model.nodes {
		for _, s := range n.blocks() {
			blocks = append(blocks, owned{name, s, len(n.CIDRs) > 0})
		}
	}
	for i, a := range blocks {
		for _, b := range blocks[:i] {
			if a.name != b.name && a.block.Overlaps(b.block) && !a.said && !b.said {
				c.fail("%v and %v", a, b)
			}
		}
	}
	usage := c.book.Usage(c.now)
	layouts := c.book.Layouts(c.now, len(usage), 1+c.rnd.IntN(40))
	for at, u := range usage {
		if sum := sumOf(layouts[at]); layouts[at].Left == 0 && sum != (Part{u.Used, u.Free, u.Resting, u.Reserved, u.Draining}) {
			c.fail("the parts %+v add up to %+v, not to %+v", layouts[at], sum, u)
		}
		c.model.advance(c.now)
		i := slices.IndexFunc(c.model.pools, func(p Pool) bool { return p.Name == u.Pool })
		got := fmt.Sprint(u.Total, u.Used, u.Free, u.Resting, u.Reserved, u.Draining)
		if want := c.model.usage(c.model.pools[i], u.Family); got != want {
			c.fail("pool %s, %s: total, used, free, resting, reserved, draining %s, want %s", u.Pool, u.Family, got, want)
		}
		if u.Used+u.Free+u.Resting+u.Reserved+u.Draining != u.Total {
			c.fail("%+v does not add up", u)
		}
	}
	for _, p := range c.model.pools {
		if got, want := c.book.InUse(p.Name), c.model.inUse(p); got != want {
			c.fail("pool %s is in use: %v, want %v", p.Name, got, want)
		}
	}
	c.checkFindings()
}

func (c *cluster) checkFindings() {
	c.t.Helper()
	lacking, overlapping := map[string]bool{}, map[string]bool{}
	for f := range c.book.Findings() {
		n := c.model.nodes[f.Node]
		switch {
		case n == nil || n.UID != f.UID:
			c.fail("found %+v of no Node", f)
		case f.Text == "" || !slices.Contains(Codes, f.Code):
			c.fail("found %+v", f)
		case f.Code == Overlap:
			overlapping[f.Node] = true
		case f.Code.Waits():
			lacking[f.Node] = true
			if len(n.blocks()) > 0 || n.Deleting || len(n.CIDRs) > 0 {
				c.fail("%+v, but it has %v", f, n.blocks())
			}
			if now, then := c.servedAfter(n, f.Again); f.Code != NoPool && (now || then != (f.Code == Resting) || then == f.Again.IsZero()) {
				c.fail("%+v, but it could be served now: %v, then: %v", f, now, then)
			}
		case len(n.CIDRs) == 0:
			c.fail("%+v, but it has no podCIDR", f)
		}
	}
	for name, n := range c.model.nodes {
		want := false
		for other, o := range c.model.nodes {
			older := o.Created < n.Created || o.Created == n.Created && other < name
			for _, s := range n.blocks() {
				want = want || older && slices.ContainsFunc(o.blocks(), s.Overlaps)
			}
		}
		if overlapping[name] != want {
			c.fail("%s overlaps an older Node: %v, want %v", name, overlapping[name], want)
		}
	}
}

// servedAfter reports whether a Node could get new blocks when no rest has ended, and
// when those have that end until then, or all if then is zero.
func (c *cluster) servedAfter(n *modelNode, then time.Time) (before, after bool) {
	m := *c.model
	_, before = m.fresh(n)
	m.rests = slices.DeleteFunc(slices.Clone(m.rests), func(r modelRest) bool { return then.IsZero() || !r.ends.After(then) })
	_, after = m.fresh(n)
	return before, after
}

// TestBookAgreesWithPlainRules drives a Book and a model of lists and loops with
// random operations: Nodes that come, go, stay as long as a finalizer holds them, come
// back, or say garbage; pools that change; writes that land, fail, land late or are
// never answered; and time.
func TestBookAgreesWithPlainRules(t *testing.T) {
	rnd := seeded(t)
	for range 8 {
		c := &cluster{t: t, rnd: rnd, now: time.Unix(1_000_000, 0), nodes: map[string]*Node{}}
		pools := c.pools()
		book, err := New(pools)
		if err != nil {
			t.Fatal(err)
		}
		c.logf("pools %+v", pools)
		c.book, c.model = book, &model{pools: pools, nodes: map[string]*modelNode{}, now: c.now}
		for range 300 {
			c.step()
			c.check()
		}
		c.settle()
	}
}

// settle ends all writes, deletes all Nodes and lets everything rest: then everything
// is free.
func (c *cluster) settle() {
	for name := range c.model.nodes {
		delete(c.nodes, name)
		c.show(name)
	}
	c.now = c.now.Add(DefaultRest)
	for _, u := range c.book.Usage(c.now) {
		if u.Used+u.Resting > 0 || u.Free+u.Reserved+u.Draining != u.Total || u.Fragmentation != 0 {
			c.fail("all Nodes have gone, and %+v", u)
		}
	}
	b := c.book
	if left := len(b.nodes) + len(b.owners) + len(b.rests) + len(b.restOf) + len(b.waiting) + len(b.ready.items) + len(b.returned.items) + len(b.full) + len(b.faulty); left > 0 || b.taken != (subnet.Pair[subnet.Set]{}) {
		c.fail("all Nodes have gone, and %+v is left", b)
	}
}
