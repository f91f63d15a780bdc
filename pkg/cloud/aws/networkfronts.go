package aws

import (
	"context"
	"fmt"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

// idsIn returns the IDs of a set.
func idsIn(refs awsnet.Refs) (all []string) {
	for _, r := range refs.All() {
		all = append(all, r.ID)
	}
	return all
}

func families(dual bool) types.IpAddressType {
	if dual {
		return types.IpAddressTypeDualstack
	}
	return types.IpAddressTypeIpv4
}

func createNetworkBalancer(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Balancer](createBalancer, x)
	if err != nil {
		return Made{}, err
	}
	mappings, err := networkMappings(o)
	if err != nil {
		return Made{}, err
	}
	out, err := create(ctx, c, createBalancer, func(ctx context.Context) (*elb.CreateLoadBalancerOutput, error) {
		return c.elb.CreateLoadBalancer(ctx, &elb.CreateLoadBalancerInput{
			Name: &o.Title, Type: types.LoadBalancerTypeEnumNetwork, Scheme: types.LoadBalancerSchemeEnum(o.Scheme), IpAddressType: families(o.DualStack),
			SubnetMappings: mappings, SecurityGroups: idsIn(o.Groups), Tags: elbTags(x.Step.Tags),
		})
	})
	if err != nil {
		return Made{}, err
	}
	if len(out.LoadBalancers) != 1 {
		return Made{}, strange(createBalancer, "number of load balancers that is not 1 for", o.Title)
	}
	made, err := networkBalancer(out.LoadBalancers[0])
	return Made{ID: made.id, Given: awsnet.Given{Host: made.host}}, err
}

// networkMappings returns the subnets of a new load balancer, each with one of its addresses if it
// has any. Which subnet gets which address does not matter.
func networkMappings(o awsnet.Balancer) (all []types.SubnetMapping, err error) {
	subnets, addresses := idsIn(o.Subnets), idsIn(o.Elastic)
	if len(addresses) > 0 && len(addresses) != len(subnets) {
		return nil, badCall(awsnet.Call{Action: createBalancer}, fmt.Sprintf("%s has %d addresses for %d subnets; it needs one for each", quoted(o.Title), len(addresses), len(subnets)))
	}
	for i, id := range subnets {
		m := types.SubnetMapping{SubnetId: aws.String(id)}
		if len(addresses) > 0 {
			m.AllocationId = &addresses[i]
		}
		all = append(all, m)
	}
	return all, nil
}

// changeNetworkBalancer sets the attribute that the call names.
func changeNetworkBalancer(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	o, err := as[awsnet.Balancer](call.Action, x)
	switch {
	case err != nil:
		return err
	case !balancerARN.MatchString(x.ID):
		return badCall(call, quoted(x.ID)+" is not the ARN of a load balancer")
	}
	switch call.Action {
	case setSubnets:
		return change(ctx, c, setSubnets, func(ctx context.Context) (*elb.SetSubnetsOutput, error) {
			return c.elb.SetSubnets(ctx, &elb.SetSubnetsInput{LoadBalancerArn: &x.ID, Subnets: idsIn(o.Subnets)})
		})
	case setFamilies:
		return change(ctx, c, setFamilies, func(ctx context.Context) (*elb.SetIpAddressTypeOutput, error) {
			return c.elb.SetIpAddressType(ctx, &elb.SetIpAddressTypeInput{LoadBalancerArn: &x.ID, IpAddressType: families(o.DualStack)})
		})
	case setSecurity:
		return change(ctx, c, setSecurity, func(ctx context.Context) (*elb.SetSecurityGroupsOutput, error) {
			return c.elb.SetSecurityGroups(ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: &x.ID, SecurityGroups: idsIn(o.Groups)})
		})
	}
	return change(ctx, c, setBalancerAttributes, func(ctx context.Context) (*elb.ModifyLoadBalancerAttributesOutput, error) {
		return c.elb.ModifyLoadBalancerAttributes(ctx, &elb.ModifyLoadBalancerAttributesInput{
			LoadBalancerArn: &x.ID, Attributes: []types.LoadBalancerAttribute{{Key: aws.String(crossZone), Value: aws.String(strconv.FormatBool(o.CrossZone))}},
		})
	})
}

// networkCheck converts the health check of a target group for a request.
func networkCheck(h awsnet.Health) checkFields {
	return check(cloud.HealthCheck{Protocol: cloud.Protocol(h.Protocol), Port: h.Port, Path: h.Path, Interval: h.Interval, Timeout: h.Timeout, Healthy: h.Healthy, Unhealthy: h.Unhealthy})
}

