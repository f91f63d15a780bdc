package lifecycle

import (
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
)

// The reasons of events. Cloud controller managers have the first two.
const (
	deletingNode   = "DeletingNode"
	deletingFailed = "DeletingNodeFailed"
	instanceGone   = "InstanceGone"
	heldBack       = "NodeDeletionHeldBack"
)

const (
	announceEvery = time.Second // the shortest time between two announcements
	remindEvery   = time.Minute // the longest one while there are verdicts
)

// announce sends an event for each Node whose instance is gone. The Engine limits them.
func (c *Controller) announce(all []verdict, now time.Time) (again time.Time) {
	if len(all) == 0 {
		return again
	}
	if due := c.announced.Add(announceEvery); now.Before(due) {
		return due
	}
	c.announced = now
	for _, v := range all {
		switch {
		case v.why == Observed:
			c.event(v.subject, false, instanceGone, v.text)
		case v.why.IsHeld() && c.judge.lasts(v, now):
			c.event(v.subject, true, heldBack, "the Node is not deleted: "+v.text)
		}
	}
	return now.Add(remindEvery)
}

// event sends an event about a Node.
func (c *Controller) event(s *subject, warning bool, reason, text string) {
	c.options.Event(controller.Event{Object: s.ref(), Warning: warning, Reason: reason, Message: text})
}

// Gone is a Node whose instance is gone.
type Gone struct {
	Node, ProviderID string
	State            cloud.State
	Since            time.Time
	Answers          int
	Why              Why
	Text             string
}

// Report is the state of the controller. It shares no memory with it.
type Report struct {
	// Unready are the Nodes that are not ready, and ShutDown those with the taint.
	Unready, ShutDown int
	// Gone are the Nodes whose instances are gone, in the order in which that was first
	// seen. They are unready, or another machine uses them.
	Gone []Gone
	// Deleted counts the unready Nodes that any program has deleted in the last hour.
	Deleted int
	// Asked is the time of the last round.
	Asked time.Time
	// Doubt is why the last round is not credible, or "".
	Doubt string
}

// Held counts the Nodes whose deletion waits for the decision of a person.
func (r Report) Held() (n int) {
	for _, g := range r.Gone {
		if g.Why.IsHeld() {
			n++
		}
	}
	return n
}

// Report returns the state of the controller. Call it in the Engine's loop.
func (c *Controller) Report(now time.Time) Report {
	r := Report{Asked: c.judge.last, Doubt: c.judge.doubt}
	for _, v := range c.judge.verdicts(now, 0) {
		g := Gone{Node: v.name, ProviderID: v.id, State: v.state, Since: v.since(), Why: v.why, Text: v.text}
		if v.gone != nil {
			g.Answers = v.gone.answers
		}
		r.Gone = append(r.Gone, g)
	}
	c.judge.outdate(now)
	r.Deleted = len(c.judge.deleted)
	for _, s := range c.judge.subjects {
		if !s.ready && !s.deleting {
			r.Unready++
		}
		if s.shutdown {
			r.ShutDown++
		}
	}
	return r
}
