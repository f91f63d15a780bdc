package cloudnode

import (
	"context"
	"strconv"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Name is the controller's name, as in cloud controller managers.
const Name = "cloud-node-controller"

// Cloud is what the controller needs of a cloud. With an error, keys that are missing in a
// map are unknown.
type Cloud interface {
	// Instances returns what the cloud says about each instance, by its provider ID.
	Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error)
	// Named returns the instances of Nodes that have no providerID, by the Node's name.
	Named(ctx context.Context, names []string) (map[string]cloud.Instance, error)
}

// Options are what a Controller needs.
type Options struct {
	Client *kube.Client
	Cloud  Cloud
	// Refresh is how often all Nodes are compared with their instances.
	Refresh time.Duration
	// ZoneID is the cloud's own label for Instance.ZoneID, or "".
	ZoneID string
	// Event sends an event about a Node.
	Event func(controller.Event)
}

const (
	// freshTime limits the age of an answer of the cloud that is written to a Node.
	freshTime = time.Minute
	// settleTime is how long a Node's write waits for the watch to show the last one.
	settleTime = time.Second
)

// backoff paces the writes of one Node that fail.
var backoff = retry.Backoff{First: 200 * time.Millisecond, Last: time.Minute}

// Controller initialises Nodes. Only the Engine's loop uses it.
type Controller struct {
	options Options
	keys    map[string]string // the labels that it writes
	nodes   map[string]*node
	shares  shares

	reads   controller.Schedule // Nodes whose instances are looked up next
	asked   map[string][]string // the Nodes of each key that is being looked up
	began   time.Time           // when the Controller was made
	led     time.Time           // when the term began
	last    time.Time           // the last lookup
	refresh time.Time           // when all Nodes are looked up again

	steps  controller.Schedule // Nodes that may need a write
	flying map[string]*flight  // the write in flight of each Node

	reports controller.Reports // of the findings
}

// flight is a write in flight.
type flight struct {
	uid    string
	answer kube.Version // the Node's state after it
}

// New returns a Controller, and adds it to the Engine with what it reads.
func New(e *controller.Engine, o Options) *Controller {
	c := &Controller{
		options: o, keys: make(map[string]string), nodes: make(map[string]*node), shares: make(shares),
		asked: make(map[string][]string), flying: make(map[string]*flight), began: time.Now(), led: time.Now(),
		reads: controller.NewSchedule(), steps: controller.NewSchedule(),
	}
	for _, pair := range pairs {
		c.keys[pair[0]], c.keys[pair[1]] = pair[0], pair[1]
	}
	if o.ZoneID != "" {
		c.keys[o.ZoneID] = o.ZoneID
	}
	controller.Follow(e, controller.Feed[kube.Node, node]{
		What: "nodes", Client: o.Client, Path: kube.Nodes, Format: kube.WholeNode,
		Keep: c.keep, List: c.list, Set: c.set, Delete: c.remove,
	})
	controller.LookUp(e, controller.Lookup[cloud.Instance]{What: "instances of Nodes", Due: c.due, Read: c.read, Take: c.take})
	e.Add(c)
	return c
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Plan implements controller.Controller.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	reads := c.reads.Next()
	for len(writes) < n {
		name, due := c.steps.Pop(now)
		if !due {
			break
		}
		if w, ok := c.step(c.nodes[name], now); ok {
			writes = append(writes, w)
		}
	}
	again = controller.Earlier(c.announce(now), c.steps.Next())
	if next := c.reads.Next(); next != reads {
		again = controller.Earlier(again, next) // the Engine looks up before it plans
	}
	return writes, again
}

// Lead implements controller.Controller. The last answers of the cloud may be old.
func (c *Controller) Lead(election.Term) {
	now := time.Now()
	c.asked, c.flying, c.shares = make(map[string][]string), make(map[string]*flight), make(shares)
	c.reads, c.led, c.last, c.refresh = controller.NewSchedule(), now, time.Time{}, time.Time{}
	for name, n := range c.nodes {
		n.instance, n.answered, n.fruitless, n.failures = nil, time.Time{}, 0, 0
		c.ask(n, now)
		c.steps.Set(name, now)
	}
}

// Clean implements controller.Controller. A late write repeats what the cloud said of the
// same Node. When the watch shows it, the controller writes what has changed since.
func (c *Controller) Clean() bool { return true }

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	name, now := w.Object.Name, time.Now()
	f := c.flying[name]
	delete(c.flying, name)
	n := c.nodes[name]
	switch {
	case n == nil:
	case n.uid != f.uid, err == controller.ErrNotMade:
		c.steps.Set(name, now)
	case err == nil:
		n.failures, n.settled = 0, now.Add(settleTime)
		n.written, _ = strconv.ParseInt(f.answer.ResourceVersion, 10, 64)
		c.steps.Set(name, n.settled)
	case kube.Moved(err):
		// The watch has yet to show how the Node has changed.
		c.steps.Set(name, now.Add(settleTime))
	default:
		n.failures++
		c.steps.Set(name, now.Add(backoff.After(n.failures)))
		if kube.OutcomeOf(err) == kube.Refused {
			c.event(n, updateFailed, "cannot "+w.Summary+": "+err.Error())
		}
	}
}

// step returns the write that a Node needs now, if there is one.
func (c *Controller) step(n *node, now time.Time) (w controller.Write, ok bool) {
	if _, flies := c.flying[n.name]; flies || n.deleting {
		return w, false
	}
	if n.revision < n.written && now.Before(n.settled) {
		c.steps.Set(n.name, n.settled) // the watch has yet to show the last write
		return w, false
	}
	fresh := n.isDescribed() && now.Sub(n.answered) < freshTime
	switch {
	case !n.waits && !fresh:
		if l, err := c.lack(n, n.instance); err == nil && !l.isEmpty() && !c.reads.Has(n.name) {
			c.ask(n, now) // the write has failed until the answer was old
		}
		l, _ := c.lack(n, nil) // never an error without addresses
		return c.write(n, l)
	case n.waits && !n.isDescribed():
		return w, false // a lookup is due
	case n.waits && !fresh:
		if !c.reads.Has(n.name) { // the back-off of lookups that fail stays
			c.ask(n, now)
		}
		return w, false
	case n.waits && c.shares.holder(n, now) != nil:
		c.steps.Set(n.name, now.Add(lookupLast))
		return w, false
	}
	l, err := c.lack(n, n.instance)
	switch {
	case err == nil && n.problem != "":
		n.problem, n.fruitless = "", 0
	case err != nil:
		n.problem = err.Error()
		if n.waits {
			if !c.reads.Has(n.name) {
				c.fruitlessly(n, now)
			}
			return w, false
		}
	}
	return c.write(n, l)
}

// lack returns what a Node lacks compared with its instance. Without an instance, it
// returns what the Node itself shows.
func (c *Controller) lack(n *node, i *cloud.Instance) (change, error) {
	if !isThere(i) {
		i = nil
	}
	switch {
	case !n.waits:
		return later(n, i)
	case i == nil:
		return change{}, nil
	}
	return initial(n, i, c.options.ZoneID)
}

// isDescribed reports whether the cloud has described the Node's instance, and the instance
// exists.
func (n *node) isDescribed() bool { return isThere(n.instance) }

func isThere(i *cloud.Instance) bool {
	return i != nil && i.Problem == "" && i.State != cloud.Absent && !i.State.IsGone()
}
