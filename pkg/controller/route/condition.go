package route

import (
	"context"
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// The reasons of the condition NetworkUnavailable are those of cloud controller managers.
// Another program owns a condition with another reason.
const (
	routeCreated   = "RouteCreated"
	noRouteCreated = "NoRouteCreated"
)

// planCondition returns the write of a Node's condition that its Status requires, if any.
func (c *Controller) planCondition(n *node, now time.Time) (w controller.Write, ok bool) {
	if n == nil {
		return w, false
	}
	status := c.book.Status(n.Name)
	if c.waiting[n.Name] = true; status.Code == cloudroute.Routed {
		delete(c.waiting, n.Name)
	}
	switch status.Code {
	case cloudroute.Unknown, cloudroute.NoRange:
		n.unrouted = time.Time{}
		return w, false
	case cloudroute.Routed:
		n.unrouted = time.Time{}
		if isMissing := n.Condition == ""; isMissing || n.Condition != "False" && n.Reason == noRouteCreated {
			return c.setCondition(n, true)
		}
		return w, false
	case cloudroute.Blackhole:
		c.retryLookup(n.Name, now)
	}
	if n.unrouted.IsZero() {
		n.unrouted = now
	}
	if until := n.unrouted.Add(unroutedTime); now.Before(until) {
		c.steps.Set(n.Name, until)
		return w, false
	}
	if status.Code != cloudroute.Failing && status.Code != cloudroute.Pending { // Done reports each failure
		c.event(n, fmt.Sprintf("Could not create route for node %s: %s", n.Name, status.Text))
	}
	if n.Condition == "" || n.Condition == "False" && n.Reason == routeCreated {
		return c.setCondition(n, false)
	}
	return w, false
}

// setCondition returns the write of a Node's condition, unless one is in flight.
func (c *Controller) setCondition(n *node, routed bool) (w controller.Write, ok bool) {
	set := c.options.Nodes.SetCondition()
	if set == nil || c.inFlight[n.Name] {
		return w, false
	}
	c.inFlight[n.Name] = true
	v, to := n.Node, map[bool]string{true: "False", false: "True"}[routed]
	return controller.Write{
		Controller: Name, Object: c.options.Nodes.Ref(v), Verb: controller.Patch, Summary: "set NetworkUnavailable to " + to,
		Before: v.Condition, After: to, Do: func(ctx context.Context) error { return set(ctx, v, routed) },
	}, true
}

// nodeWritten records the outcome of a write of a condition or a notice. The watch may not have
// shown the write yet.
func (c *Controller) nodeWritten(of controller.Ref, now time.Time, err error) {
	delete(c.inFlight, of.Name)
	c.noticeDone(of.Name, err)
	n := c.nodes[of.Name]
	switch {
	case n == nil:
		if c.stored[of.Name] != "" { // the withdrawal failed, so the notice still exists
			c.steps.Set(of.Name, now.Add(settleTime))
		}
	case n.UID != of.UID || err == controller.ErrNotMade:
		c.steps.Set(of.Name, now)
	case err == nil || kube.Moved(err):
		n.failures = 0
		c.steps.Set(of.Name, now.Add(settleTime))
	default:
		n.failures++
		c.steps.Set(of.Name, now.Add(controller.Backoff(backoff, n.failures, err)))
	}
}
