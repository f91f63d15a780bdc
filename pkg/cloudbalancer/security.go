package cloudbalancer

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// description is that of a balancer's security group.
const description = "Clients of a Kubernetes Service's load balancer"

// makesOwn reports whether the balancer has a security group of ours. AWS gives none to a
// balancer that was made without.
func (p *planner) makesOwn() bool {
	b := p.holding.Balancer
	return len(p.want.Security) == 0 && (b == nil || len(b.Security) > 0)
}

// security makes the balancer's own security group as it is to be, and returns the IDs of
// all that it is to have; none before that of its own is known.
func (p *planner) security(network string) (via []string) {
	w, h := p.want, p.holding
	if h.Balancer != nil && len(h.Balancer.Security) == 0 {
		if w.asks {
			p.remark("AWS gives no security groups to the balancer, which was made without; re-create the Service, or leave out " + Prefix + aSecurity + " and " + Prefix + aExtra)
		}
		return nil
	}
	if !p.makesOwn() {
		all := slices.Concat(w.Security, w.Extra)
		slices.Sort(all)
		return slices.Compact(all)
	}
	name := securityName(w.Balancer)
	tags := w.tags(w.cluster, w.Tags)
	rules := w.ownRules()
	if h.Own == nil {
		p.add(Change{
			BalancerChange: cloud.BalancerChange{Verb: cloud.CreateSecurityGroup, Security: cloud.SecurityGroup{Name: name, Network: network, Description: description, Tags: tags}},
			Kind:           SecurityKind, Object: name, Summary: "create security group " + name + " in " + network, After: name,
		})
		return nil
	}
	own := *h.Own
	if lacks := missing(own.Rules, rules); len(lacks) > 0 {
		p.rules(cloud.AllowIngress, own, lacks)
	} else {
		foreign := func(r cloud.Rule) bool { return r.Source.IsValid() }
		if more := superfluous(own.Rules, rules, foreign); len(more) > 0 {
			p.rules(cloud.RevokeIngress, own, more)
		}
	}
	p.tags(SecurityKind, own.ID, own.Name, own.Tags, tags)
	all := append([]string{own.ID}, w.Extra...)
	slices.Sort(all)
	return slices.Compact(all)
}

// rules adds, removes or describes rules of a security group.
func (p *planner) rules(verb cloud.BalancerVerb, of cloud.SecurityGroup, rules []cloud.Rule) {
	c := Change{
		BalancerChange: cloud.BalancerChange{Verb: verb, Security: cloud.SecurityGroup{ID: of.ID, Rules: rules}},
		Kind:           SecurityKind, Object: of.ID, Summary: "allow " + describe(rules) + " into " + of.ID, After: describe(rules),
	}
	switch verb {
	case cloud.DescribeIngress:
		heirs := strings.Join(HeirsOf(rules), " and ")
		c.Summary, c.Before, c.After = "leave the rules "+describe(rules)+" of "+of.ID+" to "+heirs, "rules of "+p.want.Balancer, "rules of "+heirs
	case cloud.RevokeIngress:
		c.Summary, c.Before, c.After = "no longer allow "+describe(rules)+" into "+of.ID, describe(rules), "none"
		if c.Mark = rules[0].Description; c.Mark == "" {
			c.Mark = clusterTag + p.want.cluster + "=" + owned
		}
	}
	p.add(c)
}

// tags adds the tags that an object lacks.
func (p *planner) tags(kind, id, name string, has, want map[string]string) {
	lacks := lacking(has, want)
	if len(lacks) == 0 {
		return
	}
	p.add(Change{
		BalancerChange: cloud.BalancerChange{Verb: cloud.AddTags, Object: id, Tags: lacks},
		Kind:           kind, Object: id, Summary: "tag " + name + " with " + pairsOf(lacks), After: pairsOf(lacks),
	})
}

