package aws

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The actions that change target groups and security groups.
const (
	createTargetGroup   = "CreateTargetGroup"
	modifyTargetGroup   = "ModifyTargetGroup"
	setGroupAttributes  = "ModifyTargetGroupAttributes"
	deleteTargetGroup   = "DeleteTargetGroup"
	registerTargets     = "RegisterTargets"
	deregisterTargets   = "DeregisterTargets"
	createSecurityGroup = "CreateSecurityGroup"
	deleteSecurityGroup = "DeleteSecurityGroup"
	authorizeIngress    = "AuthorizeSecurityGroupIngress"
	revokeIngress       = "RevokeSecurityGroupIngress"
	describeIngress     = "UpdateSecurityGroupRuleDescriptionsIngress"
)

// checkFields are the fields of a health check in a request.
type checkFields struct {
	protocol                              types.ProtocolEnum
	port, path                            *string
	matcher                               *types.Matcher
	interval, timeout, healthy, unhealthy *int32
}

// check converts a health check for a request. It omits zero fields, for which AWS has
// defaults.
func check(h cloud.HealthCheck) checkFields {
	number := func(n int) *int32 {
		if n == 0 {
			return nil
		}
		return aws.Int32(int32(n))
	}
	c := checkFields{
		protocol: types.ProtocolEnum(h.Protocol), port: optional(h.Port), path: optional(h.Path),
		interval: number(h.Interval), timeout: number(h.Timeout), healthy: number(h.Healthy), unhealthy: number(h.Unhealthy),
	}
	if h.Codes != "" {
		c.matcher = &types.Matcher{HttpCode: aws.String(h.Codes)}
	}
	return c
}

func (c *Client) createTargetGroup(ctx context.Context, g cloud.TargetGroup) (cloud.Balancing, error) {
	h := check(g.Health)
	out, err := create(ctx, c, createTargetGroup, func(ctx context.Context) (*elb.CreateTargetGroupOutput, error) {
		return c.elb.CreateTargetGroup(ctx, &elb.CreateTargetGroupInput{
			Name: &g.Name, VpcId: &g.Network, Protocol: types.ProtocolEnum(g.Protocol), Port: aws.Int32(int32(g.Port)), TargetType: types.TargetTypeEnum(g.Kind), IpAddressType: types.TargetGroupIpAddressTypeEnum(g.Family),
			HealthCheckProtocol: h.protocol, HealthCheckPort: h.port, HealthCheckPath: h.path, Matcher: h.matcher, HealthCheckIntervalSeconds: h.interval, HealthCheckTimeoutSeconds: h.timeout,
			HealthyThresholdCount: h.healthy, UnhealthyThresholdCount: h.unhealthy, Tags: elbTags(g.Tags),
		})
	})
	if err != nil {
		return cloud.Balancing{}, err
	}
	if len(out.TargetGroups) != 1 {
		return cloud.Balancing{}, strange(createTargetGroup, "number of target groups that is not 1 for", g.Name)
	}
	made, err := targetGroup(createTargetGroup, out.TargetGroups[0])
	if err != nil {
		return cloud.Balancing{}, err
	}
	made.Tags = g.Tags
	return cloud.Balancing{Groups: []cloud.TargetGroup{made}}, nil
}

// changeTargetGroup changes or deletes a target group.
func (c *Client) changeTargetGroup(ctx context.Context, verb cloud.BalancerVerb, g cloud.TargetGroup) error {
	var targets []types.TargetDescription
	for _, t := range g.Targets {
		targets = append(targets, types.TargetDescription{Id: aws.String(t.ID), Port: aws.Int32(int32(t.Port))})
	}
	switch verb {
	case cloud.SetHealthCheck:
		h := check(g.Health)
		return change(ctx, c, modifyTargetGroup, func(ctx context.Context) (*elb.ModifyTargetGroupOutput, error) {
			return c.elb.ModifyTargetGroup(ctx, &elb.ModifyTargetGroupInput{
				TargetGroupArn: &g.ID, HealthCheckProtocol: h.protocol, HealthCheckPort: h.port, HealthCheckPath: h.path, Matcher: h.matcher,
				HealthCheckIntervalSeconds: h.interval, HealthCheckTimeoutSeconds: h.timeout, HealthyThresholdCount: h.healthy, UnhealthyThresholdCount: h.unhealthy,
			})
		})
	case cloud.SetGroupAttributes:
		all := pairs(g.Attributes, func(key, value *string) types.TargetGroupAttribute {
			return types.TargetGroupAttribute{Key: key, Value: value}
		})
		return change(ctx, c, setGroupAttributes, func(ctx context.Context) (*elb.ModifyTargetGroupAttributesOutput, error) {
			return c.elb.ModifyTargetGroupAttributes(ctx, &elb.ModifyTargetGroupAttributesInput{TargetGroupArn: &g.ID, Attributes: all})
		})
	case cloud.Register:
		return change(ctx, c, registerTargets, func(ctx context.Context) (*elb.RegisterTargetsOutput, error) {
			return c.elb.RegisterTargets(ctx, &elb.RegisterTargetsInput{TargetGroupArn: &g.ID, Targets: targets})
		})
	case cloud.Deregister:
		return unlessMissing(change(ctx, c, deregisterTargets, func(ctx context.Context) (*elb.DeregisterTargetsOutput, error) {
			return c.elb.DeregisterTargets(ctx, &elb.DeregisterTargetsInput{TargetGroupArn: &g.ID, Targets: targets})
		}))
	}
	return unlessMissing(change(ctx, c, deleteTargetGroup, func(ctx context.Context) (*elb.DeleteTargetGroupOutput, error) {
		return c.elb.DeleteTargetGroup(ctx, &elb.DeleteTargetGroupInput{TargetGroupArn: &g.ID})
	}))
}

