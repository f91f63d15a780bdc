package awsnet

import (
	"fmt"
	"slices"
	"strings"
)

// Quota is a limit of AWS for objects of a network.
type Quota struct {
	// Service and Code identify it in the API of Service Quotas.
	Service, Code string
	Name          string
	// Default is the limit of an account that did not request more.
	Default int
	// Kind is what is counted.
	Kind Kind
	// Of is set for a limit that applies to each VPC, table or group, and not to the
	// region.
	Of Kind
}

// Quotas are the limits that a network may exceed.
var Quotas = []Quota{
	{"vpc", "L-F678F1CE", "VPCs per region", 5, KindVPC, ""},
	{"vpc", "L-A4707A72", "internet gateways per region", 5, KindInternetGateway, ""},
	{"vpc", "L-45FE3B85", "egress-only internet gateways per region", 5, KindEgressGateway, ""},
	{"ec2", "L-0263D0A3", "elastic addresses per region", 5, KindAddress, ""},
	{"vpc", "L-FE5A380F", "NAT gateways per availability zone", 5, KindNATGateway, KindSubnet},
	{"vpc", "L-1B52E74A", "gateway endpoints per region", 20, KindEndpoint, ""},
	{"vpc", "L-E79EC296", "security groups per region", 2500, KindSecurityGroup, ""},
	{"elasticloadbalancing", "L-69A177A2", "network load balancers per region", 50, KindBalancer, ""},
	{"elasticloadbalancing", "L-B22855CB", "target groups per region", 3000, KindTargetGroup, ""},
	{"vpc", "L-407747CB", "subnets per VPC", 200, KindSubnet, KindVPC},
	{"vpc", "L-589F43AA", "route tables per VPC", 200, KindRouteTable, KindVPC},
	{"vpc", "L-83CA0A9D", "blocks of IPv4 per VPC", 5, KindBlock, KindVPC},
	{"vpc", "L-0EA8095F", "rules per security group, direction and family", 60, KindRule, KindSecurityGroup},
}

// Usage is the usage of a Quota by an account.
type Usage struct {
	// Limit is the account's own limit, or 0 if it is not known: Default then applies.
	Limit int
	// Used is the number of objects in the region, of this cluster and all others.
	// Zones has the number of NAT gateways in each zone. Neither is needed for limits
	// of a VPC or a group, because the plan contains those.
	Used  int
	Zones map[string]int
}

// Need is what a plan needs of a quota.
type Need struct {
	Quota
	Where             string // the zone or the group, or ""
	Limit, Used, More int
}

// Short reports whether the quota does not suffice.
func (n Need) Short() bool { return n.Used+n.More > n.Limit }

func (n Need) String() string {
	where := ""
	if n.Where != "" {
		where = " in " + n.Where
	}
	text := fmt.Sprintf("%s%s: the limit is %d, %d are used, and %d more are needed", n.Name, where, n.Limit, n.Used, n.More)
	if n.Short() {
		text += fmt.Sprintf("; raise the quota %s of %s, or delete what is not needed", n.Code, n.Service)
	}
	return text
}

// Headroom returns all quotas that do not suffice for a plan, given their usage by
// code. If there is any, do not begin the plan: half a network costs money and serves
// nothing. Headroom does not count on deletions that precede creations.
func Headroom(p Plan, want map[Key]Wanted, use map[string]Usage) (short []Need) {
	return slices.DeleteFunc(Needs(p, want, use), func(n Need) bool { return !n.Short() })
}

// Needs returns what a plan needs of every quota that it counts towards.
func Needs(p Plan, want map[Key]Wanted, use map[string]Usage) (all []Need) {
	for _, q := range Quotas {
		u := use[q.Code]
		limit := u.Limit
		if limit == 0 {
			limit = q.Default
		}
		for where, n := range q.demand(p, want) {
			used := u.Used
			switch q.Of {
			case KindSubnet:
				used = u.Zones[where]
			case KindVPC, KindSecurityGroup:
				used = 0 // demand has all of them
			}
			if n > 0 {
				all = append(all, Need{q, where, limit, used, n})
			}
		}
	}
	slices.SortFunc(all, func(a, b Need) int { return strings.Compare(a.String(), b.String()) })
	return all
}

// families returns the families whose quota a rule counts towards. A rule that names a
// group counts towards both.
func (r Rule) families() []string {
	switch {
	case r.Addresses.IsValid() && r.Addresses.Addr().Is6():
		return []string{"IPv6"}
	case r.Addresses.IsValid() || r.Elastic != (Ref{}):
		return []string{"IPv4"}
	}
	return []string{"IPv4", "IPv6"}
}

// demand returns the number of objects to create or, for limits of one object, the
// number that it will have.
func (q Quota) demand(p Plan, want map[Key]Wanted) map[string]int {
	n := make(map[string]int)
	switch q.Of {
	case KindVPC, KindSecurityGroup:
		if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Verb == Create && s.Key.Kind == q.Kind }) {
			return nil
		}
		for _, w := range want {
			switch o := w.Object.(type) {
			case Block:
				if q.Kind == KindBlock && o.Pool == "" {
					n[""]++
				}
			case Rule:
				if q.Kind == KindRule {
					way := "in"
					if o.Egress {
						way = "out"
					}
					for _, family := range o.families() {
						n[part(o.Owner)+" ("+way+", "+family+")"]++
					}
				}
			default:
				if o.Key().Kind == q.Kind {
					n[""]++
				}
			}
		}
		if q.Kind == KindBlock || q.Kind == KindRouteTable {
			n[""]++ // the VPC's first block, and its main table
		}
		return n
	}
	for _, s := range p.Steps {
		if s.Verb != Create || s.Key.Kind != q.Kind {
			continue
		}
		if a, is := s.Want.(Address); is && a.Pool != "" {
			continue // the quota is for Amazon's addresses
		}
		where := ""
		if q.Of == KindSubnet {
			where = s.Key.Name // NAT gateways have the names of their zones
		}
		n[where]++
	}
	return n
}
