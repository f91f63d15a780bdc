package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
)

// Planned is what a preview adds to the account, less what it removes.
type Planned struct {
	Balancers, Groups int
	// Addresses are public addresses of IPv4.
	Addresses int
	// Rules are those of the security groups of Nodes that change.
	Rules []RuleCount
}

// preview returns everything that would be changed now.
func (c *Controller) preview() (writes []controller.Write) {
	if !c.look.accountKnown {
		return nil
	}
	account := c.account
	c.account, c.planned = account.Clone(), Planned{}
	defer func() {
		c.planned.noteRules(account, c.account, c.instances)
		c.account = account
	}()
	for _, key := range c.keys() {
		if s := c.services[key]; s.isOurs() {
			writes = append(writes, c.previewOf(s, &c.planned)...)
		}
	}
	return writes
}

// previewOf returns what would be changed for a Service, and applies it to the account that
// is known.
func (c *Controller) previewOf(s *service, p *Planned) (writes []controller.Write) {
	const rounds = 20
	for range rounds {
		step := c.step(s, time.Now())
		for _, x := range step.Changes {
			p.note(c.account, x.BalancerChange)
			c.account.Apply(x.BalancerChange, cloudbalancer.Imagine(x.BalancerChange), time.Now())
			w := c.describe(s, x)
			w.Do = func(context.Context) error { return controller.ErrNotMade }
			writes = append(writes, w)
		}
		if len(step.Changes) == 0 {
			break
		}
	}
	return writes
}

// RuleCount is how many rules a security group has, and would have.
type RuleCount struct {
	Group     string
	Now, Then int
}

// note adds a change, before it is applied to the account.
func (p *Planned) note(a *cloudbalancer.Account, x cloud.BalancerChange) {
	addresses := func(b cloud.Balancer) int {
		if b.Scheme == cloud.InternetFacing {
			return len(b.Mappings)
		}
		return 0
	}
	switch x.Verb {
	case cloud.CreateBalancer:
		p.Balancers++
		p.Addresses += addresses(x.Balancer)
	case cloud.SetSubnets:
		if was, is := a.Balancer(x.Balancer.ID); is {
			x.Balancer.Scheme = was.Scheme
			p.Addresses += addresses(x.Balancer) - addresses(was)
		}
	case cloud.DeleteBalancer:
		if was, is := a.Balancer(x.Balancer.ID); is {
			p.Balancers--
			p.Addresses -= addresses(was)
		}
	case cloud.CreateGroup:
		p.Groups++
	case cloud.DeleteGroup:
		p.Groups--
	}
}

// noteRules compares the rules of security groups of Nodes before and after a preview.
func (p *Planned) noteRules(before, after *cloudbalancer.Account, instances map[string]*cloud.Instance) {
	seen := make(map[string]bool)
	for _, i := range instances {
		for _, id := range i.Groups {
			was, is := before.Security(id)
			then, _ := after.Security(id)
			if is && !seen[id] && len(was.Rules) != len(then.Rules) {
				p.Rules = append(p.Rules, RuleCount{id, len(was.Rules), len(then.Rules)})
			}
			seen[id] = true
		}
	}
	slices.SortFunc(p.Rules, func(a, b RuleCount) int { return cmp.Compare(a.Group, b.Group) })
}
