package cloudbalancer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// balancer makes the balancer as it is to be. via are the security groups that it is to
// have.
func (p *planner) balancer(subnets []cloud.Subnet, via []string) {
	w, b := p.want, p.holding.Balancer
	tags := w.tags(w.cluster, w.Tags)
	if b == nil {
		if len(via) == 0 {
			return // its security group comes first
		}
		v := cloud.Balancer{
			Name: w.Balancer, Scheme: w.Scheme, Families: w.Families, Network: subnets[0].Network, Mappings: w.mappings(subnets), Security: via, Tags: tags,
		}
		p.add(Change{
			BalancerChange: cloud.BalancerChange{Verb: cloud.CreateBalancer, Balancer: v},
			Kind:           BalancerKind, Object: v.Name, Summary: fmt.Sprintf("create %s network load balancer %s in %s for Service %s", v.Scheme, v.Name, mappingsOf(v.Mappings), w.Key()),
			After: fmt.Sprintf("%s, %s", v.Scheme, v.Families),
		})
		return
	}
	if b.Scheme != w.Scheme {
		p.fatal(fmt.Sprintf("the balancer is %s and the Service wants it %s, which AWS cannot change; take the change of %s back, or re-create the Service, which gives it another host name", b.Scheme, w.Scheme, Prefix+aScheme+" or "+Prefix+aInternal))
		return
	}
	if b.State == "failed" {
		p.fatal(fmt.Sprintf("AWS could not make the balancer: %.400s; re-create the Service", cmp.Or(b.Why, "no reason given")))
		return
	}
	mappings, grows := p.mappings(*b, subnets)
	switch {
	case grows:
		p.change(cloud.SetSubnets, cloud.Balancer{Families: w.Families, Mappings: mappings}, "set the subnets "+mappingsOf(mappings), mappingsOf(b.Mappings), mappingsOf(mappings))
	case w.Families != b.Families:
		p.change(cloud.SetFamilies, cloud.Balancer{Families: w.Families}, "set the address type "+string(w.Families), string(b.Families), string(w.Families))
	}
	if lacks := differing(b.Attributes, w.Attributes); len(lacks) > 0 {
		p.change(cloud.SetBalancerAttributes, cloud.Balancer{Attributes: lacks}, "set "+pairsOf(lacks), pairsOf(before(b.Attributes, lacks)), pairsOf(lacks))
	}
	p.tags(BalancerKind, b.ID, b.Name, b.Tags, tags)
	p.oldSecurity(via)
}

// change changes the balancer.
func (p *planner) change(verb cloud.BalancerVerb, v cloud.Balancer, summary, before, after string) {
	b := p.holding.Balancer
	v.ID = b.ID
	p.add(Change{BalancerChange: cloud.BalancerChange{Verb: verb, Balancer: v}, Kind: BalancerKind, Object: b.ID, Summary: summary + " of " + b.Name, Before: before, After: after})
}

// setSecurity sets the balancer's security groups once these and those of the Nodes lack no
// rule: otherwise a rule that AWS refuses would cut off all clients.
func (p *planner) setSecurity(via []string) {
	b := p.holding.Balancer
	if b == nil || len(via) == 0 || slices.Equal(via, b.Security) || p.isFatal() {
		return
	}
	if len(p.Security) > 0 || slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Verb == cloud.AllowIngress }) {
		return
	}
	p.change(cloud.SetSecurity, cloud.Balancer{Security: via}, "set the security groups "+strings.Join(via, ", "), strings.Join(b.Security, ", "), strings.Join(via, ", "))
}

// oldSecurity deletes our security group of a balancer that uses others now.
func (p *planner) oldSecurity(via []string) {
	own, b := p.holding.Own, p.holding.Balancer
	if own == nil || p.makesOwn() || slices.Contains(via, own.ID) || slices.Contains(b.Security, own.ID) {
		return
	}
	for _, g := range p.holding.Nodes { // rules that refer to it go first
		if slices.ContainsFunc(g.Rules, func(r cloud.Rule) bool { return r.Group == own.ID }) {
			return
		}
	}
	p.deleteSecurity(*own)
}

