package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
)

// PlanCloud implements controller.CloudPlanner.
func (c *Controller) PlanCloud(now time.Time, n int) (writes []controller.Write, again time.Time) {
	if c.options.DryRun {
		return c.preview(), time.Time{}
	}
	if !c.look.accountKnown || c.isReading() {
		return nil, time.Time{}
	}
	if now.Before(c.pauses) {
		return nil, c.pauses
	}
	if now.Sub(c.look.account) > overdueTime && !now.Before(c.look.next) {
		return nil, time.Time{} // the end of the changes in flight lets it be read
	}
	var later []string
	for len(writes) < n {
		key, due := c.clouds.Pop(now)
		if !due {
			break
		}
		s := c.services[key]
		if s == nil || s.flying > 0 || s.writing || !s.ready() {
			continue // the end of what flies makes it due
		}
		if c.look.began.Before(s.doubted) {
			continue // the reading of the account makes it due
		}
		if s.paused.After(now) {
			c.clouds.Set(key, s.paused)
			continue
		}
		step := c.step(s, now)
		if len(c.look.security)+len(step.Details) > 0 || !c.look.account.After(now) {
			again = now // to read it
		}
		for i, change := range step.Changes {
			if len(writes) == n {
				if i == 0 {
					later = append(later, key)
				}
				break
			}
			writes = append(writes, c.write(s, change))
		}
	}
	for _, key := range later {
		c.clouds.Set(key, now)
	}
	// What was found out may be due for Kubernetes, too.
	return writes, controller.Earlier(controller.Earlier(again, c.clouds.Next()), c.steps.Next())
}

// ready reports whether the cloud may be changed for the Service: only its finalizer makes
// sure that all that is made is removed, too.
func (s *service) ready() bool { return s.finalized() && s.isOurs() }

// step returns what is to be done for a Service, and notes how far it is.
func (c *Controller) step(s *service, now time.Time) cloudbalancer.Step {
	if !s.wanted() {
		return c.leave(s, now)
	}
	b := c.backend(s.want.NodeLabels)
	h := c.account.Holding(c.options.Rules.Cluster, s.Ref, b.groups)
	h.Shared = c.sharedWith(s)
	setting := c.setting(s, b, now)
	fatal := slices.ContainsFunc(s.wrong, func(p cloudbalancer.Problem) bool { return p.Fatal })
	var step cloudbalancer.Step
	if fatal || !c.look.subnetsKnown { // the reading of the subnets makes it due
		step = cloudbalancer.Follow(s.want, h, setting)
	} else {
		step = cloudbalancer.Next(s.want, h, setting)
	}
	s.problems = slices.Concat(s.wrong, step.Problems, c.needs(s, step, now))
	if b.problem != "" && c.options.Rules.NodeRules {
		s.problems = append(s.problems, cloudbalancer.Problem{Text: b.problem})
	}
	s.gone, s.host, s.targets = false, "", len(b.targets)
	if h.Balancer != nil {
		s.host = h.Balancer.Host
	}
	waits := len(step.Details)+len(step.Security) > 0
	switch {
	case step.Done:
		c.finished(s)
	case len(step.Changes) > 0 && s.began.IsZero():
		s.began = now
		targets := !slices.ContainsFunc(step.Changes, func(x cloudbalancer.Change) bool {
			return x.Verb != cloud.Register && x.Verb != cloud.Deregister && x.Verb != cloud.AllowIngress && x.Verb != cloud.RevokeIngress
		})
		if s.moved = s.done && targets; !s.moved {
			c.event(s, false, "EnsuringLoadBalancer", "Ensuring load balancer")
		}
	}
	if !waits {
		s.done = step.Done
	}
	if step.Unavailable {
		c.event(s, true, "UnAvailableLoadBalancer", "There are no available nodes for LoadBalancer")
	}
	c.tell(s)
	if slices.ContainsFunc(step.Problems, func(p cloudbalancer.Problem) bool { return p.Fatal }) && h.Balancer == nil {
		c.missing(now) // such as subnets
		c.clouds.Set(s.Key(), now.Add(missingInterval))
	}
	return step
}

