package route

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
)

// The kinds of objects in a cloud, as logs and plans name them.
const (
	routeKind    = "Route"
	instanceKind = "Instance"
)

// Plan implements controller.Controller: the ledger, and the Nodes' conditions.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	if n > 0 {
		if w, ok := c.writeLedger(now); ok {
			writes = append(writes, w)
		}
	}
	for _, name := range c.book.Touched() {
		if c.nodes[name] != nil {
			c.steps.Set(name, now)
		}
	}
	for len(writes) < n {
		name, due := c.steps.Pop(now)
		if !due {
			break
		}
		w, ok := c.planNotice(name, now, true)
		if !ok {
			w, ok = c.planCondition(c.nodes[name], now)
		}
		if !ok {
			w, ok = c.planNotice(name, now, false)
		}
		if ok {
			writes = append(writes, w)
		}
	}
	return writes, c.steps.Next()
}

// writeLedger returns the write of all entries that must precede changes of the cloud.
func (c *Controller) writeLedger(now time.Time) (w controller.Write, ok bool) {
	if c.writing != nil || !c.ledger.known || c.ledger.inFlight || c.ledger.failures > 0 {
		return w, false
	}
	entries := c.book.PlanLedger(now)
	if len(entries) == 0 {
		return w, false
	}
	c.writing = entries
	ledger, version, answer := c.options.Ledger, c.version, new(string)
	c.newVersion = answer
	return controller.Write{
		Controller: Name, Object: ledger.Ref(), Verb: controller.Patch, Summary: summary(entries),
		Do: func(ctx context.Context) error {
			var err error
			*answer, err = ledger.Write(ctx, version, entries)
			return err
		},
		After: afterOf(entries),
	}, true
}

// summary describes the entries of a write.
func summary(entries []cloudroute.Entry) string {
	ours, forgotten := 0, 0
	for _, e := range entries {
		if len(e.Routes) > 0 {
			ours++
		} else {
			forgotten++
		}
	}
	text := "note the routes of " + destinations(ours) + " as ours"
	switch {
	case ours == 0:
		text = "forget the routes of " + destinations(forgotten)
	case forgotten > 0:
		text += ", and forget those of " + destinations(forgotten)
	}
	return text
}

func destinations(n int) string {
	if n == 1 {
		return "1 destination"
	}
	return fmt.Sprint(n, " destinations")
}

// afterOf describes the first entries of a write, for a plan.
func afterOf(entries []cloudroute.Entry) (text string) {
	const most = 3
	for i, e := range entries {
		if i == most {
			return text + fmt.Sprintf("and %d more", len(entries)-most)
		}
		for _, o := range e.Routes {
			text += e.Destination.String() + " " + o.String() + "; "
		}
	}
	return strings.TrimSuffix(text, "; ")
}

// PlanCloud implements controller.CloudPlanner.
func (c *Controller) PlanCloud(now time.Time, n int) (writes []controller.Write, again time.Time) {
	changes, again := c.book.Next(now, n)
	for _, change := range changes {
		w := controller.Write{Controller: Name, Cloud: true, Summary: change.String(), Before: "none", After: change.Instance, Mark: change.Mark}
		w.Object, w.Verb = refOf(change), map[cloud.Verb]string{cloud.Add: controller.Create, cloud.Remove: controller.Delete}[change.Verb]
		to := c.options.Cloud
		w.Do = func(ctx context.Context) error {
			return to.ChangeRoutes(ctx, []cloud.RouteChange{change.RouteChange})[0]
		}
		switch change.Verb {
		case cloud.Replace:
			w.Verb, w.Before = controller.Patch, change.Was.String()
		case cloud.Remove:
			w.Before, w.After = change.Was.String(), "none"
		case cloudroute.Forward:
			of := c.options.Forwarding
			w.Verb, w.Before, w.After = controller.Patch, of.Is(false), of.Value(true)
			w.Summary = "switch " + of.Switch() + " of " + change.Instance
			w.Do = func(ctx context.Context) error {
				return to.Forward(ctx, cloud.Instance{ID: change.Instance, Interface: change.Interface})
			}
		}
		if change.Node != "" {
			w.Summary += " for " + change.Node
		}
		c.changes[w.Object.Name] = change
		writes = append(writes, w)
	}
	return writes, again
}

// refOf names the object that a change changes.
func refOf(c cloudroute.Change) controller.Ref {
	if c.Verb == cloudroute.Forward {
		return controller.Ref{Kind: instanceKind, Name: c.Instance}
	}
	return controller.Ref{Kind: routeKind, Name: c.Table + " " + c.Destination.String()}
}

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	now := time.Now()
	switch w.Object.Kind {
	case routeKind, instanceKind:
		c.changed(w, now, err)
	case c.options.Ledger.Ref().Kind:
		c.ledgerWritten(now, err)
	default:
		c.nodeWritten(w.Object, now, err)
	}
}

// ledgerWritten records the outcome of a write of the ledger. After a failure, the contents of
// the ledger are unknown until the next read.
func (c *Controller) ledgerWritten(now time.Time, err error) {
	c.writing = nil
	c.book.LedgerDone(err == nil, now)
	switch {
	case err == nil:
		c.version, c.unwritten = *c.newVersion, 0
	case err != controller.ErrNotMade:
		c.unwritten++
		c.ledger.known, c.ledger.due = false, now.Add(controller.Backoff(backoff, c.unwritten, err))
	}
}

// changed records the outcome of a change of the cloud.
func (c *Controller) changed(w controller.Write, now time.Time, err error) {
	change, ok := c.changes[w.Object.Name]
	if delete(c.changes, w.Object.Name); !ok {
		return
	}
	if err == controller.ErrNotMade {
		c.book.NotMade(change, now)
		return
	}
	c.book.Done(change, err, now)
	n := c.nodes[change.Node]
	if n != nil && err == nil && change.Verb == cloudroute.Forward {
		n.Target.Forwards = true
	}
	if n == nil || err == nil || change.Verb == cloud.Remove {
		return
	}
	if kind := cloud.KindOf(err); kind == cloud.Missing || kind == cloud.Refused {
		c.retryLookup(change.Node, now)
	}
	if kind := cloud.KindOf(err); kind != cloud.Full && kind != cloud.Throttled && kind != cloud.Pending {
		c.event(n, fmt.Sprintf("Could not create route %s %s for node %s after %s: %v", n.UID, change.Destination, n.Name, now.Sub(n.began).Round(time.Millisecond), err))
	}
}

// event sends a warning with the reason of cloud controller managers.
func (c *Controller) event(n *node, text string) {
	if c.options.Event != nil {
		c.options.Event(controller.Event{Object: c.options.Nodes.Ref(n.Node), Warning: true, Reason: "FailedToCreateRoute", Message: text})
	}
}