// mappings returns all subnets of an existing balancer, and whether they change. Without
// subnets that the Service names, it only gets those in other zones.
func (p *planner) mappings(b cloud.Balancer, subnets []cloud.Subnet) (all []cloud.SubnetMapping, changes bool) {
	wanted := p.want.mappings(subnets)
	exact := len(p.want.Subnets) > 0
	for _, m := range b.Mappings {
		if !exact || slices.ContainsFunc(wanted, func(o cloud.SubnetMapping) bool { return o.Subnet == m.Subnet }) || len(wanted) == 0 {
			all = append(all, m)
		} else {
			changes = true
		}
	}
	for _, m := range wanted {
		there := slices.ContainsFunc(b.Mappings, func(o cloud.SubnetMapping) bool {
			return o.Subnet == m.Subnet || !exact && o.Zone == m.Zone
		})
		if !there {
			all, changes = append(all, m), true
		}
	}
	cloud.SortMappings(all)
	return all, changes
}

// listener returns the listener of a front, or nil.
func (p *planner) listener(f Front) (found *cloud.Listener) {
	if p.holding.Balancer == nil {
		return nil
	}
	for _, l := range p.holding.Balancer.Listeners {
		if l.Port == f.Port && (found == nil || l.Protocol == f.Protocol) {
			found = &l
		}
	}
	return found
}

// listeners makes the listeners as they are to be. groups are the IDs of the fronts' target
// groups.
func (p *planner) listeners(groups []string) {
	b := p.holding.Balancer
	if b == nil || p.isFatal() {
		return
	}
	keeps := make(map[string]bool)
	for i, f := range p.want.Fronts {
		l := p.listener(f)
		if l != nil {
			keeps[l.ID] = true
		}
		want := cloud.Listener{Balancer: b.ID, Protocol: f.Protocol, Port: f.Port, Group: groups[i], Certificate: f.Certificate, Policy: f.Policy, ALPN: alpnOf(f.ALPN)}
		object := fmt.Sprintf("%s %d", b.Name, f.Port)
		text := fmt.Sprintf("%s port %d of %s to %s port %d of Nodes", f.Protocol, f.Port, b.Name, f.Backend, f.NodePort)
		switch {
		case groups[i] == "":
		case l == nil && slices.ContainsFunc(b.Listeners, func(o cloud.Listener) bool { return o.Port == f.Port }):
		case l == nil:
			p.add(Change{
				BalancerChange: cloud.BalancerChange{Verb: cloud.CreateListener, Listener: want, Tags: p.want.tags(p.want.cluster, p.want.Tags)},
				Kind:           ListenerKind, Object: object, Summary: "lead " + text, After: string(f.Protocol),
			})
		case l.Group != groups[i] && !p.full[groups[i]]: // the new targets come first
		default:
			if want.ID = l.ID; f.Protocol == cloud.TLS {
				want.Policy, want.ALPN = cmp.Or(f.Policy, l.Policy), alpnOf(cmp.Or(f.ALPN, l.ALPN))
			}
			if now := *l; want != now {
				p.add(Change{
					BalancerChange: cloud.BalancerChange{Verb: cloud.SetListener, Listener: want},
					Kind:           ListenerKind, Object: object, Summary: "lead " + text, Before: listenerOf(now), After: listenerOf(want),
				})
			}
		}
	}
	for _, l := range b.Listeners {
		if !keeps[l.ID] {
			p.add(Change{
				BalancerChange: cloud.BalancerChange{Verb: cloud.DeleteListener, Listener: cloud.Listener{ID: l.ID, Balancer: b.ID}},
				Kind:           ListenerKind, Object: fmt.Sprintf("%s %s %d", b.Name, l.Protocol, l.Port), Summary: fmt.Sprintf("delete the listener of %s port %d of %s", l.Protocol, l.Port, b.Name),
				Before: string(l.Protocol), After: "none", Mark: clusterTag + p.want.cluster + "=" + owned,
			})
		}
	}
}

// alpnOf returns an ALPN policy as listeners have it: "" is the policy None.
func alpnOf(policy string) string {
	if policy == noALPN {
		return ""
	}
	return policy
}

// listenerOf returns a listener for people.
func listenerOf(l cloud.Listener) string {
	text := string(l.Protocol) + " to " + cmp.Or(l.Group, "another action")
	if l.Certificate != "" {
		text += " with " + l.Certificate
	}
	return text
}

// mappingsOf returns the IDs of the mappings' subnets, as text.
func mappingsOf(all []cloud.SubnetMapping) string {
	var ids []string
	for _, p := range all {
		ids = append(ids, p.Subnet)
	}
	return strings.Join(ids, ", ")
}
