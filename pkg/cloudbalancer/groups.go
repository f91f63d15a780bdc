package cloudbalancer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// fits reports whether a target group can serve a front: all that cannot be changed is as
// the front needs it.
func (p *planner) fits(g cloud.TargetGroup, f Front, network string) bool {
	return g.Kind == "instance" && g.Network == network && g.Protocol == f.Backend && g.Port == f.NodePort &&
		cmp.Or(g.Family, string(cloud.IPv4Only)) == p.want.GroupFamily && g.Health.Protocol == f.Health.Protocol
}

// groups makes the target groups as they are to be, and returns the ID of each front's; ""
// if there is none yet.
func (p *planner) groups(network string) []string {
	all := make([]string, len(p.want.Fronts))
	take := func(i int, wanted func(cloud.TargetGroup) bool) {
		for _, g := range p.holding.Groups {
			if all[i] == "" && !p.used[g.ID] && wanted(g) && p.fits(g, p.want.Fronts[i], network) {
				all[i], p.used[g.ID] = g.ID, true
			}
		}
	}
	for i, f := range p.want.Fronts { // those that are in use come first
		if l := p.listener(f); l != nil {
			take(i, func(g cloud.TargetGroup) bool { return g.ID == l.Group })
		}
	}
	for i, f := range p.want.Fronts {
		take(i, func(g cloud.TargetGroup) bool { return g.Name == p.want.groupName(f) })
	}
	tags := p.want.tags(p.want.cluster, p.want.Tags)
	for i, f := range p.want.Fronts {
		if all[i] == "" {
			name := p.want.groupName(f)
			p.add(Change{
				BalancerChange: cloud.BalancerChange{Verb: cloud.CreateGroup, Group: cloud.TargetGroup{
					Name: name, Network: network, Protocol: f.Backend, Port: f.NodePort, Kind: "instance", Family: p.want.GroupFamily, Health: f.Health, Tags: tags,
				}},
				Kind: GroupKind, Object: name, Summary: fmt.Sprintf("create target group %s for %s port %d of Nodes", name, f.Backend, f.NodePort), After: checkOf(f.Health),
			})
			continue
		}
		n := slices.IndexFunc(p.holding.Groups, func(g cloud.TargetGroup) bool { return g.ID == all[i] })
		g := p.holding.Groups[n]
		p.targets(g, f.NodePort)
		p.check(g, f.Health)
		if lacks := differing(g.Attributes, p.want.attributesOf(f.Backend)); len(lacks) > 0 {
			p.add(Change{
				BalancerChange: cloud.BalancerChange{Verb: cloud.SetGroupAttributes, Group: cloud.TargetGroup{ID: g.ID, Attributes: lacks}},
				Kind:           GroupKind, Object: g.ID, Summary: "set " + pairsOf(lacks) + " of " + g.Name, Before: pairsOf(before(g.Attributes, lacks)), After: pairsOf(lacks),
			})
		}
		p.tags(GroupKind, g.ID, g.Name, g.Tags, tags)
	}
	return all
}

// check changes the health check of a target group.
func (p *planner) check(g cloud.TargetGroup, want cloud.HealthCheck) {
	if want.Codes == "" {
		want.Codes = g.Health.Codes // the cloud's own
	}
	if g.Health == want {
		return
	}
	p.add(Change{
		BalancerChange: cloud.BalancerChange{Verb: cloud.SetHealthCheck, Group: cloud.TargetGroup{ID: g.ID, Health: want}},
		Kind:           GroupKind, Object: g.ID, Summary: "check the targets of " + g.Name + " by " + checkOf(want), Before: checkOf(g.Health), After: checkOf(want),
	})
}

// targets makes the targets of a group those that are to be. Without any it leaves them as
// they are: what does not work fails its health check, and traffic to it is better than
// none.
func (p *planner) targets(g cloud.TargetGroup, port int) {
	registered := make(map[string]bool)
	var remove, add []cloud.Target
	for _, t := range g.Targets {
		switch {
		case t.State == "draining":
		case t.Port == port && p.targetIDs[t.ID]:
			registered[t.ID] = true
		case t.Port == port && p.undecided[t.ID]:
		default:
			remove = append(remove, cloud.Target{ID: t.ID, Port: t.Port})
		}
	}
	for _, id := range p.setting.Targets {
		if n := p.setting.Networks[id]; !registered[id] && (n == "" || n == g.Network) {
			add = append(add, cloud.Target{ID: id, Port: port})
		}
	}
	p.full[g.ID] = len(add) == 0
	p.chunk(cloud.Register, g, add)
	if !p.Unavailable {
		p.chunk(cloud.Deregister, g, remove)
	}
}

// chunk changes as many targets as one call may have.
func (p *planner) chunk(verb cloud.BalancerVerb, g cloud.TargetGroup, all []cloud.Target) {
	if len(all) == 0 {
		return
	}
	slices.SortFunc(all, func(a, b cloud.Target) int { return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port)) })
	now := all[:min(len(all), p.setting.Chunk)]
	c := Change{
		BalancerChange: cloud.BalancerChange{Verb: verb, Group: cloud.TargetGroup{ID: g.ID, Targets: now}},
		Kind:           GroupKind, Object: g.ID, Summary: fmt.Sprintf("register %s in %s", targetsOf(now), g.Name), After: targetsOf(now),
	}
	if verb == cloud.Deregister {
		c.Summary, c.Before, c.After = fmt.Sprintf("deregister %s from %s", targetsOf(now), g.Name), targetsOf(now), "draining"
		c.Mark = ServiceTag + "=" + p.want.Key()
	}
	p.add(c)
}

// orphans deletes the target groups that nothing leads to any more.
func (p *planner) orphans() {
	b := p.holding.Balancer
	if b == nil {
		return
	}
	for _, g := range p.holding.Groups {
		leads := slices.ContainsFunc(b.Listeners, func(l cloud.Listener) bool { return l.Group == g.ID })
		others := slices.ContainsFunc(g.Balancers, func(id string) bool { return id != b.ID })
		if !p.used[g.ID] && !leads && !others {
			p.deleteGroup(g)
		}
	}
}

func (p *planner) deleteGroup(g cloud.TargetGroup) {
	p.add(Change{
		BalancerChange: cloud.BalancerChange{Verb: cloud.DeleteGroup, Group: cloud.TargetGroup{ID: g.ID}},
		Kind:           GroupKind, Object: g.ID, Summary: "delete target group " + g.Name, Before: g.Name, After: "none", Mark: ServiceTag + "=" + g.Tags[ServiceTag],
	})
}

// checkOf returns a health check for people.
func checkOf(h cloud.HealthCheck) string {
	return fmt.Sprintf("%s %s%s every %d s", h.Protocol, h.Port, h.Path, h.Interval)
}

// targetsOf returns targets for people.
func targetsOf(all []cloud.Target) string {
	const most = 5
	var ids []string
	for i, t := range all {
		if i == most {
			ids = append(ids, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		ids = append(ids, t.ID)
	}
	return strings.Join(ids, ", ")
}

// pairsOf returns keys and values for people, in order.
func pairsOf(all map[string]string) string {
	var items []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		items = append(items, key+"="+all[key])
	}
	return strings.Join(items, ", ")
}

// before returns the present values of attributes that change.
func before(has, change map[string]string) map[string]string {
	all := make(map[string]string, len(change))
	for key := range change {
		if value, is := has[key]; is {
			all[key] = value
		} else {
			all[key] = initial[key]
		}
	}
	return all
}