// setting returns what a step needs beside the Service.
func (c *Controller) setting(s *service, b *backend, now time.Time) cloudbalancer.Setting {
	x := cloudbalancer.Setting{
		Subnets: c.subnets, Targets: b.targets, Undecided: b.undecided, NodeGroups: b.groups, NodesKnown: b.known,
		NodeRules: c.options.Rules.NodeRules, Chunk: s.chunk, Networks: b.networks,
		MostListeners: c.quota.Listeners,
	}
	if len(s.refused) == 0 {
		return x
	}
	x.Targets = slices.DeleteFunc(slices.Clone(x.Targets), func(id string) bool {
		until, is := s.refused[id]
		if is && now.Before(until) {
			x.Undecided = append(slices.Clip(x.Undecided), id)
			c.clouds.Set(s.Key(), until)
			return true
		}
		delete(s.refused, id)
		return false
	})
	return x
}

// sharedWith returns a function that returns the rules that all other Services need in a
// security group of Nodes. A Service needs none in a group that none of its Nodes has: it
// would pass such a rule on at once, and two Services would do so for ever.
func (c *Controller) sharedWith(s *service) func(group string) []cloud.Rule {
	return func(group string) []cloud.Rule {
		var wants []cloudbalancer.Want
		for _, other := range c.services {
			if other == s || !other.wanted() {
				continue
			}
			if b := c.backend(other.want.NodeLabels); !b.known || slices.Contains(b.groups, group) {
				wants = append(wants, other.want)
			}
		}
		return c.account.Shared(wants, c.subnets)
	}
}

// leave removes what a Service has.
func (c *Controller) leave(s *service, now time.Time) cloudbalancer.Step {
	if c.needGroups(s, now) { // one may have rules for its balancer
		return cloudbalancer.Step{}
	}
	h := c.account.Holding(c.options.Rules.Cluster, s.Ref, nil)
	h.Shared = c.sharedWith(s)
	if !s.Balances && !s.known && !c.options.Rules.Default && !h.IsEmpty() {
		h = cloudbalancer.Holding{} // another controller's, which removes it
	}
	step := cloudbalancer.Remove(c.options.Rules.Cluster, s.Ref, h)
	if s.gone = false; step.Done && c.mayHold(s, now) {
		return step
	}
	if s.gone = step.Done; s.gone {
		c.steps.Set(s.Key(), now)
		return step
	}
	if s.began.IsZero() {
		s.began = now
		c.event(s, false, "DeletingLoadBalancer", "Deleting load balancer")
	}
	return step
}

// mayHold reports whether the cloud may have something for a Service of which the account
// shows nothing. It then makes another look at it due.
func (c *Controller) mayHold(s *service, now time.Time) bool {
	until := latest(s.unanswered, c.late)
	switch {
	case now.Before(until):
		c.clouds.Set(s.Key(), until)
	case c.inherits(s.UID): // the end of that change makes it due
	case !c.look.began.After(until):
		c.readAgain(now) // the account that we know is older than what may have been made
	default:
		return false
	}
	return true
}

// inherits reports whether a change in flight makes rules those of a Service.
func (c *Controller) inherits(uid string) bool {
	for _, x := range c.changes {
		if x.Verb == cloud.DescribeIngress && slices.Contains(cloudbalancer.HeirsOf(x.Security.Rules), cloudbalancer.BalancerName(uid)) {
			return true
		}
	}
	return false
}

// heirs returns the Services whose rules a change makes.
func (c *Controller) heirs(x change) (all []*service) {
	if x.Verb != cloud.DescribeIngress {
		return nil
	}
	names := cloudbalancer.HeirsOf(x.Security.Rules)
	for _, s := range c.services {
		if slices.Contains(names, cloudbalancer.BalancerName(s.UID)) {
			all = append(all, s)
		}
	}
	return all
}

