package awscluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// Cloud is what the controller needs of an account in one region.
type Cloud interface {
	// Zones returns all zones of the region.
	Zones(ctx context.Context) ([]awsnet.Zone, error)
	// Network returns a complete reading of a network. For a deletion, it has everything that
	// may hold a part of the network.
	Network(ctx context.Context, s Scope) (awsnet.Account, error)
	// Usage returns the use of the quotas that the plan of a view counts towards.
	Usage(ctx context.Context, v awsnet.View) (map[string]awsnet.Usage, error)
	// Change makes one call. The result has one element for each change.
	Change(ctx context.Context, o awsnet.Owner, call awsnet.Call, all []apply.Change) ([]apply.Made, error)
	// Now returns the state of objects, by ID. What is missing does not exist.
	Now(ctx context.Context, ids []string) (map[string]awsnet.Found, error)
}

// Scope says what a reading of a network covers.
type Scope struct {
	Owner awsnet.Owner
	// VPC is the ID of a VPC that is not the cluster's own, or "".
	VPC string
	// Carrier and Bastion are set unless the network never had carrier gateways, or a bastion,
	// since it was last read with them.
	Carrier, Bastion bool
	// Count is set for the first reading, which is likely to be followed by Usage.
	Count bool
	// End is set for a deletion, which needs everything.
	End bool
}

// seen is what a reading of a network found.
type seen struct {
	key string // of the network
	job job
	// whose is the owner in the calls of the plan.
	whose awsnet.Owner
	// problems are what is wrong with the spec in this region.
	problems []awsnet.Problem
	// err is why the reading failed. Then the rest is empty.
	err   error
	plan  awsnet.Plan
	short []awsnet.Need
	facts facts
	// gone is set if nothing of the network is left.
	gone  bool
	known known
}

// facts are what other programs get to know of a network.
type facts struct {
	// endpoint is where the API servers are reached, and external is set if the network has
	// no balancer of its own for them.
	endpoint capi.Endpoint
	external bool
	domains  []domain
	// kinds are the kinds of objects that the network has, or is to have.
	kinds map[awsnet.Kind]bool
	// network is set if nothing was left to do.
	network *networkStatus
}

// domain is a zone that machines may be in.
type domain struct {
	zone         string
	controlPlane bool
}

// known is whether a network was read whole, and what it had then or was to have.
type known struct{ whole, carrier, bastion bool }

// look reads a network, and plans what is left to do.
func look(ctx context.Context, c Cloud, j job, k known) (s seen) {
	s = seen{job: j, known: k}
	if j.end {
		s.err = s.ending(ctx, c)
	} else {
		s.err = s.building(ctx, c, k)
	}
	return s
}

func (s *seen) building(ctx context.Context, c Cloud, k known) error {
	zones, err := c.Zones(ctx)
	if err != nil {
		return err
	}
	n, problems := awsnet.Complete(s.job.spec, zones)
	if s.problems = problems; len(problems) > 0 {
		return nil
	}
	scope := Scope{Owner: n.Owner, VPC: n.VPCID, Carrier: !k.whole || k.carrier || hasCarrier(n), Bastion: !k.whole || k.bastion || n.Bastion != nil, Count: !k.whole}
	s.whose = n.Owner
	account, err := c.Network(ctx, scope)
	if err != nil {
		return err
	}
	view, problems := awsnet.See(s.job.spec, zones, account)
	if s.problems = problems; len(problems) > 0 {
		return nil
	}
	s.plan = view.Plan
	if slices.ContainsFunc(s.plan.Steps, func(step awsnet.Step) bool { return step.Verb == awsnet.Create }) {
		use, err := c.Usage(ctx, view)
		if err != nil {
			return err
		}
		s.short = awsnet.Headroom(s.plan, view.Want, use)
	}
	s.facts = factsOf(view)
	s.known.whole = true
	if scope.Carrier {
		s.known.carrier = s.facts.kinds[awsnet.KindCarrierGateway]
	}
	if scope.Bastion {
		s.known.bastion = s.facts.kinds[awsnet.KindBastion]
	}
	return nil
}

func (s *seen) ending(ctx context.Context, c Cloud) error {
	scope := Scope{Owner: s.job.owner(), Carrier: true, Bastion: true, End: true}
	if v := s.job.spec.Network.VPC; v.ID != "" && v.Tags[scope.Owner.Tag()] != "owned" {
		scope.VPC = v.ID
	} else {
		scope.Owner.Adopt = v.ID
	}
	s.whose = scope.Owner
	account, err := c.Network(ctx, scope)
	if err != nil {
		return err
	}
	view := awsnet.SeeEnd(scope.Owner, account, s.job.sweep)
	s.plan, s.gone = view.Plan, view.Done()
	s.facts.kinds = kindsOf(view)
	return nil
}

// owner returns whose the network is.
func (i identity) owner() awsnet.Owner { return awsnet.Owner{Cluster: i.cluster, UID: i.uid} }

func hasCarrier(n awsnet.Network) bool {
	return slices.ContainsFunc(n.Subnets, func(s awsnet.Net) bool { return s.ZoneType == awsnet.WavelengthZone })
}

func kindsOf(v awsnet.View) map[awsnet.Kind]bool {
	kinds := make(map[awsnet.Kind]bool)
	for k := range v.Want {
		kinds[k.Kind] = true
	}
	for k := range v.Holding.Ours {
		kinds[k.Kind] = true
	}
	for _, s := range v.Plan.Steps {
		kinds[s.Key.Kind] = true
	}
	return kinds
}

func factsOf(v awsnet.View) facts {
	f := facts{kinds: kindsOf(v), external: len(v.Network.Balancers) == 0}
	if len(v.Plan.Steps) == 0 {
		status := networkStatusOf(v)
		f.network = &status
	}
	f.endpoint.Host, f.endpoint.Port = v.Endpoint()
	inBalancer := func(zone string) bool {
		if f.external {
			return true
		}
		return slices.ContainsFunc(v.Network.Balancers, func(b awsnet.Front) bool {
			return len(b.SubnetIDs) > 0 || b.CrossZone || slices.ContainsFunc(b.Subnets, func(i int) bool { return v.Network.Subnets[i].Zone == zone })
		})
	}
	private := slices.ContainsFunc(v.Network.Subnets, func(n awsnet.Net) bool { return isHome(n) && !n.Public })
	for _, n := range v.Network.Subnets {
		d := domain{n.Zone, inBalancer(n.Zone)}
		if isHome(n) && n.Public != private && !slices.Contains(f.domains, d) {
			f.domains = append(f.domains, d)
		}
	}
	slices.SortFunc(f.domains, func(a, b domain) int { return strings.Compare(a.zone, b.zone) })
	return f
}

// isHome reports whether machines of a control plane may be in a subnet.
func isHome(n awsnet.Net) bool {
	return n.Zone != "" && (n.ZoneType == awsnet.RegularZone || n.ZoneType == "") && !n.PodsOnly
}

// shortage returns why nothing of a plan begins, or nil.
func (s seen) shortage() error {
	var all []error
	for _, q := range s.short {
		all = append(all, fmt.Errorf("%s", q))
	}
	return errors.Join(all...)
}
