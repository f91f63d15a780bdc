package aws

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

// The attributes of load balancers and target groups that a network sets.
const (
	crossZone    = "load_balancing.cross_zone.enabled"
	preserveIP   = "preserve_client_ip.enabled"
	endUnhealthy = "target_health_state.unhealthy.connection_termination.enabled"
)

// balancerFacts is a load balancer without attributes, tags and listeners.
type balancerFacts struct {
	id, vpc, host, why string
	state              awsnet.State
	object             awsnet.Balancer
}

type balancerList []balancerFacts

func (l balancerList) shows(id string) bool {
	return slices.ContainsFunc(l, func(b balancerFacts) bool { return b.id == id })
}

// targetGroupFacts is a target group without attributes and tags.
type targetGroupFacts struct {
	id     string
	object awsnet.TargetGroup
}

type targetGroupList []targetGroupFacts

func (l targetGroupList) shows(id string) bool {
	return slices.ContainsFunc(l, func(g targetGroupFacts) bool { return g.id == id })
}

// readBalancers reads all load balancers in the network's VPCs or, in a short reading,
// the cluster's.
func (r *networkReader) readBalancers(ctx context.Context, p part) error {
	var arns []string
	if p.name == partOurBalancers {
		for _, b := range r.known[p].(balancerList) {
			arns = append(arns, b.id)
		}
		if len(arns) == 0 {
			r.set(p, balancerList(nil))
			return nil
		}
	}
	all, err := r.c.networkBalancers(ctx, arns)
	if err == nil {
		all = slices.DeleteFunc(all, func(b balancerFacts) bool { return !slices.Contains(r.vpcs, b.vpc) })
		r.set(p, all)
	}
	return err
}

// networkBalancers returns the load balancers with these ARNs, or all of the account.
func (c *Client) networkBalancers(ctx context.Context, arns []string) (all balancerList, err error) {
	err = eachPage(ctx, c, describeBalancers, func(ctx context.Context, token *string) (*elb.DescribeLoadBalancersOutput, error) {
		in := &elb.DescribeLoadBalancersInput{LoadBalancerArns: arns, Marker: token}
		if arns == nil {
			in.PageSize = aws.Int32(largestELBPage)
		}
		return c.elb.DescribeLoadBalancers(ctx, in)
	}, func(out *elb.DescribeLoadBalancersOutput) (*string, error) {
		for _, l := range out.LoadBalancers {
			b, err := networkBalancer(l)
			if err != nil {
				return nil, err
			}
			all = append(all, b)
		}
		return out.NextMarker, nil
	})
	slices.SortFunc(all, func(a, b balancerFacts) int { return strings.Compare(a.id, b.id) })
	return all, err
}

// networkBalancer converts a load balancer of an answer.
func networkBalancer(l types.LoadBalancer) (balancerFacts, error) {
	v, err := balancer(describeBalancers, l)
	if err != nil {
		return balancerFacts{}, err
	}
	b := balancerFacts{id: v.ID, vpc: v.Network, host: v.Host, why: v.Why}
	var subnets, groups, addresses []awsnet.Ref
	for _, p := range v.Mappings {
		subnets = append(subnets, awsnet.Foreign(p.Subnet))
		if p.Allocation == "" {
			continue
		}
		if err := ids(describeBalancers, p.Allocation, "eipalloc", "allocation"); err != nil {
			return b, err
		}
		addresses = append(addresses, awsnet.Foreign(p.Allocation))
	}
	for _, id := range v.Security {
		groups = append(groups, awsnet.Foreign(id))
	}
	b.object = awsnet.Balancer{
		Title: clip(v.Name), Scheme: awsnet.Scheme(clip(string(v.Scheme))), DualStack: v.Families == cloud.DualStack,
		Subnets: awsnet.RefsTo(subnets...), Groups: awsnet.RefsTo(groups...), Elastic: awsnet.RefsTo(addresses...),
	}
	switch value(l.State).Code {
	case types.LoadBalancerStateEnumProvisioning:
		b.state = awsnet.Pending
	case types.LoadBalancerStateEnumFailed:
		b.state = awsnet.Failed
	}
	return b, nil
}

