package cloudbalancer

import (
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Remove returns what removes all that was made for a Service. It is Done when nothing is
// left. What is not ours stays.
func Remove(cluster string, s Ref, h Holding) Step {
	p := newPlanner(Want{Ref: s, cluster: cluster, Balancer: BalancerName(s.UID)}, h, Setting{})
	if b := h.Balancer; b != nil {
		p.add(Change{
			BalancerChange: cloud.BalancerChange{Verb: cloud.DeleteBalancer, Balancer: cloud.Balancer{ID: b.ID}},
			Kind:           BalancerKind, Object: b.ID, Summary: "delete load balancer " + b.Name + " of Service " + s.Key(), Before: b.Host, After: "none",
			Mark: clusterTag + cluster + "=" + owned,
		})
		// The rest is in use until it is gone. If the cloud refuses, the Nodes stay open to it.
		return p.Step
	}
	for _, g := range h.Nodes {
		ours := func(r cloud.Rule) bool {
			return isRuleOf(r, p.want.Balancer) || h.Own != nil && r.Group == h.Own.ID && g.Tags[clusterTag+cluster] == owned
		}
		p.release(g, superfluous(g.Rules, nil, ours))
	}
	for _, g := range h.Groups {
		p.deleteGroup(g)
	}
	refers := slices.ContainsFunc(p.Changes, func(c Change) bool { return c.Verb == cloud.RevokeIngress })
	if h.Own != nil && !refers {
		p.deleteSecurity(*h.Own)
	}
	p.Done = len(p.Changes) == 0
	return p.Step
}

func (p *planner) deleteSecurity(g cloud.SecurityGroup) {
	p.add(Change{
		BalancerChange: cloud.BalancerChange{Verb: cloud.DeleteSecurityGroup, Security: cloud.SecurityGroup{ID: g.ID}},
		Kind:           SecurityKind, Object: g.ID, Summary: "delete security group " + g.Name, Before: g.Name, After: "none", Mark: clusterTag + p.want.cluster + "=" + owned,
	})
}
