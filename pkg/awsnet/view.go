package awsnet

import (
	"slices"
	"strings"
)

// View is a network as its Spec wants it, and as a reading of AWS found it.
type View struct {
	// Network is what the Spec means. It is empty in the View of a deletion.
	Network Network
	Want    map[Key]Wanted
	Account Account
	Holding Holding
	// Plan is the steps that are left.
	Plan Plan
}

// See compares a Spec with an Account. The problems are those of the Spec. zones are
// all zones of the region.
func See(s Spec, zones []Zone, a Account) (View, []Problem) {
	zones = Prefer(zones, Owner{Cluster: s.Cluster, UID: s.UID}, a)
	n, problems := Complete(s, zones)
	if len(problems) > 0 {
		return View{}, problems
	}
	want := Desired(n)
	p := Diff(n.Owner, want, a)
	return View{Network: n, Want: want, Account: a, Holding: p.holding, Plan: p}, nil
}

// SeeEnd compares an Account with the deletion of a cluster's network. With sweep, the
// deletion includes what the cluster's cloud controllers left.
func SeeEnd(o Owner, a Account, sweep bool) View {
	p := Destroy(o, a, sweep)
	return View{Account: a, Holding: p.holding, Plan: p}
}

// Done reports whether the account is as wanted: there are no steps, problems or
// blockers.
func (v View) Done() bool { return len(v.Plan.Steps)+len(v.Plan.Problems)+len(v.Plan.Blocked) == 0 }

// Kept returns the addresses that stay although the network does not want them: it was to keep its
// addresses. AWS bills them.
func (v View) Kept() (all []Found) {
	for k, f := range v.Holding.Ours {
		if k.Kind == KindAddress && f.Tags[KeptTag] == "true" && v.Want[k].Object == nil {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b Found) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// Endpoint returns where clients reach the API servers: the host and port of the first load
// balancer. The host is empty until AWS has given it one.
func (v View) Endpoint() (host string, port int) {
	for _, f := range v.Network.Balancers {
		if f.Name == PrimaryBalancer && len(f.Ports) > 0 {
			return v.Holding.Ours[Key{KindBalancer, PrimaryBalancer}].Given.Host, f.Ports[0].Port
		}
	}
	return "", 0
}

// Zones returns the zones of the network's subnets, sorted.
func (v View) Zones() (names []string) {
	for _, n := range v.Network.Subnets {
		names = append(names, n.Zone)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
