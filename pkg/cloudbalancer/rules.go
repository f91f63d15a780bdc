package cloudbalancer

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// balancerOf returns the name of the balancer that a rule in a security group of Nodes is
// for, or "". One of another source, such as a prefix list, is for none, whatever its
// description.
func balancerOf(r cloud.Rule) string {
	if !r.Source.IsValid() && r.Group == "" {
		return ""
	}
	for _, kind := range [...]string{clientRule, healthRule, mtuRule} {
		if name, is := strings.CutPrefix(r.Description, kind); is {
			return name
		}
	}
	return ""
}

// isRuleOf reports whether a rule in a security group of Nodes is for a balancer.
func isRuleOf(r cloud.Rule, balancer string) bool { return balancerOf(r) == balancer }

// ownRules are the rules of the balancer's own security group: who may connect.
func (w Want) ownRules() (all []cloud.Rule) {
	for _, source := range w.Sources {
		for _, f := range w.Fronts {
			for _, p := range protocols(f.Protocol) {
				all = append(all, cloud.Rule{Protocol: p, From: f.Port, To: f.Port, Source: source})
			}
		}
		all = append(all, fragmentation(source))
	}
	return sorted(all)
}

// fragmentation is the rule for messages that a packet is too big, without which large
// packets vanish.
func fragmentation(source netip.Prefix) cloud.Rule {
	if source.Addr().Is6() {
		return cloud.Rule{Protocol: "icmpv6", From: 2, To: 0, Source: source}
	}
	return cloud.Rule{Protocol: "icmp", From: 3, To: 4, Source: source}
}

// nodeRules are the rules of the security groups of Nodes: what the balancer sends to
// them. via is its security group; a balancer without one sends with the addresses of its
// clients, and checks from those of its subnets.
func (w Want) nodeRules(via string, subnets []netip.Prefix) (all []cloud.Rule) {
	client, health := clientRule+w.Balancer, healthRule+w.Balancer
	seen := make(map[cloud.Rule]bool)
	add := func(r cloud.Rule) {
		if t := traffic(r); !seen[t] {
			seen[t], all = true, append(all, r)
		}
	}
	sources, checkers := make([]cloud.Rule, 0, len(w.Sources)), make([]cloud.Rule, 0, len(subnets))
	if via != "" {
		sources, checkers = append(sources, cloud.Rule{Group: via}), append(checkers, cloud.Rule{Group: via})
	} else {
		for _, p := range w.Sources {
			sources = append(sources, cloud.Rule{Source: p})
		}
		for _, p := range subnets {
			checkers = append(checkers, cloud.Rule{Source: p})
		}
	}
	for _, f := range w.Fronts {
		for _, p := range protocols(f.Backend) {
			for _, r := range sources {
				r.Protocol, r.From, r.To, r.Description = p, f.NodePort, f.NodePort, client
				add(r)
			}
		}
	}
	for _, f := range w.Fronts {
		port := f.NodePort
		if n, err := strconv.Atoi(f.Health.Port); err == nil {
			port = n
		}
		for _, r := range checkers {
			r.Protocol, r.From, r.To, r.Description = "tcp", port, port, health
			add(r)
		}
	}
	for _, r := range sources {
		if via == "" {
			m := fragmentation(r.Source)
			m.Description = mtuRule + w.Balancer
			add(m)
		}
	}
	return sorted(all)
}

func sorted(all []cloud.Rule) []cloud.Rule {
	slices.SortFunc(all, cloud.Rule.Compare)
	return slices.Compact(all)
}

// missing returns those rules of want whose traffic has does not allow.
func missing(has, want []cloud.Rule) (all []cloud.Rule) {
	allowed := trafficOf(has)
	for _, r := range want {
		if !allowed[traffic(r)] {
			all = append(all, r)
		}
	}
	return all
}

// superfluous returns those rules of has that are not wanted, of those that match.
func superfluous(has, want []cloud.Rule, match func(cloud.Rule) bool) (all []cloud.Rule) {
	wanted := trafficOf(want)
	for _, r := range has {
		if match(r) && !wanted[traffic(r)] {
			all = append(all, r)
		}
	}
	return all
}

// describe returns rules for people.
func describe(rules []cloud.Rule) string {
	const most = 6
	var all []string
	for i, r := range rules {
		if i == most {
			all = append(all, strconv.Itoa(len(rules)-most)+" more")
			break
		}
		from := r.Group
		if r.Source.IsValid() {
			from = r.Source.String()
		}
		all = append(all, r.Protocol+" "+ports(r)+" from "+from)
	}
	return strings.Join(all, ", ")
}

func ports(r cloud.Rule) string {
	if r.From == r.To {
		return strconv.Itoa(r.From)
	}
	return strconv.Itoa(r.From) + "-" + strconv.Itoa(r.To)
}

// traffic returns a rule without its description: two rules for the same traffic are one to
// AWS.
func traffic(r cloud.Rule) cloud.Rule {
	r.Description = ""
	return r
}

// trafficOf returns the set of what rules allow.
func trafficOf(rules []cloud.Rule) map[cloud.Rule]bool {
	all := make(map[cloud.Rule]bool, len(rules))
	for _, r := range rules {
		all[traffic(r)] = true
	}
	return all
}
