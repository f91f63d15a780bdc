package nodeipam

import (
	"maps"
	"time"
)

// Nodes and pools have separate watches, so a Node may be read before a pool that was
// created earlier. With Options.Hold, a Node gets nothing until the pools as of its
// creation are known.

// hold sets from which revision the pools must be known for a Node: the one at which the
// Node was first read with its labels. It records whether they are.
func (c *Controller) hold(n, old *node) {
	delete(c.held, n.Name)
	if !c.options.Hold || len(n.CIDRs) > 0 || n.Deleting {
		return
	}
	n.since = n.revision
	if old != nil && old.UID == n.UID && len(old.CIDRs) == 0 && maps.Equal(old.Labels, n.Labels) {
		n.since = old.since
	}
	if n.since > c.known {
		c.held[n.Name] = struct{}{}
		c.heldTo = max(c.heldTo, n.since)
	}
}

// Held returns a revision as of which the pools must be known before the Nodes that are
// held back get blocks, or 0. It may be that of a Node that is no longer held back while
// others are. It costs the same however many these are. Call it in the Engine's loop.
func (c *Controller) Held() (revision int64) {
	if len(c.held) == 0 {
		c.heldTo = 0
	}
	return c.heldTo
}

// Known reports that the pools as of a revision are known, so Nodes that were created
// before get blocks. Call it in the Engine's loop.
func (c *Controller) Known(revision int64) {
	c.known = max(c.known, revision)
	for name := range c.held {
		if n := c.nodes[name]; n.since <= c.known {
			delete(c.held, name)
			c.book.Set(n.Node, time.Now())
		}
	}
}