// needs makes due what a step needs to be read. It returns what does not exist.
func (c *Controller) needs(s *service, step cloudbalancer.Step, now time.Time) (problems []cloudbalancer.Problem) {
	for _, id := range step.Security {
		until, absent := c.look.absent[id]
		if absent {
			problems = append(problems, cloudbalancer.Problem{Text: "the security group " + id + " of its Nodes does not exist; give their instances another one"})
		}
		if absent && now.Before(until) {
			c.clouds.Set(s.Key(), until)
			continue
		}
		c.look.security[id] = true
	}
	return problems
}

// missing makes another reading of the subnets due.
func (c *Controller) missing(now time.Time) {
	if soon := now.Add(missingInterval); c.look.subnets.After(soon) {
		c.look.subnets = soon
	}
}

// finished notes that a Service has all that it wants.
func (c *Controller) finished(s *service) {
	s.failures, s.trouble, s.chunk = 0, "", 0
	if s.worked && s.moved {
		c.event(s, false, "UpdatedLoadBalancer", "Updated load balancer with new hosts")
	} else if s.worked {
		c.event(s, false, "EnsuredLoadBalancer", "Ensured load balancer")
	}
	s.worked, s.moved, s.began = false, false, time.Time{}
	c.steps.Set(s.Key(), time.Now())
}

// tell sends an event of what is wrong with a Service, if that has changed.
func (c *Controller) tell(s *service) {
	var fatal, others []string
	for _, p := range s.problems {
		if p.Fatal {
			fatal = append(fatal, p.Text)
		} else {
			others = append(others, p.Text)
		}
	}
	text := strings.Join(fatal, "; ") + "\n" + strings.Join(others, "; ")
	if text == s.told {
		return
	}
	if s.told = text; len(fatal) > 0 {
		c.event(s, true, failedReason, "Error syncing load balancer: "+strings.Join(fatal, "; "))
	}
	if len(others) > 0 {
		c.event(s, true, "LoadBalancerSettings", strings.Join(others, "; "))
	}
}

const failedReason = "SyncLoadBalancerFailed"

// mostMessage limits the text of an event.
const mostMessage = 1000

func (c *Controller) event(s *service, warning bool, reason, text string) {
	if c.options.Event == nil {
		return
	}
	if len(text) > mostMessage {
		text = strings.ToValidUTF8(text[:mostMessage], "") + "…"
	}
	c.options.Event(controller.Event{Object: s.ref(), Warning: warning, Reason: reason, Message: text})
}

// write returns the write of a change.
func (c *Controller) write(s *service, x cloudbalancer.Change) controller.Write {
	w, answer := c.describe(s, x), new(cloud.Balancing)
	s.flying++
	c.changes[w.Object] = change{x, s.Key(), s.UID, answer}
	to := c.options.Cloud
	term := c.term
	w.Do = func(ctx context.Context) (err error) {
		if end := term.Deadline(); !end.IsZero() && time.Now().After(end) { // the process was paused
			return fmt.Errorf("the term is over: %w", controller.ErrNotMade)
		}
		*answer, err = to.ChangeBalancing(ctx, x.BalancerChange)
		return err
	}
	return w
}

// describe returns a write without what makes it.
func (c *Controller) describe(s *service, x cloudbalancer.Change) controller.Write {
	verb := controller.Patch
	switch x.Verb {
	case cloud.DeleteBalancer, cloud.DeleteGroup, cloud.DeleteListener, cloud.DeleteSecurityGroup:
		verb = controller.Delete
	}
	if creates(x.Verb) {
		verb = controller.Create
	}
	return controller.Write{
		Controller: Name, Cloud: true, Within: cloudTime, Verb: verb, Summary: x.Summary, Before: x.Before, After: x.After, Mark: x.Mark,
		Object: controller.Ref{Kind: x.Kind, Name: x.Object, UID: s.UID + " " + string(x.Verb)},
	}
}

