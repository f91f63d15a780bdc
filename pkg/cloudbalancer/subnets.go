package cloudbalancer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The tags that say which balancers a subnet is for.
const (
	publicRole   = "kubernetes.io/role/elb"
	internalRole = "kubernetes.io/role/internal-elb"
)

// leastFree is how many free addresses AWS requires in the subnet of a balancer.
const leastFree = 8

// chosen returns the subnets of a new balancer, in the order of its addresses, or why there
// are none.
func (w Want) chosen(all []cloud.Subnet) (subnets []cloud.Subnet, problem string) {
	if len(w.Subnets) > 0 {
		subnets, problem = w.named(all)
	} else {
		subnets, problem = w.tagged(all)
	}
	if problem != "" {
		return nil, problem
	}
	for _, addresses := range []struct {
		name string
		all  []string
	}{{aAllocations, w.Allocations}, {aIPv4, w.IPv4}, {aIPv6, w.IPv6}} {
		if n := len(addresses.all); n > 0 && n != len(subnets) {
			return nil, fmt.Sprintf("annotation %s%s: has %d addresses for %d subnets; give one for each, in the order of %s", Prefix, addresses.name, n, len(subnets), idsOf(subnets))
		}
	}
	return subnets, ""
}

// named returns the subnets that the Service names.
func (w Want) named(all []cloud.Subnet) (subnets []cloud.Subnet, problem string) {
	refuse := func(text string, args ...any) ([]cloud.Subnet, string) {
		return nil, "annotation " + Prefix + aSubnets + ": " + fmt.Sprintf(text, args...)
	}
	for _, name := range w.Subnets {
		var found []cloud.Subnet
		for _, s := range all {
			if s.ID == name || s.Name == name && !strings.HasPrefix(name, "subnet-") {
				found = append(found, s)
			}
		}
		switch len(found) {
		case 0:
			return refuse("the cluster's network has no subnet %.253q; name one of %s", name, idsOf(all))
		case 1:
		default:
			return refuse("%d subnets are called %.253q; use the ID of one of %s", len(found), name, idsOf(found))
		}
		s := found[0]
		for _, other := range subnets {
			if other.ID == s.ID || other.Zone == s.Zone {
				return refuse("%s and %s are in the zone %s; use one in each zone", other.ID, s.ID, s.Zone)
			}
		}
		if why := w.unfit(s); why != "" {
			return refuse("%s %s", s.ID, why)
		}
		subnets = append(subnets, s)
	}
	for _, s := range subnets {
		if s.Network != subnets[0].Network {
			return refuse("%s is in %s and %s in %s; use subnets of one network", subnets[0].ID, subnets[0].Network, s.ID, s.Network)
		}
	}
	return subnets, ""
}

// unfit returns why a balancer cannot be in a subnet, with the fix, or "".
func (w Want) unfit(s cloud.Subnet) string {
	switch {
	case !s.Regular:
		return "is in " + s.Zone + ", a local, wavelength or outpost zone, where AWS has no network load balancers; use one in an availability zone"
	case w.Families == cloud.DualStack && !s.IPv6.IsValid():
		return "has no IPv6; give it an IPv6 range, or leave out " + Prefix + aFamilies
	}
	return ""
}

// tagged returns one subnet for each zone: of those with the role, of those with the tag of
// this cluster, or else of those that lead to the internet as the balancer needs it. One of
// another cluster is never used.
func (w Want) tagged(all []cloud.Subnet) (subnets []cloud.Subnet, problem string) {
	role, kind := publicRole, "public"
	if w.Scheme == cloud.Internal {
		role, kind = internalRole, "private or public"
	}
	rank := func(s cloud.Subnet) int {
		_, ours := s.Tags[clusterTag+w.cluster]
		value, has := s.Tags[role]
		switch {
		case has && value != "0" && value != "false" && ours:
			return 0
		case has && value != "0" && value != "false":
			return 1
		case ours:
			return 2
		}
		return 3
	}
	best := make(map[string]cloud.Subnet) // by zone
	var unfit []string
	for _, s := range all {
		value, has := s.Tags[role]
		switch why := w.unfit(s); {
		case isForeign(s, w.cluster), has && (value == "0" || value == "false"):
			continue
		case why != "":
			unfit = append(unfit, s.ID+" "+why)
			continue
		case s.Free < leastFree && s.IPv4.IsValid():
			unfit = append(unfit, fmt.Sprintf("%s has %d free addresses, and a balancer needs %d; use a larger subnet", s.ID, s.Free, leastFree))
			continue
		case w.Scheme != cloud.Internal && !s.Public:
			if has {
				unfit = append(unfit, fmt.Sprintf("%s has the tag %s, but its route table leads to no internet gateway; correct the tag or the table", s.ID, role))
			}
			continue
		}
		now, there := best[s.Zone]
		if !there || cmp.Or(cmp.Compare(rank(s), rank(now)), cmp.Compare(s.ID, now.ID)) < 0 {
			best[s.Zone] = s
		}
	}
	for _, s := range best {
		subnets = append(subnets, s)
	}
	slices.SortFunc(subnets, func(a, b cloud.Subnet) int { return cmp.Compare(a.Zone, b.Zone) })
	if len(subnets) == 0 {
		problem = fmt.Sprintf("no %s subnet of this cluster; tag one in each zone with %s=1 and %s%s=shared, or name them in %s%s", kind, role, clusterTag, w.cluster, Prefix, aSubnets)
		if len(unfit) > 0 {
			problem += " (" + strings.Join(unfit[:min(len(unfit), 3)], "; ") + ")"
		}
		return nil, problem
	}
	network := subnets[0].Network
	return slices.DeleteFunc(subnets, func(s cloud.Subnet) bool { return s.Network != network }), ""
}

// isForeign reports whether a subnet has the tags of other clusters alone.
func isForeign(s cloud.Subnet, cluster string) bool {
	others := false
	for key := range s.Tags {
		if name, is := strings.CutPrefix(key, clusterTag); is {
			if name == cluster {
				return false
			}
			others = true
		}
	}
	return others
}

// idsOf returns the IDs of subnets for people.
func idsOf(all []cloud.Subnet) string {
	const most = 12
	var ids []string
	for i, s := range all {
		if i == most {
			ids = append(ids, fmt.Sprintf("%d more", len(all)-most))
			break
		}
		ids = append(ids, s.ID)
	}
	return strings.Join(ids, ", ")
}

// mappings returns a mapping of a new balancer for each of subnets.
func (w Want) mappings(subnets []cloud.Subnet) (all []cloud.SubnetMapping) {
	at := func(items []string, i int) string {
		if i < len(items) {
			return items[i]
		}
		return ""
	}
	for i, s := range subnets {
		all = append(all, cloud.SubnetMapping{Subnet: s.ID, Zone: s.Zone, Allocation: at(w.Allocations, i), IPv4: at(w.IPv4, i), IPv6: at(w.IPv6, i)})
	}
	cloud.SortMappings(all)
	return all
}
