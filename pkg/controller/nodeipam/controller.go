package nodeipam

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Name is the controller's name, as in kube-controller-manager.
const Name = "node-ipam-controller"

// Options are what a Controller needs.
type Options struct {
	Client *kube.Client
	// Pools are pools of Nodes' blocks, in addition to those of SetPools. Services are
	// ranges that no block may overlap, in addition to those of the ServiceCIDRs.
	Pools    []ipam.Pool
	Services []netip.Prefix
	// Select keeps the labels of Nodes without podCIDRs, for the selectors of pools.
	Select bool
	// Hold holds a Node back until Known reports the pools as of its creation. It needs
	// Select.
	Hold bool
	// Rest is how long a block rests after its Node has gone. With zero, it does not rest.
	Rest time.Duration
	// Event sends an event.
	Event func(controller.Event)
}

// Controller is node IPAM. Only the Engine's loop uses it.
type Controller struct {
	options  Options
	book     *ipam.Book
	nodes    map[string]*node
	services []netip.Prefix    // of the ServiceCIDRs
	sources  map[string]source // of pools
	unserved int               // Nodes that wait for podCIDRs
	lists    int64             // the list of Nodes that began last

	held     map[string]struct{} // Nodes that are held back
	heldTo   int64               // the latest revision that one of them has waited for; see Held
	known    int64               // the pools are known as of this revision
	attempts map[string]*attempt // one a Node
	waiting  queue
	fencing  bool // blocks wait for the fence
	fences   int  // the attempts that are part of it
	term     string
	toFence  bool // the fence has not begun

	reports controller.Reports
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
		sources: make(map[string]source), attempts: make(map[string]*attempt), held: make(map[string]struct{}),
	}
	if err := c.SetPools("flags", o.Pools); err != nil {
		return nil, err
	}
	controller.Follow(e, controller.Feed[kube.Node, node]{
		What: "nodes", Client: o.Client, Path: kube.Nodes, Format: kube.WholeNode,
		Keep: c.keep, Begin: func(list int64) { c.lists = list }, NumberedList: c.list, Set: c.set, Delete: c.delete,
	})
	FollowServices(e, o.Client, c.reserve)
	e.Add(c)
	return c, nil
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Plan implements controller.Controller.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	if c.toFence {
		c.beginFence()
	}
	for len(writes) < n && c.waiting.due(now) {
		a := c.waiting.pop()
		if !a.isFence() && c.nodes[a.name].version != a.version {
			// A repeated try would fail. Another allocator may have given the block away
			// since.
			c.drop(a)
			continue
		}
		writes = append(writes, c.write(a))
	}
	if c.fencing {
		return writes, c.waiting.next()
	}
	var next time.Time
	if len(writes) < n {
		var grants []ipam.Grant
		grants, next = c.book.Next(now, n-len(writes))
		for _, g := range grants {
			if c.attempts[g.Node] != nil {
				// A write to an earlier Node of this name is in flight.
				c.book.Settle(g.Node, g.UID, ipam.Refused)
				next = controller.Earlier(next, now.Add(backoff.First))
				continue
			}
			a := &attempt{name: g.Node, uid: g.UID, cidrs: texts(g.CIDRs)}
			c.attempts[g.Node] = a
			writes = append(writes, c.write(a))
		}
	}
	next = controller.Earlier(next, c.reports.Send(now, c.reportFindings))
	return writes, controller.Earlier(next, c.waiting.next())
}

// Lead implements controller.Controller.
func (c *Controller) Lead(t election.Term) {
	for _, a := range c.attempts {
		c.drop(a)
	}
	c.waiting, c.known = nil, 0
	c.fences, c.fencing, c.toFence = 0, false, !t.Clean
	c.term = termText(t)
}

// InUse reports whether a Node has a block of a pool, or may still get one by a write
// that has begun. Call it in the Engine's loop.
func (c *Controller) InUse(pool string) bool { return !c.Clean() || c.book.InUse(pool) }