// readTargetGroups reads the target groups in the network's VPCs and those without a
// balancer or, in a short reading, the cluster's.
func (r *networkReader) readTargetGroups(ctx context.Context, p part) error {
	var arns []string
	if p.name == partOurTargetGroups {
		for _, g := range r.known[p].(targetGroupList) {
			arns = append(arns, g.id)
		}
		if len(arns) == 0 {
			r.set(p, targetGroupList(nil))
			return nil
		}
	}
	var all targetGroupList
	err := eachPage(ctx, r.c, describeTargetGroups, func(ctx context.Context, token *string) (*elb.DescribeTargetGroupsOutput, error) {
		in := &elb.DescribeTargetGroupsInput{TargetGroupArns: arns, Marker: token}
		if arns == nil {
			in.PageSize = aws.Int32(largestELBPage)
		}
		return r.c.elb.DescribeTargetGroups(ctx, in)
	}, func(out *elb.DescribeTargetGroupsOutput) (*string, error) {
		for _, t := range out.TargetGroups {
			v, err := targetGroup(describeTargetGroups, t)
			if err != nil {
				return nil, err
			}
			if v.Network == "" || len(v.Balancers) > 0 && !slices.Contains(r.vpcs, v.Network) { // a target group of Lambda functions has no VPC
				continue
			}
			if err := ids(describeTargetGroups, v.Network, "vpc", "VPC"); err != nil {
				return nil, err
			}
			h := v.Health
			all = append(all, targetGroupFacts{id: v.ID, object: awsnet.TargetGroup{
				Title: clip(v.Name), VPC: awsnet.Foreign(v.Network), Port: v.Port, IPv6: v.Family == "ipv6",
				Health: awsnet.Health{Protocol: clip(string(h.Protocol)), Port: clip(h.Port), Path: clip(h.Path), Interval: h.Interval, Timeout: h.Timeout, Healthy: h.Healthy, Unhealthy: h.Unhealthy},
			}})
		}
		return out.NextMarker, nil
	})
	if err == nil {
		slices.SortFunc(all, func(a, b targetGroupFacts) int { return strings.Compare(a.id, b.id) })
		r.set(p, all)
	}
	return err
}

// readBalancerTags reads the tags of the load balancers and target groups or, in a
// short reading, of the cluster's.
func (r *networkReader) readBalancerTags(ctx context.Context, p part) error {
	var arns []string
	if p.name == partOurTags {
		arns = slices.Sorted(maps.Keys(r.known[p].(map[string]map[string]string)))
	} else {
		for _, b := range r.get(part{name: partBalancers}).(balancerList) {
			arns = append(arns, b.id)
		}
		for _, g := range r.get(part{name: partTargetGroups}).(targetGroupList) {
			arns = append(arns, g.id)
		}
	}
	return r.readTags(ctx, p, arns)
}

// readListenerTags reads the tags of the cluster's listeners.
func (r *networkReader) readListenerTags(ctx context.Context, p part) error {
	var arns []string
	from := r.facts
	if r.known != nil {
		from = r.known
	}
	for q, value := range from {
		if q.name == partListeners {
			for _, f := range value.(foundList) {
				arns = append(arns, f.ID)
			}
		}
	}
	slices.Sort(arns)
	return r.readTags(ctx, p, arns)
}

func (r *networkReader) readTags(ctx context.Context, p part, arns []string) error {
	all := make(map[string]map[string]string)
	var mu sync.Mutex
	err := inParallel(slices.Collect(slices.Chunk(arns, mostARNs)), func(some []string) error {
		tags, err := r.c.tagsOfPart(ctx, some)
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(all, tags)
		return err
	})
	if err == nil {
		r.set(p, all)
	}
	return err
}

