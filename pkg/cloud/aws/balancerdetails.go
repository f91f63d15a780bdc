package aws

import (
	"context"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Details returns the listeners and attributes of load balancers, and the targets and
// attributes of target groups. It sets only their IDs and details. An object that is missing
// from the result does not exist, unless Details also returns an error.
func (c *Client) Details(ctx context.Context, ids []string) (cloud.Balancing, error) {
	var mu sync.Mutex
	var all cloud.Balancing
	err := inParallel(ids, func(id string) error {
		switch {
		case balancerARN.MatchString(id):
			b, err := c.balancerDetails(ctx, id)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				all.Balancers = append(all.Balancers, b)
			}
			return unlessMissing(err)
		case groupARN.MatchString(id):
			g, err := c.groupDetails(ctx, id)
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				all.Groups = append(all.Groups, g)
			}
			return unlessMissing(err)
		}
		return &cloud.Error{Kind: cloud.Refused, Action: describeListeners, Text: quoted(id) + " is the ARN of neither a network load balancer nor a target group"}
	})
	slices.SortFunc(all.Balancers, func(a, b cloud.Balancer) int { return compare(a.ID, b.ID, ids) })
	slices.SortFunc(all.Groups, func(a, b cloud.TargetGroup) int { return compare(a.ID, b.ID, ids) })
	return all, err
}

// compare orders IDs by their positions in ids.
func compare(a, b string, ids []string) int { return slices.Index(ids, a) - slices.Index(ids, b) }

// unlessMissing returns err, or nil if err says that the object does not exist.
func unlessMissing(err error) error {
	if err != nil && cloud.KindOf(err) == cloud.Missing {
		return nil
	}
	return err
}

func (c *Client) balancerDetails(ctx context.Context, id string) (cloud.Balancer, error) {
	b := cloud.Balancer{ID: id, Detailed: true}
	in := &elb.DescribeListenersInput{LoadBalancerArn: &id, PageSize: aws.Int32(largestELBPage)}
	err := pages(describeListeners, func() (*string, error) {
		out, err := query(ctx, c, describeListeners, func(ctx context.Context) (*elb.DescribeListenersOutput, error) {
			return c.elb.DescribeListeners(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		for _, l := range out.Listeners {
			v, err := listener(describeListeners, l)
			if err != nil {
				return nil, err
			}
			b.Listeners = append(b.Listeners, v)
		}
		in.Marker = out.NextMarker
		return out.NextMarker, nil
	})
	if err != nil {
		return b, err
	}
	slices.SortFunc(b.Listeners, func(a, b cloud.Listener) int { return a.Port - b.Port })
	out, err := query(ctx, c, describeBalancerAttributes, func(ctx context.Context) (*elb.DescribeLoadBalancerAttributesOutput, error) {
		return c.elb.DescribeLoadBalancerAttributes(ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerArn: &id})
	})
	if err != nil {
		return b, err
	}
	b.Attributes = make(map[string]string, len(out.Attributes))
	for _, a := range out.Attributes {
		b.Attributes[value(a.Key)] = value(a.Value)
	}
	return b, nil
}

// listener converts a listener of an answer.
func listener(action string, l types.Listener) (cloud.Listener, error) {
	v := cloud.Listener{ID: value(l.ListenerArn), Balancer: value(l.LoadBalancerArn), Protocol: cloud.Protocol(l.Protocol), Port: int(value(l.Port)), Policy: value(l.SslPolicy)}
	switch {
	case !listenerARN.MatchString(v.ID):
		return v, strange(action, "listener", v.ID)
	case !balancerARN.MatchString(v.Balancer):
		return v, strange(action, "load balancer", v.Balancer)
	}
	if len(l.Certificates) > 0 {
		v.Certificate = value(l.Certificates[0].CertificateArn)
	}
	if len(l.AlpnPolicy) > 0 && l.AlpnPolicy[0] != "None" {
		v.ALPN = l.AlpnPolicy[0]
	}
	if v.Protocol != cloud.TLS { // some answers contain a policy for every protocol
		v.Policy, v.Certificate, v.ALPN = "", "", ""
	}
	if len(l.DefaultActions) != 1 || l.DefaultActions[0].Type != types.ActionTypeEnumForward {
		return v, nil
	}
	to := l.DefaultActions[0]
	v.Group = value(to.TargetGroupArn)
	if f := to.ForwardConfig; f != nil {
		switch {
		case len(f.TargetGroups) == 1:
			v.Group = value(f.TargetGroups[0].TargetGroupArn)
		case len(f.TargetGroups) > 1:
			v.Group = ""
		}
	}
	if v.Group != "" && !groupARN.MatchString(v.Group) {
		return v, strange(action, "target group", v.Group)
	}
	return v, nil
}

func (c *Client) groupDetails(ctx context.Context, id string) (cloud.TargetGroup, error) {
	g := cloud.TargetGroup{ID: id, Detailed: true}
	health, err := query(ctx, c, describeHealth, func(ctx context.Context) (*elb.DescribeTargetHealthOutput, error) {
		return c.elb.DescribeTargetHealth(ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: &id})
	})
	if err != nil {
		return g, err
	}
	for _, d := range health.TargetHealthDescriptions {
		if d.Target == nil || d.TargetHealth == nil {
			return g, strange(describeHealth, "target without health in", id)
		}
		t := cloud.Target{ID: clip(value(d.Target.Id)), Port: int(value(d.Target.Port)), State: string(d.TargetHealth.State)}
		if t.Why = clip(value(d.TargetHealth.Description)); t.Why == "" {
			t.Why = clip(string(d.TargetHealth.Reason))
		}
		g.Targets = append(g.Targets, t)
	}
	slices.SortFunc(g.Targets, compareTargets)
	out, err := query(ctx, c, describeGroupAttributes, func(ctx context.Context) (*elb.DescribeTargetGroupAttributesOutput, error) {
		return c.elb.DescribeTargetGroupAttributes(ctx, &elb.DescribeTargetGroupAttributesInput{TargetGroupArn: &id})
	})
	if err != nil {
		return g, err
	}
	g.Attributes = make(map[string]string, len(out.Attributes))
	for _, a := range out.Attributes {
		g.Attributes[value(a.Key)] = value(a.Value)
	}
	return g, nil
}
