package cloudbalancer

import (
	"fmt"
	"slices"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Setting is what a step needs beside what the Service wants and has.
type Setting struct {
	// Subnets are those of the cluster's network.
	Subnets []cloud.Subnet
	// Targets are the IDs of the instances that are to be targets. Those in Undecided are
	// neither added nor removed.
	Targets, Undecided []string
	// Networks are the networks of the instances, where these are known. One in another
	// network is no target.
	Networks map[string]string
	// NodeGroups are the IDs of the security groups of the targets, and NodesKnown is set
	// if there are no others.
	NodeGroups []string
	NodesKnown bool
	// NodeRules is set if these get rules.
	NodeRules bool
	// MostListeners is the account's quota of listeners of a balancer, or 0 if that is unknown.
	MostListeners int
	// Chunk limits the targets of one call; 0 is the limit of the cloud.
	Chunk int
}

// Change is one call, with what people need to know of it.
type Change struct {
	cloud.BalancerChange
	// Kind and Object are what is changed: in one step, no two changes have the same
	// Object and Verb.
	Kind, Object           string
	Summary, Before, After string
	// Mark is what makes a deletion ours.
	Mark string
}

// The kinds of objects, for people.
const (
	BalancerKind = "LoadBalancer"
	GroupKind    = "TargetGroup"
	ListenerKind = "Listener"
	SecurityKind = "SecurityGroup"
)

// Step is what can be done now for a Service. When all its changes have ended, there may
// be another one.
type Step struct {
	Changes []Change
	// Details and Security are IDs of objects that have to be read before.
	Details, Security []string
	Problems          []Problem
	// Done is set if the Service has all that it wants, and Host is then its name in the
	// DNS.
	Done bool
	// Unavailable is set if there is no instance that could be a target.
	Unavailable bool
}

// planner works out one step.
type planner struct {
	Step
	want    Want
	holding Holding
	setting Setting
	// used are the IDs of the target groups that fronts have.
	used map[string]bool
	// targetIDs and undecided are the sets of the Setting.
	targetIDs, undecided map[string]bool
	// full are the IDs of the target groups that have all their targets.
	full map[string]bool
}

// Next returns what can be done now for a Service that is ours.
func Next(w Want, h Holding, s Setting) Step {
	p := newPlanner(w, h, s)
	if p.Details = h.Details(); len(p.Details) > 0 {
		return p.Step
	}
	if h.Foreign != "" && h.Balancer == nil {
		p.fatal(h.Foreign)
		return p.Step
	}
	if n := len(w.Fronts); s.MostListeners > 0 && n > s.MostListeners {
		// AWS would make some of them, and refuse the rest.
		step := Follow(w, h, s)
		step.Problems = append(step.Problems, Problem{true, fmt.Sprintf("the Service needs %d listeners, and the account may have %d for a load balancer; ask AWS for a higher quota (L-57A373D6), or use fewer ports", n, s.MostListeners)})
		return step
	}
	network, subnets, ok := p.network()
	if !ok {
		return p.Step
	}
	via := p.security(network)
	groups := p.groups(network)
	p.balancer(subnets, via)
	p.listeners(groups)
	p.orphans()
	p.nodes(via)
	p.setSecurity(via)
	p.Done = len(p.Changes) == 0 && len(p.Security) == 0 && h.Balancer != nil && !p.isFatal()
	return p.Step
}

// Follow returns what keeps the targets of a Service up to date of which the rest cannot
// be worked out. It changes nothing if it is not clear which Nodes are to be targets.
func Follow(w Want, h Holding, s Setting) Step {
	if w.NodesUnclear {
		return Step{}
	}
	p := newPlanner(w, h, s)
	if p.Details = h.Details(); len(p.Details) > 0 || h.Balancer == nil {
		return p.Step
	}
	for _, g := range h.Groups {
		if slices.ContainsFunc(h.Balancer.Listeners, func(l cloud.Listener) bool { return l.Group == g.ID }) {
			p.targets(g, g.Port)
		}
	}
	return p.Step
}

func newPlanner(w Want, h Holding, s Setting) *planner {
	if s.Chunk <= 0 || s.Chunk > cloud.MostTargets {
		s.Chunk = cloud.MostTargets
	}
	p := &planner{want: w, holding: h, setting: s, used: make(map[string]bool), full: make(map[string]bool), targetIDs: setOf(s.Targets), undecided: setOf(s.Undecided)}
	p.Unavailable = len(s.Targets) == 0 && len(s.Undecided) == 0
	return p
}

func (p *planner) fatal(text string)  { p.Problems = append(p.Problems, Problem{true, text}) }
func (p *planner) remark(text string) { p.Problems = append(p.Problems, Problem{false, text}) }

func (p *planner) isFatal() bool {
	return slices.ContainsFunc(p.Problems, func(x Problem) bool { return x.Fatal })
}

func (p *planner) add(c Change) { p.Changes = append(p.Changes, c) }

// network returns the ID of the cloud's network that everything is in, and the subnets of
// a balancer that is to be made or may grow.
func (p *planner) network() (id string, subnets []cloud.Subnet, ok bool) {
	b := p.holding.Balancer
	subnets, problem := p.want.chosen(p.setting.Subnets)
	switch {
	case b == nil && problem != "":
		p.fatal(problem)
		return "", nil, false
	case b == nil:
		return subnets[0].Network, subnets, true
	case problem != "":
		if len(p.want.Subnets) > 0 {
			p.remark(problem)
		}
		return b.Network, nil, true
	}
	return b.Network, slices.DeleteFunc(subnets, func(s cloud.Subnet) bool { return s.Network != b.Network }), true
}

func setOf(items []string) map[string]bool {
	all := make(map[string]bool, len(items))
	for _, item := range items {
		all[item] = true
	}
	return all
}
