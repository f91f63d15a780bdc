package cloudipam

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

// Mode is who assigns ranges to instances.
type Mode int

// The modes.
const (
	// CloudAllocator: the cloud assigns them. The controller looks up only the instances of
	// Nodes that lack podCIDRs or a route.
	CloudAllocator Mode = iota
	// FromCloud: the cloud assigns them. The controller compares all instances with their
	// Nodes periodically.
	FromCloud
	// FromCluster: the controller assigns them from Options.Pool.
	FromCluster
)

// Cloud is what the controller needs of a cloud.
type Cloud interface {
	// Instances returns instances by their provider IDs. With an error, the missing ones
	// could not be read.
	Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error)
	// AddAlias adds an alias to an instance, and waits until the cloud has done it.
	AddAlias(ctx context.Context, change cloud.Change) error
}

// Options are what a Controller needs.
type Options struct {
	Client *kube.Client
	Cloud  Cloud
	Mode   Mode
	// Families are the families of a Node's podCIDRs, in their order.
	Families []subnet.Family
	// Pool limits the ranges; nil allows any. FromCluster needs a pool, of IPv4 only.
	Pool *ipam.Pool
	// Services are ranges that FromCluster assigns to no Node, in addition to those of the
	// ServiceCIDRs.
	Services []netip.Prefix
	// Rest is how long FromCluster lets a block rest after the deletion of its Node.
	Rest time.Duration
	// Secondary names the secondary range that aliases are taken from. If it is empty,
	// CloudAllocator and FromCloud accept any range, and FromCluster uses the primary one.
	Secondary string
	// Event sends an event about a Node.
	Event func(controller.Event)
}

const (
	// verifyInterval is how often instances are compared with their Nodes; with
	// CloudAllocator, only while a Node lacks podCIDRs or a route.
	verifyInterval = 5 * time.Minute
	// settleTime is how long the next write of a Node waits for the watch to show the last
	// one.
	settleTime = time.Second
	// changeLimit is the timeout of a change of an instance, including its wait for the
	// cloud's limits.
	changeLimit = time.Minute
	// avoidTime is how long the controller avoids a block after the cloud has reported it
	// as in use.
	avoidTime = 10 * time.Minute
)

var (
	// lookups paces the lookups of an instance that lacks a range.
	lookups = retry.Backoff{First: time.Second, Last: time.Minute}
	// backoff paces the retries of a Node's failed writes.
	backoff = retry.Backoff{First: 200 * time.Millisecond, Last: time.Minute}
)

// Controller gives Nodes the podCIDRs that a cloud routes to them. Only the Engine's loop uses
// it.
type Controller struct {
	options  Options
	book     *ipam.Book
	nodes    map[string]*node
	lists    int64                      // the number of the list of Nodes that began last
	waiting  int                        // Nodes without podCIDRs, except for those that are being deleted
	services []netip.Prefix             // of the ServiceCIDRs
	avoided  map[netip.Prefix]time.Time // blocks that the cloud has reported as in use, and until when to avoid them

	reads  controller.Schedule // instances to look up, by Node
	asked  map[string][]string // the Nodes of each provider ID that is being looked up
	steps  controller.Schedule // Nodes that may need a write
	adds   controller.Schedule // Nodes whose instances need a range
	flying map[string]flight   // the write in flight of each Node

	reports controller.Reports
}

// flight is a write in flight: a change of the cloud, or of the Node if change is empty.
type flight struct {
	uid    string
	change cloud.Change

	version string        // of the Node that the write requires
	cidrs   []string      // what it sets
	routed  bool          // it sets the condition
	answer  *kube.Version // to the write
}