func createNetworkTargetGroup(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.TargetGroup](createTargetGroup, x)
	if err != nil {
		return Made{}, err
	}
	family := types.TargetGroupIpAddressTypeEnumIpv4
	if o.IPv6 {
		family = types.TargetGroupIpAddressTypeEnumIpv6
	}
	h := networkCheck(o.Health)
	out, err := create(ctx, c, createTargetGroup, func(ctx context.Context) (*elb.CreateTargetGroupOutput, error) {
		return c.elb.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
			Name: &o.Title, VpcId: &o.VPC.ID, Protocol: types.ProtocolEnumTcp, Port: aws.Int32(int32(o.Port)), TargetType: types.TargetTypeEnumInstance, IpAddressType: family,
			HealthCheckProtocol: h.protocol, HealthCheckPort: h.port, HealthCheckPath: h.path, HealthCheckIntervalSeconds: h.interval, HealthCheckTimeoutSeconds: h.timeout,
			HealthyThresholdCount: h.healthy, UnhealthyThresholdCount: h.unhealthy, Tags: elbTags(x.Step.Tags),
		})
	})
	if err != nil {
		return Made{}, err
	}
	if len(out.TargetGroups) != 1 {
		return Made{}, strange(createTargetGroup, "number of target groups that is not 1 for", o.Title)
	}
	made, err := targetGroup(createTargetGroup, out.TargetGroups[0])
	return Made{ID: made.ID}, err
}

// changeNetworkTargetGroup sets the health check or the attributes of a target group.
func changeNetworkTargetGroup(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	o, err := as[awsnet.TargetGroup](call.Action, x)
	switch {
	case err != nil:
		return err
	case !groupARN.MatchString(x.ID):
		return badCall(call, quoted(x.ID)+" is not the ARN of a target group")
	case call.Action == setGroupAttributes:
		return change(ctx, c, setGroupAttributes, func(ctx context.Context) (*elb.ModifyTargetGroupAttributesOutput, error) {
			return c.elb.ModifyTargetGroupAttributes(ctx, &elb.ModifyTargetGroupAttributesInput{TargetGroupArn: &x.ID, Attributes: []types.TargetGroupAttribute{
				{Key: aws.String(preserveIP), Value: aws.String(strconv.FormatBool(o.PreserveIP))},
				{Key: aws.String(endUnhealthy), Value: aws.String(strconv.FormatBool(o.EndUnhealthy))},
			}})
		})
	}
	h := networkCheck(o.Health)
	return change(ctx, c, modifyTargetGroup, func(ctx context.Context) (*elb.ModifyTargetGroupOutput, error) {
		return c.elb.ModifyTargetGroup(ctx, &elb.ModifyTargetGroupInput{
			TargetGroupArn: &x.ID, HealthCheckProtocol: h.protocol, HealthCheckPort: h.port, HealthCheckPath: h.path,
			HealthCheckIntervalSeconds: h.interval, HealthCheckTimeoutSeconds: h.timeout, HealthyThresholdCount: h.healthy, UnhealthyThresholdCount: h.unhealthy,
		})
	})
}

func forwardTo(group string) []types.Action {
	return []types.Action{{Type: types.ActionTypeEnumForward, TargetGroupArn: &group}}
}

func createNetworkListener(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	o, err := as[awsnet.Listener](createListener, x)
	if err != nil {
		return Made{}, err
	}
	out, err := create(ctx, c, createListener, func(ctx context.Context) (*elb.CreateListenerOutput, error) {
		return c.elb.CreateListener(ctx, &elb.CreateListenerInput{
			LoadBalancerArn: &o.Balancer.ID, Protocol: types.ProtocolEnumTcp, Port: aws.Int32(int32(o.Port)), DefaultActions: forwardTo(o.Group.ID), Tags: elbTags(x.Step.Tags),
		})
	})
	if err != nil {
		return Made{}, err
	}
	if len(out.Listeners) != 1 {
		return Made{}, strange(createListener, "number of listeners that is not 1 for", o.Balancer.ID)
	}
	made, err := listener(createListener, out.Listeners[0])
	return Made{ID: made.ID}, err
}

func changeNetworkListener(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	o, err := as[awsnet.Listener](call.Action, x)
	switch {
	case err != nil:
		return err
	case !listenerARN.MatchString(x.ID):
		return badCall(call, quoted(x.ID)+" is not the ARN of a listener")
	}
	return change(ctx, c, modifyListener, func(ctx context.Context) (*elb.ModifyListenerOutput, error) {
		return c.elb.ModifyListener(ctx, &elb.ModifyListenerInput{ListenerArn: &x.ID, Protocol: types.ProtocolEnumTcp, Port: aws.Int32(int32(o.Port)), DefaultActions: forwardTo(o.Group.ID)})
	})
}
