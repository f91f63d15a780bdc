package service

import (
	"maps"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
)

// take takes what was read.
func (c *Controller) take(_ []string, all map[string]found) {
	now, l := time.Now(), &c.look
	f, r := all[everything], l.running
	l.running = nil
	if r == nil {
		return
	}
	l.failures, l.next = 0, time.Time{}
	if !f.ok {
		l.failures++
		l.next = now.Add(lookups.After(l.failures))
	}
	c.takeInstances(r, f)
	if f.subnets != nil {
		c.subnets, l.subnetsKnown, l.subnets = f.subnets, true, now.Add(subnetsInterval)
		l.subnetsFailures = 0
		if f.quota != (cloud.BalancerQuota{}) { // else what was read before still limits
			c.quota = f.quota
		}
	} else if r.subnets {
		l.subnetsFailures++
		l.subnets = now.Add(lookups.After(l.subnetsFailures))
	}
	if f.all != nil {
		c.takeAccount(r, f, now)
	}
	c.account.SetDetails(f.ids, f.details, f.detailed, r.began)
	if l.details = (time.Time{}); f.detailed && len(f.details.Balancers)+len(f.details.Groups) < len(f.ids) {
		l.details = now.Add(leastInterval)
	}
	if f.secured {
		c.takeSecurity(r, f, now)
	}
	clear(c.backends)
	for key, s := range c.services {
		if f.all != nil {
			c.recognize(s)
		}
		if s.isOurs() && (f.all != nil || s.flying == 0) {
			c.clouds.Set(key, latest(latest(now, c.gathered), s.paused))
		}
		if s.isOurs() {
			c.needGroups(s, now)
		}
	}
	c.tellDenied(f.denied)
	if len(r.instances) > 0 {
		if l.waits++; len(l.instances) == 0 {
			l.waits = 0
		}
		l.later = now.Add(lookups.After(l.waits))
	}
}

// takeInstances takes a reading of instances. Those that do not run are looked up again, unless
// no Node that is to be a target has them any more.
func (c *Controller) takeInstances(r *request, f found) {
	has := make(map[string]bool)
	for _, id := range c.instanceIDs() {
		has[id] = true
	}
	for _, id := range r.instances {
		if i, answered := f.instances[id]; answered && has[id] {
			c.instances[id] = &i
			delete(c.look.instances, id)
			if !runs(&i) {
				c.look.instances[id] = true // until it runs
			}
		}
	}
	maps.DeleteFunc(c.look.instances, func(id string, _ bool) bool { return !has[id] })
}

// runs reports whether an instance is known to run.
func runs(i *cloud.Instance) bool { return i != nil && i.Problem == "" && i.State == cloud.Running }

// takeAccount takes a reading of the account.
func (c *Controller) takeAccount(r *request, f found, now time.Time) {
	l, keep := &c.look, make(map[string]bool)
	for _, i := range c.instances {
		for _, id := range i.Groups {
			keep[id] = true
		}
	}
	c.account.Set(*f.all, keep, r.began)
	l.accountKnown, l.at, l.began, l.account = true, now, r.began, now.Add(c.options.Period)
	for id := range keep { // those without our tag may have changed, too
		if s, is := c.account.Security(id); is && !cloudbalancer.IsOfCluster(r.cluster, s) {
			l.security[id] = true
		}
	}
}

// takeSecurity takes a reading of security groups without our tag.
func (c *Controller) takeSecurity(r *request, f found, now time.Time) {
	l := &c.look
	c.account.SetSecurity(f.security)
	for _, id := range r.security {
		delete(l.security, id)
		if _, is := c.account.Security(id); !is {
			l.absent[id] = now.Add(missingInterval)
		} else {
			delete(l.absent, id)
		}
	}
}

// needGroups makes the security groups of a Service's Nodes due that were not read yet, and
// reports whether there are any. Only those with the cluster's tag come with the account: without
// the others, a preview would lack their rules, and a removal would leave them.
func (c *Controller) needGroups(s *service, now time.Time) (waits bool) {
	if !c.look.accountKnown || !c.options.Rules.NodeRules {
		return false
	}
	for _, id := range c.backend(s.want.NodeLabels).groups {
		if _, is := c.account.Security(id); !is && !now.Before(c.look.absent[id]) {
			c.look.security[id], waits = true, true
		}
	}
	return waits
}

// tellDenied sends an event about each Service that waits for a reading which the cloud
// denies, once for each reason.
func (c *Controller) tellDenied(err error) {
	why := cloud.Reason(err)
	for _, key := range c.keys() {
		s := c.services[key]
		if s.denied == why || why != "" && !s.leaving() && (!s.wanted() || s.done) {
			continue
		}
		if s.denied = why; why == "" {
			continue
		}
		if s.leaving() {
			c.event(s, true, "DeleteLoadBalancerFailed", "Error deleting load balancer: cannot read the account: "+err.Error())
		} else {
			c.event(s, true, failedReason, "Error syncing load balancer: cannot read the account: "+err.Error())
		}
	}
}