// nodes gives the security groups of Nodes the rules for the balancer. via are the security
// groups that it is to have.
func (p *planner) nodes(via []string) {
	w, b := p.want, p.holding.Balancer
	if !p.setting.NodeRules {
		return
	}
	source := ""
	switch {
	case len(via) == 0 && (b == nil || len(b.Security) > 0):
		return // the source is not known yet
	case p.holding.Own != nil && slices.Contains(via, p.holding.Own.ID):
		source = p.holding.Own.ID
	case len(w.Security) > 0 && len(via) > 0:
		source = w.Security[0]
	}
	rules := w.nodeRules(source, w.checkers(b, p.setting.Subnets))
	known := make(map[string]bool)
	for _, g := range p.holding.Nodes {
		known[g.ID] = true
		ours := func(r cloud.Rule) bool { return isRuleOf(r, w.Balancer) }
		if slices.Contains(p.setting.NodeGroups, g.ID) {
			if lacks := missing(g.Rules, rules); len(lacks) > 0 {
				p.rules(cloud.AllowIngress, g, lacks)
			} else if p.isSettled(via) {
				p.release(g, superfluous(g.Rules, rules, ours))
			}
		} else if p.setting.NodesKnown {
			p.release(g, superfluous(g.Rules, nil, ours))
		}
	}
	for _, id := range p.setting.NodeGroups {
		if !known[id] {
			p.Security = append(p.Security, id)
		}
	}
}

// isSettled reports whether the balancer and its listeners are as they are to be, so that
// no traffic needs an earlier rule any more.
func (p *planner) isSettled(via []string) bool {
	b := p.holding.Balancer
	if b == nil || !slices.Equal(b.Security, via) {
		return false
	}
	return !slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Kind == ListenerKind || c.Kind == GroupKind })
}

// HeirsOf returns the names of the balancers that the descriptions of rules in security
// groups of Nodes have.
func HeirsOf(rules []cloud.Rule) (names []string) {
	for _, r := range rules {
		names = append(names, r.Description[strings.LastIndexByte(r.Description, '=')+1:])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// release removes rules of ours that the balancer no longer needs from a security group of
// Nodes. AWS keeps rules for the same traffic as one, with the description of the first.
// One that another balancer needs gets the description of that one, which removes it
// later.
func (p *planner) release(g cloud.SecurityGroup, rules []cloud.Rule) {
	if len(rules) == 0 {
		return
	}
	var shared []cloud.Rule
	if p.holding.Shared != nil {
		shared = p.holding.Shared(g.ID)
	}
	if gone := missing(shared, rules); len(gone) > 0 {
		p.rules(cloud.RevokeIngress, g, gone)
	}
	stay, heirs, seen := trafficOf(rules), []cloud.Rule(nil), make(map[cloud.Rule]bool)
	for _, r := range shared {
		if t := traffic(r); stay[t] && !seen[t] {
			seen[t], heirs = true, append(heirs, r)
		}
	}
	if len(heirs) > 0 {
		p.rules(cloud.DescribeIngress, g, sorted(heirs))
	}
}

// Shared returns those rules in the security groups of Nodes that the balancers of wants
// need, and that others may need, too: all but those from a balancer's own security group.
func (a *Account) Shared(wants []Want, subnets []cloud.Subnet) (all []cloud.Rule) {
	byName := make(map[string]*cloud.Balancer, len(a.balancers))
	for _, b := range a.balancers {
		byName[b.Name] = &b
	}
	for _, w := range wants {
		switch b := byName[w.Balancer]; {
		case b != nil && len(b.Security) == 0:
			all = append(all, w.nodeRules("", w.checkers(b, subnets))...)
		case len(w.Security) > 0:
			all = append(all, w.nodeRules(w.Security[0], nil)...)
		}
	}
	return all
}

// checkers are the ranges of the balancer's subnets, from which it checks its targets.
func (w Want) checkers(b *cloud.Balancer, subnets []cloud.Subnet) (all []netip.Prefix) {
	if b == nil {
		return nil
	}
	for _, m := range b.Mappings {
		for _, s := range subnets {
			if s.ID != m.Subnet {
				continue
			}
			if w.GroupFamily == string(cloud.IPv4Only) && s.IPv4.IsValid() {
				all = append(all, s.IPv4)
			} else if s.IPv6.IsValid() {
				all = append(all, s.IPv6)
			}
		}
	}
	slices.SortFunc(all, netip.Prefix.Compare)
	return slices.Compact(all)
}
