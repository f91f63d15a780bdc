package cloudtest

import (
	"maps"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// change makes a change. Its checks and errors are those of AWS.
func (b *Balancers) change(c cloud.BalancerChange) (answer cloud.Balancing, err error) {
	switch c.Verb {
	case cloud.CreateSecurityGroup, cloud.DeleteSecurityGroup, cloud.AllowIngress, cloud.RevokeIngress, cloud.DescribeIngress:
		return b.changeSecurity(c)
	case cloud.CreateGroup, cloud.DeleteGroup, cloud.SetHealthCheck, cloud.SetGroupAttributes, cloud.Register, cloud.Deregister:
		return b.changeGroup(c)
	case cloud.CreateListener, cloud.SetListener, cloud.DeleteListener:
		return b.changeListener(c)
	case cloud.AddTags:
		for _, tags := range b.tagsOf(c.Object) {
			maps.Copy(tags, c.Tags)
			return answer, nil
		}
		return answer, refuse(c, cloud.Missing, "there is no "+c.Object)
	}
	return b.changeBalancer(c)
}

func refuse(c cloud.BalancerChange, k cloud.Kind, text string) error {
	return &cloud.Error{Kind: k, Action: string(c.Verb), Text: text}
}

// tagsOf returns the tag maps of the objects with an ID.
func (b *Balancers) tagsOf(id string) (all []map[string]string) {
	if v := b.balancers[id]; v != nil {
		all = append(all, v.Tags)
	}
	if v := b.groups[id]; v != nil {
		all = append(all, v.Tags)
	}
	if v := b.security[id]; v != nil {
		all = append(all, v.Tags)
	}
	return all
}

func (b *Balancers) changeSecurity(c cloud.BalancerChange) (answer cloud.Balancing, err error) {
	s := b.security[c.Security.ID]
	switch {
	case c.Verb == cloud.CreateSecurityGroup:
		for _, other := range b.security {
			if other.Name == c.Security.Name && other.Network == c.Security.Network {
				return answer, refuse(c, cloud.Changed, "the name "+c.Security.Name+" is in use; delete the security group")
			}
		}
		v := c.Security
		v.ID, v.Tags = b.id("sg", v.Name), maps.Clone(v.Tags)
		b.security[v.ID] = &v
		answer.Security = []cloud.SecurityGroup{{ID: v.ID}}
		return answer, nil
	case s == nil && c.Verb == cloud.DeleteSecurityGroup:
		return answer, nil
	case s == nil:
		return answer, refuse(c, cloud.Missing, "there is no security group "+c.Security.ID)
	case c.Verb == cloud.DeleteSecurityGroup:
		return answer, b.deleteSecurity(c, s)
	}
	for _, r := range c.Security.Rules {
		if g := b.security[r.Group]; r.Group != "" && g == nil && c.Verb == cloud.AllowIngress {
			return answer, refuse(c, cloud.Missing, "there is no security group "+r.Group)
		}
		had := len(s.Rules)
		s.Rules = slices.DeleteFunc(s.Rules, func(o cloud.Rule) bool {
			o.Description = r.Description
			return o == r
		})
		if c.Verb == cloud.DescribeIngress && len(s.Rules) == had {
			return answer, refuse(c, cloud.Missing, "there is no such rule in "+c.Security.ID)
		}
		if c.Verb != cloud.RevokeIngress {
			s.Rules = append(s.Rules, r)
		}
	}
	return answer, nil
}

// deleteSecurity deletes a security group, unless an object uses it.
func (b *Balancers) deleteSecurity(c cloud.BalancerChange, s *cloud.SecurityGroup) error {
	for _, v := range b.balancers {
		if slices.Contains(v.Security, s.ID) {
			return refuse(c, cloud.Taken, "the load balancer "+v.Name+" uses "+s.ID)
		}
	}
	for _, other := range b.security {
		if other != s && slices.ContainsFunc(other.Rules, func(r cloud.Rule) bool { return r.Group == s.ID }) {
			return refuse(c, cloud.Taken, "rules of "+other.ID+" refer to "+s.ID)
		}
	}
	if b.lingers[s.ID] > 0 {
		b.lingers[s.ID]--
		return refuse(c, cloud.Taken, "a network interface uses "+s.ID)
	}
	delete(b.security, s.ID)
	return nil
}

func (b *Balancers) changeGroup(c cloud.BalancerChange) (answer cloud.Balancing, err error) {
	g := b.groups[c.Group.ID]
	switch {
	case c.Verb == cloud.CreateGroup:
		for _, other := range b.groups {
			if other.Name == c.Group.Name {
				return answer, refuse(c, cloud.Changed, "the name "+c.Group.Name+" is in use; delete the target group")
			}
		}
		v := c.Group
		v.ID, v.Tags, v.Attributes = b.id("tg", v.Name), maps.Clone(v.Tags), make(map[string]string)
		if v.Health.Codes == "" && v.Health.Protocol != cloud.TCP {
			v.Health.Codes = "200-399"
		}
		b.groups[v.ID] = &v
		answer.Groups = []cloud.TargetGroup{{ID: v.ID, Health: v.Health}}
		return answer, nil
	case g == nil && c.Verb == cloud.DeleteGroup:
		return answer, nil
	case g == nil:
		return answer, refuse(c, cloud.Missing, "there is no target group "+c.Group.ID)
	case c.Verb == cloud.DeleteGroup:
		if len(b.using(g.ID)) > 0 {
			return answer, refuse(c, cloud.Taken, "a listener uses "+g.Name)
		}
		delete(b.groups, g.ID)
	case c.Verb == cloud.SetHealthCheck:
		g.Health = c.Group.Health
	case c.Verb == cloud.SetGroupAttributes:
		maps.Copy(g.Attributes, c.Group.Attributes)
	default:
		return answer, b.changeTargets(c, g)
	}
	return answer, nil
}

// changeTargets registers or deregisters targets: all of them or none.
func (b *Balancers) changeTargets(c cloud.BalancerChange, g *cloud.TargetGroup) error {
	if len(c.Group.Targets) > cloud.MostTargets {
		return refuse(c, cloud.Refused, "too many targets")
	}
	for _, t := range c.Group.Targets {
		if c.Verb == cloud.Register && !b.runs(t.ID, g.Network) {
			return refuse(c, cloud.Refused, "the instance "+t.ID+" does not run in "+g.Network)
		}
	}
	for _, t := range c.Group.Targets {
		g.Targets = slices.DeleteFunc(g.Targets, func(o cloud.Target) bool { return o.ID == t.ID && o.Port == t.Port })
		if c.Verb == cloud.Register {
			t.State = "healthy"
			g.Targets = append(g.Targets, t)
		}
	}
	return nil
}

func (b *Balancers) runs(id, network string) (is bool) {
	b.Fleet.Do(func() {
		for _, i := range b.Fleet.instances {
			is = is || i.ID == id && i.Network == network && i.State == cloud.Running
		}
	})
	return is
}

func (b *Balancers) changeListener(c cloud.BalancerChange) (answer cloud.Balancing, err error) {
	want := c.Listener
	v := b.balancers[want.Balancer]
	if v == nil {
		if c.Verb == cloud.DeleteListener {
			return answer, nil
		}
		return answer, refuse(c, cloud.Missing, "there is no load balancer "+want.Balancer)
	}
	if c.Verb == cloud.DeleteListener {
		v.Listeners = slices.DeleteFunc(v.Listeners, func(l cloud.Listener) bool { return l.ID == want.ID })
		return answer, nil
	}
	g := b.groups[want.Group]
	behind := want.Protocol
	if behind == cloud.TLS && g != nil && g.Protocol == cloud.TCP {
		behind = cloud.TCP
	}
	switch {
	case g == nil:
		return answer, refuse(c, cloud.Missing, "there is no target group "+want.Group)
	case g.Protocol != behind:
		return answer, refuse(c, cloud.Refused, "the target group is for "+string(g.Protocol))
	case g.Network != v.Network:
		return answer, refuse(c, cloud.Refused, "the target group is in "+g.Network)
	case slices.ContainsFunc(b.using(g.ID), func(id string) bool { return id != v.ID }):
		return answer, refuse(c, cloud.Taken, "another load balancer uses "+g.Name)
	}
	if want.Protocol == cloud.TLS && want.Policy == "" {
		want.Policy = "ELBSecurityPolicy-2016-08"
	}
	if c.Verb == cloud.CreateListener {
		if slices.ContainsFunc(v.Listeners, func(l cloud.Listener) bool { return l.Port == want.Port }) {
			return answer, refuse(c, cloud.Changed, "there is a listener on this port")
		}
		want.ID = b.id("listener", v.Name)
		v.Listeners = append(v.Listeners, want)
		answer.Balancers = []cloud.Balancer{{ID: v.ID, Listeners: []cloud.Listener{want}}}
		return answer, nil
	}
	for i, l := range v.Listeners {
		if l.ID == want.ID {
			v.Listeners[i] = want
			return answer, nil
		}
	}
	return answer, refuse(c, cloud.Missing, "there is no listener "+want.ID)
}

func (b *Balancers) changeBalancer(c cloud.BalancerChange) (answer cloud.Balancing, err error) {
	want := c.Balancer
	v := b.balancers[want.ID]
	switch {
	case c.Verb == cloud.CreateBalancer:
		return b.createBalancer(c)
	case v == nil && c.Verb == cloud.DeleteBalancer:
		return answer, nil
	case v == nil:
		return answer, refuse(c, cloud.Missing, "there is no load balancer "+want.ID)
	}
	switch c.Verb {
	case cloud.DeleteBalancer:
		if v.Attributes["deletion_protection.enabled"] == "true" {
			return answer, refuse(c, cloud.Refused, "the load balancer "+v.Name+" is protected from deletion; switch the attribute off")
		}
		for _, id := range v.Security {
			b.lingers[id] = b.Linger
		}
		delete(b.balancers, v.ID)
	case cloud.SetBalancerAttributes:
		maps.Copy(v.Attributes, want.Attributes)
	case cloud.SetSubnets:
		v.Mappings, v.Families = slices.Clone(want.Mappings), want.Families
	case cloud.SetFamilies:
		v.Families = want.Families
	case cloud.SetSecurity:
		if len(v.Security) == 0 {
			return answer, refuse(c, cloud.Refused, "the load balancer was made without security groups")
		}
		v.Security = slices.Clone(want.Security)
	}
	return answer, nil
}

func (b *Balancers) createBalancer(c cloud.BalancerChange) (answer cloud.Balancing, err error) {
	v := c.Balancer
	zones := make(map[string]bool)
	for _, p := range v.Mappings {
		i := slices.IndexFunc(b.subnets, func(s cloud.Subnet) bool { return s.ID == p.Subnet })
		if i < 0 {
			return answer, refuse(c, cloud.Missing, "there is no subnet "+p.Subnet)
		}
		if zones[p.Zone] {
			return answer, refuse(c, cloud.Refused, "two subnets are in the zone "+p.Zone)
		}
		zones[p.Zone], v.Network = true, b.subnets[i].Network
	}
	for _, id := range v.Security {
		if b.security[id] == nil {
			return answer, refuse(c, cloud.Missing, "there is no security group "+id)
		}
	}
	for _, other := range b.balancers {
		if other.Name == v.Name {
			return answer, refuse(c, cloud.Changed, "the name "+v.Name+" is in use; delete the load balancer")
		}
	}
	if b.Most > 0 && len(b.balancers) >= b.Most {
		return answer, refuse(c, cloud.Full, "the quota of load balancers is used up; ask AWS for a higher one")
	}
	v.ID, v.State, v.Tags, v.Attributes = b.id("lb", v.Name), "active", maps.Clone(v.Tags), make(map[string]string)
	v.Host = v.Name + "-0123456789abcdef.elb.fake-1.amazonaws.com"
	b.balancers[v.ID] = &v
	answer.Balancers = []cloud.Balancer{{ID: v.ID, Host: v.Host, State: "provisioning", Network: v.Network}}
	return answer, nil
}
