package cloudbalancer

import (
	"maps"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Apply takes a change that was made, with the cloud's answer to it.
func (a *Account) Apply(c cloud.BalancerChange, answer cloud.Balancing, now time.Time) {
	switch c.Verb {
	case cloud.CreateSecurityGroup:
		for _, s := range answer.Security {
			s.Name, s.Network, s.Tags = c.Security.Name, c.Security.Network, c.Security.Tags
			a.made[s.ID] = now
			a.setSecurity(s)
		}
	case cloud.AllowIngress, cloud.RevokeIngress, cloud.DescribeIngress:
		if s, is := a.security[c.Security.ID]; is {
			changed := trafficOf(c.Security.Rules)
			s.Rules = slices.DeleteFunc(slices.Clone(s.Rules), func(r cloud.Rule) bool { return changed[traffic(r)] })
			if c.Verb != cloud.RevokeIngress {
				s.Rules = append(s.Rules, c.Security.Rules...)
			}
			a.setSecurity(s)
		}
	case cloud.DeleteSecurityGroup:
		a.removeSecurity(c.Security.ID)
		a.gone[c.Security.ID] = now
	case cloud.CreateGroup:
		for _, made := range answer.Groups {
			g := c.Group
			g.ID, g.Detailed, g.Attributes = made.ID, true, make(map[string]string)
			g.Health.Codes = made.Health.Codes
			a.made[g.ID] = now
			a.setGroup(g)
		}
	case cloud.DeleteGroup:
		if _, is := a.groups[c.Group.ID]; is {
			a.removeGroup(c.Group.ID)
		}
		a.gone[c.Group.ID] = now
	case cloud.SetHealthCheck, cloud.SetGroupAttributes, cloud.Register, cloud.Deregister:
		if g, is := a.groups[c.Group.ID]; is {
			a.setGroup(changed(g, c))
		}
	case cloud.CreateBalancer:
		for _, made := range answer.Balancers {
			b := c.Balancer
			b.ID, b.Host, b.State, b.Detailed, b.Attributes, b.Listeners = made.ID, made.Host, made.State, true, make(map[string]string), nil
			if made.Network != "" {
				b.Network = made.Network
			}
			a.made[b.ID] = now
			a.setBalancer(b)
		}
	case cloud.DeleteBalancer:
		a.deleted(c.Balancer.ID, now)
	case cloud.AddTags:
		a.tagged(c)
	default:
		a.balanced(c, answer)
	}
}

// deleted removes a balancer.
func (a *Account) deleted(id string, now time.Time) {
	a.removeBalancer(id)
	a.gone[id] = now
	for _, g := range a.groups {
		if slices.Contains(g.Balancers, id) {
			g.Balancers = slices.DeleteFunc(slices.Clone(g.Balancers), func(of string) bool { return of == id })
			a.groups[g.ID] = g
		}
	}
}

// changed returns a target group after a change.
func changed(g cloud.TargetGroup, c cloud.BalancerChange) cloud.TargetGroup {
	switch c.Verb {
	case cloud.SetHealthCheck:
		g.Health = c.Group.Health
	case cloud.SetGroupAttributes:
		g.Attributes = with(g.Attributes, c.Group.Attributes)
	default:
		g.Targets = slices.Clone(g.Targets)
		for _, t := range c.Group.Targets {
			g.Targets = slices.DeleteFunc(g.Targets, func(o cloud.Target) bool { return o.ID == t.ID && o.Port == t.Port })
			if t.State = "initial"; c.Verb == cloud.Deregister {
				t.State = "draining"
			}
			g.Targets = append(g.Targets, t)
		}
	}
	return g
}

// with returns pairs with those that change.
func with(has, change map[string]string) map[string]string {
	all := maps.Clone(has)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, change)
	return all
}

// tagged takes new tags of an object.
func (a *Account) tagged(c cloud.BalancerChange) {
	if b, is := a.balancers[c.Object]; is {
		b.Tags = with(b.Tags, c.Tags)
		a.balancers[b.ID] = b
	}
	if g, is := a.groups[c.Object]; is {
		a.removeGroup(g.ID)
		g.Tags = with(g.Tags, c.Tags)
		a.setGroup(g)
	}
	if s, is := a.security[c.Object]; is {
		s.Tags = with(s.Tags, c.Tags)
		a.setSecurity(s)
	}
}

