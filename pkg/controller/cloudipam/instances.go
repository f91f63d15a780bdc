package cloudipam

import (
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// due returns the instances to look up now.
func (c *Controller) due(now time.Time) (ids []string, again time.Time) {
	for {
		name, due := c.reads.Pop(now)
		if !due {
			break
		}
		if n := c.nodes[name]; c.needs(n) {
			if c.asked[n.id] == nil {
				ids = append(ids, n.id)
			}
			c.asked[n.id] = append(c.asked[n.id], name)
		}
	}
	slices.Sort(ids)
	return ids, c.reads.Next()
}

// take records the instances that a lookup found.
func (c *Controller) take(ids []string, found map[string]cloud.Instance) {
	now, asked := time.Now(), c.asked
	c.asked = make(map[string][]string)
	for _, id := range ids {
		v, answered := found[id]
		for _, name := range asked[id] {
			n := c.nodes[name]
			if n == nil || n.id != id {
				continue
			}
			if answered {
				n.instance = &v
			}
			switch {
			case !answered || c.lacks(n):
				n.fruitless++
				c.reads.Set(name, now.Add(lookups.After(n.fruitless)))
			default:
				n.fruitless = 0
				c.reads.Set(name, now.Add(verifyInterval)) // due skips the Node if it needs no lookup by then
			}
			c.enter(n, now)
		}
	}
}

// lacks reports whether the instance of a Node is unusable, or lacks a range that the cloud
// must assign.
func (c *Controller) lacks(n *node) bool {
	return !n.isKnown() || c.options.Mode != FromCluster && c.ranges(n) == nil
}

// again schedules another lookup of a Node's instance after a failure.
func (c *Controller) again(n *node, now time.Time) {
	n.failures++
	n.instance = nil
	c.reads.Set(n.name, now.Add(backoff.After(n.failures)))
}

// grant records the block that the Book has granted to a Node.
func (c *Controller) grant(g ipam.Grant, now time.Time) {
	c.nodes[g.Node].granted = g.CIDRs[0]
	c.steps.Set(g.Node, now)
}

// ungrant returns a Node's granted block to the Book.
func (c *Controller) ungrant(n *node) {
	if n.granted.IsValid() {
		n.granted = netip.Prefix{}
		c.book.Settle(n.name, n.uid, ipam.Refused)
	}
}

// changeFor returns the change that adds a range to a Node's instance. If an equal change may
// have been made, it repeats that one's request ID.
func (c *Controller) changeFor(n *node, add netip.Prefix) cloud.Change {
	change := cloud.Change{ID: n.id, Version: n.instance.Version, Add: cloud.Alias{Range: add, From: c.options.Secondary}, Request: n.last.Request}
	if change != n.last {
		change.Request = newRequest()
	}
	return change
}

// newRequest returns a random UUID.
func newRequest() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// added records the outcome of a change.
func (c *Controller) added(n *node, change cloud.Change, now time.Time, err error) {
	n.last = cloud.Change{}
	if err == nil {
		n.failures = 0
		if n.instance != nil {
			known := *n.instance
			known.Aliases, known.Version = append(slices.Clone(known.Aliases), change.Add), ""
			n.instance = &known
		}
		c.book.Settle(n.name, n.uid, ipam.Written)
		c.enter(n, now)
		return
	}
	switch kind := cloud.KindOf(err); {
	case !kind.IsFinal():
		n.last = change
		c.again(n, now)
	case kind == cloud.Changed, kind == cloud.Missing:
		c.again(n, now)
	case kind == cloud.Taken && n.granted.IsValid():
		c.event(n, assignmentFailed, fmt.Sprintf("cannot add the alias range %s: %s; trying another block", change.Add.Range, err))
		c.ungrant(n)
		c.avoided[change.Add.Range] = now.Add(avoidTime)
		_ = c.setPool()
		c.enter(n, now)
	default:
		n.failures++
		c.steps.Set(n.name, now.Add(backoff.After(n.failures)))
		c.event(n, assignmentFailed, fmt.Sprintf("cannot add the alias range %s: %s", change.Add.Range, err))
	}
}

// endAvoiding returns avoided blocks to the pool when their time is over. It returns when the
// next time ends.
func (c *Controller) endAvoiding(now time.Time) (again time.Time) {
	ended := false
	for s, until := range c.avoided {
		if until.After(now) {
			again = controller.Earlier(again, until)
			continue
		}
		delete(c.avoided, s)
		ended = true
	}
	if ended {
		_ = c.setPool()
	}
	return again
}
