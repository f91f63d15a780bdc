package cloudnode

import (
	"context"
	"maps"
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

// Cloud is the part of a cloud's client that the controller uses. If a method returns an error,
// the instances of keys that are missing from its result are unknown.
type Cloud interface {
	// Instances returns the instances of provider IDs.
	Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error)
	// Named returns the instances of Nodes that have no providerID, keyed by the Nodes'
	// names.
	Named(ctx context.Context, names []string) (map[string]cloud.Instance, error)
}

// Options are the settings of a Controller.
type Options struct {
	Client *kube.Client
	Cloud  Cloud
	// Refresh is the time between two comparisons of all Nodes with their instances.
	Refresh time.Duration
	// ZoneID is the cloud's own label for Instance.ZoneID, or "".
	ZoneID string
	// Topology, if set, knows the places of instances in the cloud's network. Layer is the
	// cloud's own label for the network nodes of a layer, without the layer's number.
	Topology Topology
	Layer    string
	// Event sends an event about a Node.
	Event func(controller.Event)
}

const (
	// freshTime is the maximum age of a cloud's answer when its facts are written to a Node.
	freshTime = time.Minute
	// settleTime is the time for which a Node's next write waits for the watch to show the
	// last one.
	settleTime = time.Second
)

// backoff paces the retries of failed writes of one Node.
var backoff = retry.Backoff{First: 200 * time.Millisecond, Last: time.Minute}

// Controller initialises Nodes. Only the Engine's loop uses it.
type Controller struct {
	options Options
	keys    map[string]string // the labels that it writes
	nodes   map[string]*node
	shares  shares

	reads     controller.Schedule // Nodes whose instances are looked up next
	lookingUp map[string][]string // the Nodes of each key that is being looked up
	began     time.Time           // when the Controller was made
	led       time.Time           // when the term began
	last      time.Time           // the last lookup
	refresh   time.Time           // when all Nodes are looked up again

	places places // the lookups of places in the network

	steps    controller.Schedule // Nodes that may need a write
	inFlight map[string]*flight  // the write in flight of each Node

	reports controller.Reports // of the findings
}

// flight is a write in flight.
type flight struct {
	uid    string
	answer kube.Version // the Node's state after it
}

// New returns a Controller, and adds it, its feed and its lookup to the Engine.
func New(e *controller.Engine, o Options) *Controller {
	c := &Controller{
		options: o, keys: make(map[string]string), nodes: make(map[string]*node), shares: make(shares),
		lookingUp: make(map[string][]string), inFlight: make(map[string]*flight), began: time.Now(), led: time.Now(),
		reads: controller.NewSchedule(), steps: controller.NewSchedule(), places: newPlaces(),
	}
	for _, pair := range pairs {
		c.keys[pair[0]], c.keys[pair[1]] = pair[0], pair[1]
	}
	if o.ZoneID != "" {
		c.keys[o.ZoneID] = o.ZoneID
	}
	if o.Topology != nil {
		top := layerLabel(o.Layer, 1)
		c.keys[top] = top
	}
	controller.Follow(e, controller.Feed[kube.Node, node]{
		What: "nodes", Client: o.Client, Path: kube.Nodes, Format: kube.WholeNode,
		Keep: c.keep, List: c.list, Set: c.set, Delete: c.remove,
	})
	controller.LookUp(e, controller.Lookup[cloud.Instance]{What: "instances of Nodes", Due: c.due, Read: c.read, Take: c.take})
	if o.Topology != nil {
		controller.LookUp(e, controller.Lookup[[]string]{
			What: "places of instances in the network", Due: c.duePlaces, Read: o.Topology.NetworkNodes, Take: c.takePlaces,
			More: func() bool { return len(c.lookingUp) > 0 },
		})
	}
	e.Add(c)
	return c
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Plan implements controller.Controller.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	reads, places := c.reads.Next(), c.places.due.Next()
	for len(writes) < n {
		name, due := c.steps.Pop(now)
		if !due {
			break
		}
		if w, ok := c.planNode(c.nodes[name], now); ok {
			writes = append(writes, w)
		}
	}
	again = controller.Earlier(c.announce(now), c.steps.Next())
	// The Engine looks up before it plans.
	if next := c.reads.Next(); next != reads {
		again = controller.Earlier(again, next)
	}
	if next := c.places.due.Next(); next != places {
		again = controller.Earlier(again, next)
	}
	return writes, again
}