// Clean implements controller.Controller.
func (c *Controller) Clean() bool { return !c.toFence && !c.fencing }

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	a := c.attempts[w.Object.Name]
	a.flying = false
	n, now := c.nodes[a.name], time.Now()
	switch outcome := kube.OutcomeOf(err); {
	case a.over, err == controller.ErrNotMade:
		c.drop(a)
	case err == nil && !a.isFence():
		c.written(a, n, now)
	case err == nil:
		n.take(a)
		c.drop(a)
	case kube.Moved(err) && n.version == a.version:
		// The watch has yet to show how it has changed.
		a.failures++
		a.parked = true
		c.waiting.push(a, now.Add(parkedLimit+backoff.After(a.failures)))
		if a.failures > 1 {
			c.failed(a, n, err)
		}
	case kube.Moved(err):
		c.waiting.push(a, now)
	default:
		a.failures++
		c.waiting.push(a, now.Add(controller.Backoff(backoff, a.failures, err)))
		if outcome == kube.Refused {
			c.failed(a, n, err)
		}
	}
}

// failed sends an event with the reason why a Node gets no podCIDRs. If a fence fails, no
// Node gets any.
func (c *Controller) failed(a *attempt, n *node, err error) {
	what := "cannot set podCIDRs " + strings.Join(a.cidrs, ",")
	if a.isFence() {
		what = "cannot annotate the Node, so no Node gets podCIDRs; allow the change, or delete the Node"
	}
	c.event(n, assignmentFailed, what+": "+err.Error())
}

// written applies a write that the server has confirmed, before the watch shows it.
func (c *Controller) written(a *attempt, n *node, now time.Time) {
	c.count(n, -1)
	n.CIDRs, n.Labels, n.written = a.cidrs, nil, c.lists
	n.take(a)
	c.book.Settle(a.name, a.uid, ipam.Written)
	c.book.Set(n.Node, now)
	delete(c.attempts, a.name)
}

// drop ends an attempt, and frees its block.
func (c *Controller) drop(a *attempt) {
	a.over = true
	delete(c.attempts, a.name)
	if a.isFence() {
		c.fences--
		c.fencing = c.fences > 0
		return
	}
	c.book.Settle(a.name, a.uid, ipam.Refused)
}

// write returns the write of an attempt, for the present state of its Node.
func (c *Controller) write(a *attempt) controller.Write {
	a.version, a.flying, a.parked, a.answer = c.nodes[a.name].version, true, false, new(kube.Version)
	// Of a large Node, a strategic merge patch takes the server a quarter less time.
	m := kube.Merge{Kind: kube.StrategicMergePatch, If: kube.Version{UID: a.uid, ResourceVersion: a.version}}
	summary := "fence off late writes of the last leader"
	if a.isFence() {
		m.Metadata = map[string]any{"annotations": map[string]string{TermAnnotation: c.term}}
	} else {
		m.Spec = podCIDRs{a.cidrs[0], a.cidrs}
		summary = "set podCIDRs " + strings.Join(a.cidrs, ",")
	}
	client, path, answer := c.options.Client, kube.Path(kube.Nodes, a.name), a.answer
	return controller.Write{
		Controller: Name, Object: ref(a.name, a.uid), Verb: controller.Patch, Summary: summary,
		Do: func(ctx context.Context) (err error) {
			*answer, err = client.Merge(ctx, path, m)
			return err
		},
	}
}

// podCIDRs are the fields of a Node's spec.
type podCIDRs struct {
	First string   `json:"podCIDR"`
	All   []string `json:"podCIDRs"`
}

func ref(name, uid string) controller.Ref { return controller.Ref{Kind: "Node", Name: name, UID: uid} }

// texts returns networks in the form of a Node's spec.
func texts(networks []netip.Prefix) (all []string) {
	for _, n := range networks {
		all = append(all, n.String())
	}
	return all
}