func (c *Client) createSecurityGroup(ctx context.Context, g cloud.SecurityGroup) (cloud.Balancing, error) {
	var tags []ec2types.TagSpecification
	if len(g.Tags) > 0 {
		tags = []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeSecurityGroup, Tags: ec2Tags(g.Tags)}}
	}
	out, err := create(ctx, c, createSecurityGroup, func(ctx context.Context) (*ec2.CreateSecurityGroupOutput, error) {
		return c.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{GroupName: &g.Name, Description: &g.Description, VpcId: &g.Network, TagSpecifications: tags})
	})
	if err != nil {
		return cloud.Balancing{}, err
	}
	if g.ID = value(out.GroupId); !isGroup(g.ID) {
		return cloud.Balancing{}, strange(createSecurityGroup, "security group", g.ID)
	}
	g.Rules = nil
	return cloud.Balancing{Security: []cloud.SecurityGroup{g}}, nil
}

// changeSecurityGroup deletes a security group, or changes its rules.
func (c *Client) changeSecurityGroup(ctx context.Context, verb cloud.BalancerVerb, g cloud.SecurityGroup) error {
	if verb == cloud.DeleteSecurityGroup {
		return unlessMissing(change(ctx, c, deleteSecurityGroup, func(ctx context.Context) (*ec2.DeleteSecurityGroupOutput, error) {
			return c.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: &g.ID})
		}))
	}
	err := c.changeRules(ctx, verb, g.ID, g.Rules)
	switch {
	case verb == cloud.DescribeIngress:
		return err
	case !isDone(verb, err):
		return err
	case len(g.Rules) == 1:
		return nil
	}
	// AWS has changed nothing, because one rule to add exists or one to remove does not. So
	// send each rule in a request of its own.
	var failed []error
	for _, r := range g.Rules {
		if err := c.changeRules(ctx, verb, g.ID, []cloud.Rule{r}); err != nil && !isDone(verb, err) {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// isDone reports whether an error says that a rule already is in the wanted state.
func isDone(verb cloud.BalancerVerb, err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return false
	}
	if verb == cloud.AllowIngress {
		return strings.HasPrefix(e.Text, "InvalidPermission.Duplicate:")
	}
	return strings.HasPrefix(e.Text, "InvalidPermission.NotFound:") || strings.HasPrefix(e.Text, "InvalidGroup.NotFound:")
}

// changeRules adds rules to a security group, removes them or changes their descriptions. AWS
// changes all of them or none.
func (c *Client) changeRules(ctx context.Context, verb cloud.BalancerVerb, id string, all []cloud.Rule) error {
	if len(all) == 0 {
		return nil
	}
	switch verb {
	case cloud.DescribeIngress:
		return change(ctx, c, describeIngress, func(ctx context.Context) (*ec2.UpdateSecurityGroupRuleDescriptionsIngressOutput, error) {
			return c.ec2.UpdateSecurityGroupRuleDescriptionsIngress(ctx, &ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: &id, IpPermissions: permissions(all)})
		})
	case cloud.AllowIngress:
		return change(ctx, c, authorizeIngress, func(ctx context.Context) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
			return c.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &id, IpPermissions: permissions(all)})
		})
	}
	return change(ctx, c, revokeIngress, func(ctx context.Context) (*ec2.RevokeSecurityGroupIngressOutput, error) {
		return c.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &id, IpPermissions: permissions(all)})
	})
}