// Lead implements controller.Controller. It drops earlier answers of the cloud, which may be
// old.
func (c *Controller) Lead(election.Term) {
	now := time.Now()
	c.lookingUp, c.inFlight, c.shares = make(map[string][]string), make(map[string]*flight), make(shares)
	c.places = newPlaces()
	c.reads, c.led, c.last, c.refresh = controller.NewSchedule(), now, time.Time{}, time.Time{}
	for name, n := range c.nodes {
		n.instance, n.answered, n.place, n.misses, n.failures = nil, time.Time{}, place{}, 0, 0
		c.requestLookup(n, now)
		c.steps.Set(name, now)
	}
}

// Clean implements controller.Controller. A late write contains earlier facts of the same Node.
// When the watch shows it, the controller writes the facts that have changed since.
func (c *Controller) Clean() bool { return true }

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	name, now := w.Object.Name, time.Now()
	f := c.inFlight[name]
	delete(c.inFlight, name)
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
		c.steps.Set(name, now.Add(controller.Backoff(backoff, n.failures, err)))
		if kube.OutcomeOf(err) == kube.Refused {
			c.event(n, updateFailed, "cannot "+w.Summary+": "+err.Error())
		}
	}
}

// planNode returns the write that a Node needs now, if any.
func (c *Controller) planNode(n *node, now time.Time) (w controller.Write, ok bool) {
	if _, busy := c.inFlight[n.name]; busy || n.deleting {
		return w, false
	}
	if n.revision < n.written && now.Before(n.settled) {
		c.steps.Set(n.name, n.settled) // the watch has yet to show the last write
		return w, false
	}
	fresh := n.isDescribed() && now.Sub(n.answered) < freshTime
	switch {
	case !n.tainted && !fresh:
		if l, err := c.pending(n, n.instance); err == nil && !l.isEmpty() && !c.reads.Has(n.name) {
			c.requestLookup(n, now) // writes have failed until the answer was too old
		}
		l, _ := c.pending(n, nil) // never an error without addresses
		return c.write(n, l)
	case n.tainted && !n.isDescribed():
		return w, false // a lookup is due
	case n.tainted && !fresh:
		if !c.reads.Has(n.name) { // do not shorten the back-off of failed lookups
			c.requestLookup(n, now)
		}
		return w, false
	case n.tainted && c.shares.holder(n, now) != nil:
		c.steps.Set(n.name, now.Add(lookupLast))
		return w, false
	case c.needsPlace(n):
		c.requestPlace(n, now)
		return w, false
	}
	l, err := c.pending(n, n.instance)
	switch {
	case err == nil && n.problem != "":
		n.problem, n.misses = "", 0
	case err != nil:
		n.problem = err.Error()
		if n.tainted {
			if !c.reads.Has(n.name) {
				c.retryLookup(n, now)
			}
			return w, false
		}
	}
	return c.write(n, l)
}

// pending returns the changes that a Node needs to match its instance. Without an instance, it
// returns those that follow from the Node itself.
func (c *Controller) pending(n *node, i *cloud.Instance) (change, error) {
	if !exists(i) {
		i = nil
	}
	switch {
	case !n.tainted:
		return later(n, i)
	case i == nil:
		return change{}, nil
	}
	l, err := initial(n, i, c.options.ZoneID)
	maps.Copy(l.labels, c.layersOf(n, i))
	return l, err
}

// isDescribed reports whether the cloud has described the Node's instance, and the instance
// exists.
func (n *node) isDescribed() bool { return exists(n.instance) }

func exists(i *cloud.Instance) bool {
	return i != nil && i.Problem == "" && i.State != cloud.Absent && !i.State.IsGone()
}
