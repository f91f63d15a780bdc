package nodeipam

import (
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/ipam"
)

// The reasons of events. kube-controller-manager has the first two.
const (
	notAvailable     = "CIDRNotAvailable"
	assignmentFailed = "CIDRAssignmentFailed"
	invalid          = "CIDRInvalid"
)

// invalidPool is the reason of events about objects that describe pools.
const invalidPool = "PoolInvalid"

// reportFindings sends an event for each finding, and for each problem with an object. It
// reports whether Nodes wait for a block. The Engine limits the events.
func (c *Controller) reportFindings() (waits bool) {
	for _, p := range c.problems() {
		if p.Object != (controller.Ref{}) {
			c.options.Event(controller.Event{Object: p.Object, Warning: true, Reason: invalidPool, Message: p.Text})
		}
	}
	for f := range c.book.Findings() {
		reason := invalid
		if f.Code.Waits() {
			reason, waits = notAvailable, true
		}
		c.options.Event(controller.Event{Object: ref(f.Node, f.UID), Warning: true, Reason: reason, Message: f.Text})
	}
	return waits
}

// event sends a warning about a Node.
func (c *Controller) event(n *node, reason, text string) {
	c.options.Event(controller.Event{Object: ref(n.Name, n.UID), Warning: true, Reason: reason, Message: text})
}

// Report is the state of the controller. It shares no memory with it.
type Report struct {
	Nodes int
	// Waiting are the Nodes without podCIDRs, except for those that are being deleted.
	Waiting int
	// Fences is how many Nodes must still be fenced before blocks are given out.
	Fences   int
	Retrying int
	Pools    []ipam.PoolUsage
	Problems []Problem
	Findings []ipam.Finding
}

// Progress returns how many Nodes wait for podCIDRs, and how many must still be fenced.
// It costs the same in a cluster of any size. Call it in the Engine's loop.
func (c *Controller) Progress() (waiting, fences int) { return c.unserved, c.fences }

// Report returns the state of the controller. It costs more the more Nodes have changed
// since the last call. Call it in the Engine's loop.
func (c *Controller) Report(now time.Time) Report {
	r := Report{
		Nodes: len(c.nodes), Waiting: c.unserved, Fences: c.fences, Retrying: len(c.waiting),
		Pools: c.book.Usage(now), Problems: c.problems(),
	}
	for f := range c.book.Findings() {
		r.Findings = append(r.Findings, f)
	}
	return r
}

// Layouts returns how the first pools and families are used, at most most of them, each
// in at most parts parts. Call it in the Engine's loop.
func (c *Controller) Layouts(now time.Time, most, parts int) []ipam.Layout {
	return c.book.Layouts(now, most, parts)
}