// balanced takes a change of a balancer or of its listeners.
func (a *Account) balanced(c cloud.BalancerChange, answer cloud.Balancing) {
	id := c.Balancer.ID
	if id == "" {
		id = c.Listener.Balancer
	}
	b, is := a.balancers[id]
	if !is {
		return
	}
	b.Listeners = slices.Clone(b.Listeners)
	switch c.Verb {
	case cloud.SetBalancerAttributes:
		b.Attributes = with(b.Attributes, c.Balancer.Attributes)
	case cloud.SetSubnets:
		b.Mappings, b.Families = c.Balancer.Mappings, c.Balancer.Families
	case cloud.SetFamilies:
		b.Families = c.Balancer.Families
	case cloud.SetSecurity:
		b.Security = c.Balancer.Security
	case cloud.CreateListener:
		for _, made := range answer.Balancers {
			for _, l := range made.Listeners {
				want := c.Listener
				if want.ID = l.ID; want.Policy == "" {
					want.Policy = l.Policy
				}
				b.Listeners = append(b.Listeners, want)
				a.leads(want.Group, id)
			}
		}
	case cloud.SetListener:
		for i, l := range b.Listeners {
			if l.ID == c.Listener.ID {
				b.Listeners[i] = c.Listener
				a.leads(c.Listener.Group, id)
				a.leadsNot(l.Group, b)
			}
		}
	case cloud.DeleteListener:
		for _, l := range b.Listeners {
			if l.ID == c.Listener.ID {
				b.Listeners = slices.DeleteFunc(b.Listeners, func(o cloud.Listener) bool { return o.ID == l.ID })
				a.leadsNot(l.Group, b)
				break
			}
		}
	}
	a.balancers[id] = b
}

// leads notes that a balancer leads to a target group.
func (a *Account) leads(group, balancer string) {
	if g, is := a.groups[group]; is && !slices.Contains(g.Balancers, balancer) {
		g.Balancers = append(slices.Clone(g.Balancers), balancer)
		a.groups[group] = g
	}
}

// leadsNot notes that a listener of a balancer no longer leads to a target group.
func (a *Account) leadsNot(group string, b cloud.Balancer) {
	g, is := a.groups[group]
	if !is || slices.ContainsFunc(b.Listeners, func(l cloud.Listener) bool { return l.Group == group }) {
		return
	}
	g.Balancers = slices.DeleteFunc(slices.Clone(g.Balancers), func(id string) bool { return id == b.ID })
	a.groups[group] = g
}

// Imagine returns an answer to a change, as a preview needs it that makes none.
func Imagine(c cloud.BalancerChange) (answer cloud.Balancing) {
	const id = "new "
	switch c.Verb {
	case cloud.CreateSecurityGroup:
		answer.Security = []cloud.SecurityGroup{{ID: id + c.Security.Name}}
	case cloud.CreateGroup:
		answer.Groups = []cloud.TargetGroup{{ID: id + c.Group.Name}}
	case cloud.CreateBalancer:
		answer.Balancers = []cloud.Balancer{{ID: id + c.Balancer.Name, State: "provisioning"}}
	case cloud.CreateListener:
		l := c.Listener
		l.ID = id + string(l.Protocol) + l.Balancer + l.Group
		answer.Balancers = []cloud.Balancer{{ID: l.Balancer, Listeners: []cloud.Listener{l}}}
	}
	return answer
}

// Clone returns a copy, which changes without the original.
func (a *Account) Clone() *Account {
	return &Account{
		balancers: maps.Clone(a.balancers), groups: maps.Clone(a.groups), security: maps.Clone(a.security), made: maps.Clone(a.made), gone: maps.Clone(a.gone),
		of: a.of.clone(), secures: a.secures.clone(), named: a.named.clone(), called: a.called.clone(), ruled: a.ruled.clone(),
	}
}