// New returns a Controller, and adds it to the Engine with what it reads.
func New(e *controller.Engine, o Options) (*Controller, error) {
	book, err := ipam.New(nil)
	if err != nil {
		return nil, err
	}
	book.Rest = o.Rest
	c := &Controller{
		options: o, book: book, nodes: make(map[string]*node),
		avoided: make(map[netip.Prefix]time.Time), asked: make(map[string][]string), flying: make(map[string]flight),
		reads: controller.NewSchedule(), steps: controller.NewSchedule(), adds: controller.NewSchedule(),
	}
	if err := c.setPool(); err != nil {
		return nil, err
	}
	controller.Follow(e, controller.Feed[kube.Node, node]{
		What: "nodes", Client: o.Client, Path: kube.Nodes, Format: kube.WholeNode,
		Keep: keep, Begin: func(list int64) { c.lists = list }, NumberedList: c.list, Set: c.set, Delete: c.remove,
	})
	if o.Mode == FromCluster {
		nodeipam.FollowServices(e, o.Client, func(ranges []netip.Prefix) {
			c.services = ranges
			_ = c.setPool()
		})
	}
	controller.LookUp(e, controller.Lookup[cloud.Instance]{What: "instances", Due: c.due, Read: o.Cloud.Instances, Take: c.take})
	e.Add(c)
	return c, nil
}

// setPool sets the pool without the service ranges and the avoided blocks. It can fail only in
// New: later, only reserved ranges change.
func (c *Controller) setPool() error {
	if c.options.Pool == nil {
		return nil
	}
	pool := *c.options.Pool
	pool.Reserved = slices.Concat(pool.Reserved, c.options.Services, c.services)
	for s := range c.avoided {
		pool.Reserved = append(pool.Reserved, s)
	}
	return c.book.SetPools([]ipam.Pool{pool})
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return nodeipam.Name }

// Plan implements controller.Controller.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	again = c.endAvoiding(now)
	if c.options.Mode == FromCluster {
		grants, next := c.book.Next(now, n)
		for _, g := range grants {
			c.grant(g, now)
		}
		again = controller.Earlier(again, next)
	}
	for len(writes) < n {
		name, due := c.steps.Pop(now)
		if !due {
			break
		}
		if w, ok := c.step(c.nodes[name], now); ok {
			writes = append(writes, w)
		}
	}
	again = controller.Earlier(again, c.reports.Send(now, c.reportFindings))
	return writes, controller.Earlier(again, c.steps.Next())
}

// PlanCloud implements controller.CloudPlanner. Changes of instances are slow, and must not
// delay the writes of other Nodes.
func (c *Controller) PlanCloud(now time.Time, n int) (writes []controller.Write, again time.Time) {
	for len(writes) < n {
		name, due := c.adds.Pop(now)
		if !due {
			break
		}
		if w, ok := c.add(c.nodes[name], now); ok {
			writes = append(writes, w)
		}
	}
	return writes, c.adds.Next()
}

// Lead implements controller.Controller. Another leader may have changed everything.
func (c *Controller) Lead(election.Term) {
	now := time.Now()
	c.reads, c.adds, c.asked = controller.NewSchedule(), controller.NewSchedule(), make(map[string][]string)
	c.flying, c.avoided = make(map[string]flight), make(map[netip.Prefix]time.Time)
	_ = c.setPool()
	for _, n := range c.nodes {
		c.ungrant(n)
		n.instance, n.failures, n.fruitless, n.last = nil, 0, 0, cloud.Change{}
		c.enter(n, now)
	}
}

// Clean implements controller.Controller.
func (c *Controller) Clean() bool { return true }

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	name, now := w.Object.Name, time.Now()
	f := c.flying[name]
	delete(c.flying, name)
	n := c.nodes[name]
	switch {
	case n == nil:
	case n.uid != f.uid:
		c.steps.Set(name, now)
	case err == controller.ErrNotMade:
		c.ungrant(n)
		c.enter(n, now)
	case w.Cloud:
		c.added(n, f.change, now, err)
	case err == nil:
		n.failures = 0
		if !c.wrote(n, f, now) {
			c.steps.Set(name, now.Add(settleTime))
		}
	case kube.Moved(err):
		// The watch will show how the Node has changed.
		c.steps.Set(name, now.Add(settleTime))
	default:
		n.failures++
		c.steps.Set(name, now.Add(controller.Backoff(backoff, n.failures, err)))
		if kube.OutcomeOf(err) == kube.Refused {
			c.event(n, assignmentFailed, "cannot "+w.Summary+": "+err.Error())
		}
	}
}
