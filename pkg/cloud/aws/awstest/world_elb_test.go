package awstest_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

func elbTagsOf(pairs ...string) (tags []types.Tag) {
	for i := 0; i+1 < len(pairs); i += 2 {
		tags = append(tags, types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return tags
}

// idsOf returns the IDs of names.
func (w *world) idsOf(names ...string) (ids []string) {
	for _, n := range names {
		ids = append(ids, *w.id(n))
	}
	return ids
}

// balance makes an internet-facing balancer in subnets.
func (w *world) balance(name string, subnets ...string) string {
	return w.balanceAs(name, func(in *elb.CreateLoadBalancerInput) { in.Subnets = w.idsOf(subnets...) })
}

func (w *world) balanceAs(name string, change func(*elb.CreateLoadBalancerInput)) string {
	in := &elb.CreateLoadBalancerInput{Name: &name, Type: types.LoadBalancerTypeEnumNetwork, Scheme: types.LoadBalancerSchemeEnumInternetFacing}
	change(in)
	out, err := w.elb.CreateLoadBalancer(w.ctx, in)
	return said(err, func() string {
		w.call(name, out.LoadBalancers[0].LoadBalancerArn)
		return string(out.LoadBalancers[0].State.Code)
	})
}

// balancer returns what a balancer has.
func (w *world) balancer(name string) string {
	out, err := w.elb.DescribeLoadBalancers(w.ctx, &elb.DescribeLoadBalancersInput{Names: []string{name}})
	return said(err, func() string {
		b := out.LoadBalancers[0]
		var subnets []string
		for _, z := range b.AvailabilityZones {
			subnets = append(subnets, w.plain(*z.SubnetId))
		}
		slices.Sort(subnets)
		return fmt.Sprint(b.Type, " ", b.Scheme, " ", b.IpAddressType, " ", b.State.Code, " ", w.plain(*b.VpcId), " ", subnets, w.plain(fmt.Sprint(b.SecurityGroups)))
	})
}

func (w *world) unbalance(name string) string {
	_, err := w.elb.DeleteLoadBalancer(w.ctx, &elb.DeleteLoadBalancerInput{LoadBalancerArn: w.id(name)})
	return ok(err)
}

// targetGroup makes a target group of instances.
func (w *world) targetGroup(name, vpc string, protocol types.ProtocolEnum, port int32) string {
	return w.targetGroupAs(name, func(in *elb.CreateTargetGroupInput) { in.VpcId, in.Protocol, in.Port = w.id(vpc), protocol, &port })
}

func (w *world) targetGroupAs(name string, change func(*elb.CreateTargetGroupInput)) string {
	in := &elb.CreateTargetGroupInput{Name: &name}
	change(in)
	out, err := w.elb.CreateTargetGroup(w.ctx, in)
	return said(err, func() string { w.call(name, out.TargetGroups[0].TargetGroupArn); return "ok" })
}

// check returns how a target group checks its targets.
func (w *world) check(name string) string {
	out, err := w.elb.DescribeTargetGroups(w.ctx, &elb.DescribeTargetGroupsInput{TargetGroupArns: w.idsOf(name)})
	return said(err, func() string {
		g := out.TargetGroups[0]
		text := fmt.Sprint(g.HealthCheckProtocol, " ", *g.HealthCheckPort, " ", *g.HealthCheckIntervalSeconds, " ", *g.HealthCheckTimeoutSeconds, " ", *g.HealthyThresholdCount, " ", *g.UnhealthyThresholdCount)
		if g.HealthCheckPath != nil {
			text += " " + *g.HealthCheckPath
		}
		if g.Matcher != nil {
			text += " " + aws.ToString(g.Matcher.HttpCode)
		}
		return text
	})
}

func (w *world) dropTargetGroup(name string) string {
	_, err := w.elb.DeleteTargetGroup(w.ctx, &elb.DeleteTargetGroupInput{TargetGroupArn: w.id(name)})
	return ok(err)
}

// listen makes a listener, which it calls BALANCER:PORT.
func (w *world) listen(balancer string, protocol types.ProtocolEnum, port int32, group string) string {
	return w.listenAs(balancer, protocol, port, group, func(*elb.CreateListenerInput) {})
}

func forwardTo(arn *string) []types.Action {
	return []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: arn}}
}

func (w *world) listenAs(balancer string, protocol types.ProtocolEnum, port int32, group string, change func(*elb.CreateListenerInput)) string {
	in := &elb.CreateListenerInput{LoadBalancerArn: w.id(balancer), Protocol: protocol, Port: &port, DefaultActions: forwardTo(w.id(group))}
	change(in)
	out, err := w.elb.CreateListener(w.ctx, in)
	return said(err, func() string {
		w.call(fmt.Sprint(balancer, ":", port), out.Listeners[0].ListenerArn)
		return "ok"
	})
}

// ports returns the listeners of a balancer.
func (w *world) ports(balancer string) string {
	out, err := w.elb.DescribeListeners(w.ctx, &elb.DescribeListenersInput{LoadBalancerArn: w.id(balancer)})
	return said(err, func() string {
		var all []string
		for _, l := range out.Listeners {
			all = append(all, fmt.Sprint(l.Protocol, " ", *l.Port, " ", w.plain(*l.DefaultActions[0].TargetGroupArn)))
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	})
}

// targets returns target descriptions of instances or addresses.
func (w *world) targets(names []string) (all []types.TargetDescription) {
	for _, n := range names {
		if id, ok := w.ids[n]; ok {
			n = id
		}
		all = append(all, types.TargetDescription{Id: aws.String(n)})
	}
	return all
}

func (w *world) register(group string, names ...string) string {
	_, err := w.elb.RegisterTargets(w.ctx, &elb.RegisterTargetsInput{TargetGroupArn: w.id(group), Targets: w.targets(names)})
	return ok(err)
}

func (w *world) deregister(group string, names ...string) string {
	_, err := w.elb.DeregisterTargets(w.ctx, &elb.DeregisterTargetsInput{TargetGroupArn: w.id(group), Targets: w.targets(names)})
	return ok(err)
}

// health returns the health of a group's targets, or of those that are named.
func (w *world) health(group string, names ...string) string {
	out, err := w.elb.DescribeTargetHealth(w.ctx, &elb.DescribeTargetHealthInput{TargetGroupArn: w.id(group), Targets: w.targets(names)})
	return said(err, func() string {
		var all []string
		for _, t := range out.TargetHealthDescriptions {
			text := fmt.Sprint(w.plain(*t.Target.Id), ":", *t.Target.Port, " ", t.TargetHealth.State)
			if t.TargetHealth.Reason != "" {
				text += " " + string(t.TargetHealth.Reason)
			}
			all = append(all, text)
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	})
}

// elbTags returns the tags of balancers, target groups or listeners.
func (w *world) elbTags(names ...string) string {
	out, err := w.elb.DescribeTags(w.ctx, &elb.DescribeTagsInput{ResourceArns: w.idsOf(names...)})
	return said(err, func() string {
		var all []string
		for _, d := range out.TagDescriptions {
			for _, t := range d.Tags {
				all = append(all, w.plain(*d.ResourceArn)+" "+*t.Key+"="+*t.Value)
			}
		}
		slices.Sort(all)
		return cmp.Or(strings.Join(all, ", "), "none")
	})
}

func (w *world) elbTag(name string, pairs ...string) string {
	_, err := w.elb.AddTags(w.ctx, &elb.AddTagsInput{ResourceArns: w.idsOf(name), Tags: elbTagsOf(pairs...)})
	return ok(err)
}
