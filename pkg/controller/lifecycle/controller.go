package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Name is what the controller is called, as in cloud controller managers.
const Name = "cloud-node-lifecycle-controller"

// Taint keeps pods off a Node while its instance is stopped.
const Taint = "node.cloudprovider.kubernetes.io/shutdown"

// leaseNamespace is the namespace of the Leases that kubelets renew.
const leaseNamespace = "kube-node-lease"

// Cloud is the part of a cloud's client that the controller uses.
type Cloud interface {
	// Instances returns the instances of provider IDs. If it also returns an error, the
	// instances that are missing from the result are unknown.
	Instances(ctx context.Context, ids []string) (map[string]cloud.Instance, error)
}

// Options are the settings of a Controller.
type Options struct {
	Client *kube.Client
	Cloud  Cloud
	Rules  Rules
	// Period is the time between two lookups of the instances of unready Nodes.
	Period time.Duration
	// Preview also plans the deletions that are not due yet, for a plan that people read.
	Preview bool
	// Event sends an event about a Node.
	Event func(controller.Event)
}

// LongestPeriod is the maximum Period. With it, one round may fail without a Gap in the answers.
var LongestPeriod = Usual.Gap / 2

// settleTime is the time for which a Node's next write waits for the watch to show the last one.
const settleTime = time.Second

// backoff paces the retries of failed writes of one Node.
var backoff = retry.Backoff{First: 200 * time.Millisecond, Last: time.Minute}

// Controller taints and deletes Nodes. Only the Engine's loop uses it.
type Controller struct {
	options Options
	judge   judge

	steps    controller.Schedule // Nodes whose taint may need a write
	inFlight map[string]flight   // the write in flight of each Node
	paused   map[string]pause    // Nodes whose last write failed

	next    time.Time         // the next round; zero is none
	turn    int               // where due continues in the ready Nodes
	running map[string]string // the uid of each Node in the running round
	audit   time.Time         // the time of the next round about all Nodes
	whole   bool              // the running round covers all Nodes

	failures int       // failed rounds in a row
	retry    time.Time // after failures, no round begins before

	decide bool      // an event may have made a deletion due
	decay  time.Time // the time at which one may become due without an event, or zero

	announced time.Time // the time of the last events
}

// flight is a write in flight.
type flight struct {
	uid     string
	deletes bool
}

// pause is the back-off of a Node's writes after failures.
type pause struct {
	failures int
	until    time.Time
}

// New returns a Controller, and adds it, its feed and its lookup to the Engine.
func New(e *controller.Engine, o Options) *Controller {
	c := &Controller{
		options: o, judge: newJudge(o.Rules), inFlight: make(map[string]flight), paused: make(map[string]pause), running: make(map[string]string), steps: controller.NewSchedule(),
	}
	controller.Follow(e, controller.Feed[kube.Node, subject]{
		What: "nodes", Client: o.Client, Path: kube.Nodes, Format: kube.WholeNode,
		Keep: keep, List: c.list, Set: c.set, Delete: c.remove,
	})
	controller.LookUp(e, controller.Lookup[answer]{What: "instances of unready Nodes", Due: c.due, Read: c.read, Take: c.take})
	e.Add(c)
	return c
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Lead implements controller.Controller. A new term begins without evidence.
func (c *Controller) Lead(election.Term) {
	now := time.Now()
	c.judge.begin(now)
	c.inFlight, c.paused, c.running = make(map[string]flight), make(map[string]pause), make(map[string]string)
	c.next, c.audit, c.failures, c.retry, c.decide = now, now, 0, time.Time{}, true
	for name := range c.judge.subjects {
		c.steps.Set(name, now)
	}
}

// Clean implements controller.Controller. A late write does no harm, because it requires that
// the Node has not changed.
func (c *Controller) Clean() bool { return true }

// Plan implements controller.Controller.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	for len(writes) < n {
		name, due := c.steps.Pop(now)
		if !due {
			break
		}
		c.decide = c.decide || c.judge.suspects[name]
		s := c.judge.subjects[name]
		w, ok := c.taint(s, now)
		if !ok {
			w, ok = c.mark(s, now)
		}
		if ok {
			writes = append(writes, w)
		}
	}
	deletions, next := c.deletions(now, n-len(writes))
	writes = append(writes, deletions...)
	return writes, controller.Earlier(c.steps.Next(), next)
}

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	name, now := w.Object.Name, time.Now()
	f := c.inFlight[name]
	delete(c.inFlight, name)
	c.decide = true
	if f.deletes && err != controller.ErrNotMade && kube.OutcomeOf(err) != kube.Refused && kube.OutcomeOf(err) != kube.Unsent {
		c.judge.deleted[f.uid] = now // the deletion may have been applied
	}
	s := c.judge.subjects[name]
	switch {
	case s == nil:
	case s.uid != f.uid, err == controller.ErrNotMade:
		c.steps.Set(name, now)
	case err == nil, kube.Moved(err):
		// The watch has yet to show the new state.
		c.paused[name] = pause{until: now.Add(settleTime)}
		c.steps.Set(name, now.Add(settleTime))
	default:
		p := c.paused[name]
		p.failures++
		p.until = now.Add(controller.Backoff(backoff, p.failures, err))
		c.paused[name] = p
		c.steps.Set(name, p.until)
		if f.deletes {
			c.event(s, true, deletingFailed, "cannot "+w.Summary+": "+err.Error())
		}
	}
}