// separate sets the parts about the cluster's balancers and target groups, from the
// lists and their tags. It drops the target groups of other networks, because the
// region may have thousands.
func (r *networkReader) separate() {
	all, ours := make(map[string]map[string]string), make(map[string]map[string]string)
	tags := r.facts[part{name: partBalancerTags}].(map[string]map[string]string)
	keep := func(id string) bool {
		all[id] = tags[id]
		if tags[id][r.scope.Owner.Tag()] == "owned" {
			ours[id] = tags[id]
		}
		return ours[id] != nil
	}
	var list, mine balancerList
	for _, b := range r.facts[part{name: partBalancers}].(balancerList) {
		if list = append(list, b); keep(b.id) {
			mine = append(mine, b)
		}
	}
	var groups, own targetGroupList
	for _, g := range r.facts[part{name: partTargetGroups}].(targetGroupList) {
		if tags[g.id][r.scope.Owner.Tag()] != "owned" && !slices.Contains(r.vpcs, g.object.VPC.ID) {
			continue
		}
		if groups = append(groups, g); keep(g.id) {
			own = append(own, g)
		}
	}
	for name, value := range map[string]any{
		partBalancers: list, partOurBalancers: mine, partTargetGroups: groups, partOurTargetGroups: own, partBalancerTags: all, partOurTags: ours,
	} {
		r.facts[part{name: name}] = value
	}
}

// details returns the parts about one load balancer or target group of the cluster.
func (r *networkReader) details() (parts []part) {
	for _, b := range r.facts[part{name: partOurBalancers}].(balancerList) {
		parts = append(parts, part{partListeners, b.id}, part{partBalancerAttributes, b.id})
	}
	for _, g := range r.facts[part{name: partOurTargetGroups}].(targetGroupList) {
		parts = append(parts, part{partTargetGroupAttribute, g.id})
	}
	return parts
}

// readListeners reads the listeners of a load balancer.
func (r *networkReader) readListeners(ctx context.Context, p part) error {
	var all foundList
	err := eachPage(ctx, r.c, describeListeners, func(ctx context.Context, token *string) (*elb.DescribeListenersOutput, error) {
		return r.c.elb.DescribeListeners(ctx, &elb.DescribeListenersInput{LoadBalancerArn: &p.of, PageSize: aws.Int32(largestELBPage), Marker: token})
	}, func(out *elb.DescribeListenersOutput) (*string, error) {
		for _, l := range out.Listeners {
			v, err := listener(describeListeners, l)
			if err != nil {
				return nil, err
			}
			o := awsnet.Listener{Balancer: awsnet.Foreign(p.of), Port: v.Port}
			if v.Group != "" && v.Protocol == cloud.TCP {
				o.Group = awsnet.Foreign(v.Group)
			}
			all = append(all, awsnet.Found{ID: v.ID, Object: o})
		}
		return out.NextMarker, nil
	})
	if err == nil {
		r.set(p, sortedFound(all))
	}
	return err
}

// readBalancerAttributes reads the attribute that makes a load balancer send traffic to
// all zones.
func (r *networkReader) readBalancerAttributes(ctx context.Context, p part) error {
	out, err := query(ctx, r.c, describeBalancerAttributes, func(ctx context.Context) (*elb.DescribeLoadBalancerAttributesOutput, error) {
		return r.c.elb.DescribeLoadBalancerAttributes(ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &p.of})
	})
	if err != nil {
		return err
	}
	on := false
	for _, a := range out.Attributes {
		if value(a.Key) == crossZone {
			on = value(a.Value) == "true"
		}
	}
	r.set(p, on)
	return nil
}

// groupAttributes are the attributes of a target group.
type groupAttributes struct{ preserveIP, endUnhealthy bool }

func (r *networkReader) readTargetGroupAttributes(ctx context.Context, p part) error {
	out, err := query(ctx, r.c, describeGroupAttributes, func(ctx context.Context) (*elb.DescribeTargetGroupAttributesOutput, error) {
		return r.c.elb.DescribeTargetGroupAttributes(ctx, &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &p.of})
	})
	if err != nil {
		return err
	}
	// An answer without an attribute means AWS's default.
	is := groupAttributes{preserveIP: true, endUnhealthy: true}
	for _, a := range out.Attributes {
		switch value(a.Key) {
		case preserveIP:
			is.preserveIP = value(a.Value) == "true"
		case endUnhealthy:
			is.endUnhealthy = value(a.Value) == "true"
		}
	}
	r.set(p, is)
	return nil
}