// creates reports whether a change makes a new object.
func creates(v cloud.BalancerVerb) bool {
	return v == cloud.CreateBalancer || v == cloud.CreateGroup || v == cloud.CreateListener || v == cloud.CreateSecurityGroup
}

// changed takes how a change of the cloud ended.
func (c *Controller) changed(x change, err error) {
	now := time.Now()
	if err == nil {
		c.account.Apply(x.BalancerChange, *x.answer, now)
		if x.Verb == cloud.AllowIngress || x.Verb == cloud.RevokeIngress {
			clear(c.backends)
		}
	}
	for _, heir := range c.heirs(x) {
		if err != nil && !cloud.KindOf(err).IsFinal() {
			c.isUnanswered(heir, now)
		}
		c.due(heir.Key(), now)
	}
	s := c.services[x.key]
	if s == nil || s.UID != x.uid {
		return
	}
	s.flying--
	switch {
	case err == nil:
		s.worked = true
	case !errors.Is(err, controller.ErrNotMade):
		c.fault(s, x, err, now)
	}
	if s.flying > 0 {
		return
	}
	if !s.failed {
		s.failures = 0
		c.due(x.key, now)
		return
	}
	s.failed = false
	c.due(x.key, s.paused)
}

// fault takes an error of a change.
func (c *Controller) fault(s *service, x change, err error, now time.Time) {
	kind := cloud.KindOf(err)
	e, explained := errors.AsType[*cloud.Error](err)
	if kind == cloud.Throttled {
		until := now.Add(time.Second)
		if explained {
			until = now.Add(max(e.After, time.Second))
		}
		if until.After(c.pauses) {
			c.pauses = until
		}
		return
	}
	if creates(x.Verb) && !kind.IsFinal() {
		c.isUnanswered(s, now)
	}
	if !s.failed {
		s.failures++
	}
	s.failed, s.trouble = true, "failed to "+x.Summary+": "+err.Error()
	deletes := x.Verb == cloud.DeleteSecurityGroup || x.Verb == cloud.DeleteGroup
	pause := backoff.After(s.failures)
	if deletes && kind == cloud.Taken {
		pause = lingering.After(s.failures)
	}
	if explained {
		pause = max(pause, e.After)
	}
	if until := now.Add(pause); until.After(s.paused) {
		s.paused = until
	}
	switch {
	case x.Verb == cloud.Register && kind == cloud.Refused:
		c.refused(s, x, now)
	case kind == cloud.Refused: // a value of this Service alone
		s.stale = true
	case kind == cloud.Denied || kind == cloud.Full || deletes && kind == cloud.Taken:
	default: // what the cloud has may be another thing than was known
		s.stale, s.doubted = true, now
		c.readAgain(now)
	}
	if deletes && kind == cloud.Taken && now.Sub(s.began) < patientTime {
		return
	}
	reason, text := failedReason, "Error syncing load balancer: "+s.trouble
	if !s.wanted() {
		reason = "DeleteLoadBalancerFailed"
		text = "Error deleting load balancer: " + s.trouble
	}
	c.event(s, true, reason, text)
}

// isUnanswered notes that the cloud may yet make something for a Service.
func (c *Controller) isUnanswered(s *service, now time.Time) {
	s.unanswered = now.Add(c.options.Late)
	c.unanswered = latest(c.unanswered, s.unanswered)
}

// refused narrows down which of the targets the cloud does not take, so that one bad
// instance keeps no other out.
func (c *Controller) refused(s *service, x change, now time.Time) {
	targets := x.Group.Targets
	s.paused = now.Add(time.Second)
	if len(targets) > 1 {
		s.chunk = max(1, len(targets)/2)
		return
	}
	if s.refused == nil {
		s.refused = make(map[string]time.Time)
	}
	for _, t := range targets {
		s.refused[t.ID] = now.Add(refusedTime)
	}
	s.chunk = 0
}