// taint returns the write that adds or removes a Node's taint, if it needs one. The removal from
// a ready Node needs no answer of the cloud.
func (c *Controller) taint(s *subject, now time.Time) (w controller.Write, ok bool) {
	if s == nil || s.deleting {
		return w, false
	}
	if !c.isFree(s, now) {
		return w, false
	}
	taints, summary := slices.Concat([]kube.TaintSpec{}, s.taints), "" // never null
	switch {
	case s.ready && s.shutdown:
		summary = "remove the taint " + Taint + ": the Node is ready"
	case !s.ready && !s.shutdown && s.state.IsShutDown():
		taints = append(taints, kube.TaintSpec{Key: Taint, Effect: "NoSchedule"})
		summary = "add the taint " + Taint + ": its instance is " + string(s.state)
	default:
		return w, false
	}
	return c.patch(s, summary, kube.Merge{
		Kind: kube.StrategicMergePatch, If: kube.Version{UID: s.uid, ResourceVersion: s.version},
		Spec: map[string]any{"taints": taints}, // a patch replaces all taints
	}), true
}

// patch returns a write that patches a Node, and counts it as in flight.
func (c *Controller) patch(s *subject, summary string, m kube.Merge) controller.Write {
	client, path := c.options.Client, kube.Path(kube.Nodes, s.name)
	c.inFlight[s.name] = flight{uid: s.uid}
	return controller.Write{
		Controller: Name, Object: s.ref(), Verb: controller.Patch, Summary: summary,
		Do: func(ctx context.Context) error {
			_, err := client.Merge(ctx, path, m)
			return err
		},
	}
}

// isFree reports whether a Node may be written now. If not, the Node is planned again later.
func (c *Controller) isFree(s *subject, now time.Time) bool {
	if _, busy := c.inFlight[s.name]; busy {
		return false // Done plans the Node again
	}
	if p := c.paused[s.name]; now.Before(p.until) {
		c.steps.Set(s.name, p.until)
		return false
	}
	return true
}

// deletions returns the deletions to make now, and the time at which others may be due.
func (c *Controller) deletions(now time.Time, n int) (writes []controller.Write, again time.Time) {
	if !c.decide && (c.decay.IsZero() || now.Before(c.decay)) {
		return nil, c.decay // an event that concerns no suspect costs nothing here
	}
	c.decide = false
	defer func() { c.decay = again }()
	inFlight := 0
	for _, f := range c.inFlight {
		if f.deletes {
			inFlight++
		}
	}
	all := c.judge.verdicts(now, inFlight)
	for _, v := range all {
		again = controller.Earlier(again, v.until)
		previews := c.options.Preview && v.why != Due
		if v.why != Due && !previews || !c.isFree(v.subject, now) {
			continue
		}
		if len(writes) >= n {
			c.decide = true
			continue
		}
		summary := "delete: " + v.text
		switch {
		case v.why.IsHeld():
			summary = "held back: " + v.text
		case previews:
			summary = "delete later: " + v.text
		}
		w := c.deletion(v.subject, summary)
		w.Held = v.why.IsHeld()
		writes = append(writes, w)
		if previews {
			continue
		}
		c.event(v.subject, false, deletingNode, "Deleting the Node: "+v.text)
	}
	return writes, controller.Earlier(again, c.announce(all, now))
}

// deletion returns the write that deletes a Node if it has not changed.
func (c *Controller) deletion(s *subject, summary string) controller.Write {
	client, path, v := c.options.Client, kube.Path(kube.Nodes, s.name), kube.Version{UID: s.uid, ResourceVersion: s.version}
	c.inFlight[s.name] = flight{s.uid, true}
	return controller.Write{
		Controller: Name, Object: s.ref(), Verb: controller.Delete, Summary: summary,
		Do: func(ctx context.Context) error { return client.Delete(ctx, path, v) },
	}
}

// ref names the Node in events and writes.
func (s *subject) ref() controller.Ref {
	return controller.Ref{Kind: "Node", Name: s.name, UID: s.uid}
}
