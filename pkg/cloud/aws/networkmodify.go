package aws

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// modifyNetworkVPC sets the attribute that the call names.
func modifyNetworkVPC(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	o, err := as[awsnet.VPC](modifyVPC, x)
	if err != nil {
		return err
	}
	in := &ec2.ModifyVpcAttributeInput{VpcId: &x.ID}
	switch call.Part {
	case "enableDnsSupport":
		in.EnableDnsSupport = &types.AttributeBooleanValue{Value: &o.DNSSupport}
	case "enableDnsHostnames":
		in.EnableDnsHostnames = &types.AttributeBooleanValue{Value: &o.DNSHostnames}
	default:
		return badCall(call, "VPCs have no attribute "+quoted(call.Part))
	}
	return change(ctx, c, modifyVPC, func(ctx context.Context) (*ec2.ModifyVpcAttributeOutput, error) {
		return c.ec2.ModifyVpcAttribute(ctx, in)
	})
}

// attachNetworkGateway attaches an internet gateway, unless it is attached already.
func attachNetworkGateway(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	o, err := as[awsnet.InternetGateway](attachGateway, x)
	if err != nil {
		return err
	}
	err = change(ctx, c, attachGateway, func(ctx context.Context) (*ec2.AttachInternetGatewayOutput, error) {
		return c.ec2.AttachInternetGateway(ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: &x.ID, VpcId: &o.VPC.ID})
	})
	if isCode(err, "Resource.AlreadyAssociated") && strings.Contains(err.Error(), o.VPC.ID) {
		return nil
	}
	return err
}

// modifyNetworkSubnet sets the attribute that the call names.
func modifyNetworkSubnet(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	o, err := as[awsnet.Subnet](modifySubnet, x)
	if err != nil {
		return err
	}
	in := &ec2.ModifySubnetAttributeInput{SubnetId: &x.ID}
	switch call.Part {
	case "mapPublicIpOnLaunch":
		in.MapPublicIpOnLaunch = &types.AttributeBooleanValue{Value: &o.PublicIPs}
	case "assignIpv6AddressOnCreation":
		in.AssignIpv6AddressOnCreation = &types.AttributeBooleanValue{Value: &o.AssignIPv6}
	case "enableDns64":
		in.EnableDns64 = &types.AttributeBooleanValue{Value: &o.DNS64}
	case "privateDnsHostnameTypeOnLaunch":
		in.PrivateDnsHostnameTypeOnLaunch = types.HostnameType(o.HostnameType)
	default:
		return badCall(call, "subnets have no attribute "+quoted(call.Part))
	}
	return change(ctx, c, modifySubnet, func(ctx context.Context) (*ec2.ModifySubnetAttributeOutput, error) {
		return c.ec2.ModifySubnetAttribute(ctx, in)
	})
}

func associateNetworkSubnet(c *Client, ctx context.Context, _ awsnet.Call, x NetworkChange) error {
	o, err := as[awsnet.Subnet](associateSubnet, x)
	if err != nil {
		return err
	}
	return change(ctx, c, associateSubnet, func(ctx context.Context) (*ec2.AssociateSubnetCidrBlockOutput, error) {
		return c.ec2.AssociateSubnetCidrBlock(ctx, &ec2.AssociateSubnetCidrBlockInput{SubnetId: &x.ID, Ipv6CidrBlock: textOf(o.IPv6.Prefix)})
	})
}

// routeFields are the fields of a route in a request.
type routeFields struct{ table, to4, to6, gateway, egress, nat, carrier *string }

// routeTo converts a route for a request.
func routeTo(action string, x NetworkChange) (f routeFields, err error) {
	o, err := as[awsnet.Route](action, x)
	if err != nil {
		return f, err
	}
	f.table = &o.Table.ID
	f.to4, f.to6 = destination(o.To)
	switch via := o.Via.ID; {
	case isID("igw", via):
		f.gateway = &via
	case isID("eigw", via):
		f.egress = &via
	case isID("nat", via):
		f.nat = &via
	case isID("cagw", via):
		f.carrier = &via
	default:
		return f, badCall(awsnet.Call{Action: action}, "a route to "+quoted(via)+" is not a network's")
	}
	return f, nil
}

// destination returns a route's destination as the parameter of its family.
func destination(p netip.Prefix) (to4, to6 *string) {
	if p.Addr().Is4() {
		return aws.String(p.String()), nil
	}
	return nil, aws.String(p.String())
}

func createNetworkRoute(c *Client, ctx context.Context, x NetworkChange) (Made, error) {
	f, err := routeTo(createRoute, x)
	if err != nil {
		return Made{}, err
	}
	err = change(ctx, c, createRoute, func(ctx context.Context) (*ec2.CreateRouteOutput, error) {
		return c.ec2.CreateRoute(ctx, &ec2.CreateRouteInput{
			RouteTableId: f.table, DestinationCidrBlock: f.to4, DestinationIpv6CidrBlock: f.to6,
			GatewayId: f.gateway, EgressOnlyInternetGatewayId: f.egress, NatGatewayId: f.nat, CarrierGatewayId: f.carrier,
		})
	})
	o := x.Object.(awsnet.Route)
	return Made{ID: o.Table.ID + "/" + o.To.String()}, err
}

func replaceNetworkRoute(c *Client, ctx context.Context, _ awsnet.Call, x NetworkChange) error {
	f, err := routeTo(replaceRoute, x)
	if err != nil {
		return err
	}
	return change(ctx, c, replaceRoute, func(ctx context.Context) (*ec2.ReplaceRouteOutput, error) {
		return c.ec2.ReplaceRoute(ctx, &ec2.ReplaceRouteInput{
			RouteTableId: f.table, DestinationCidrBlock: f.to4, DestinationIpv6CidrBlock: f.to6,
			GatewayId: f.gateway, EgressOnlyInternetGatewayId: f.egress, NatGatewayId: f.nat, CarrierGatewayId: f.carrier,
		})
	})
}

// modifyNetworkEndpoint adds and removes tables of an endpoint.
func modifyNetworkEndpoint(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	want, err := as[awsnet.Endpoint](modifyEndpoint, x)
	if err != nil {
		return err
	}
	have, ok := x.Have.(awsnet.Endpoint)
	if !ok {
		return badCall(call, "the change of an endpoint needs what the endpoint has")
	}
	in := &ec2.ModifyVpcEndpointInput{VpcEndpointId: &x.ID}
	for _, r := range want.Tables.Without(have.Tables).All() {
		in.AddRouteTableIds = append(in.AddRouteTableIds, r.ID)
	}
	for _, r := range have.Tables.Without(want.Tables).All() {
		if !isID("rtb", r.ID) {
			return badCall(call, quoted(r.ID)+" is not a route table")
		}
		in.RemoveRouteTableIds = append(in.RemoveRouteTableIds, r.ID)
	}
	return change(ctx, c, modifyEndpoint, func(ctx context.Context) (*ec2.ModifyVpcEndpointOutput, error) {
		return c.ec2.ModifyVpcEndpoint(ctx, in)
	})
}

// tagNetwork sets tags of one object: those of the step and, for a Tagging, its own.
func tagNetwork(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	tags := maps.Clone(x.Step.Tags)
	id := x.ID
	if t, ok := x.Object.(awsnet.Tagging); ok {
		id = t.ID
		if tags == nil {
			tags = make(map[string]string)
		}
		maps.Copy(tags, t.Tags.Map())
	}
	if len(tags) == 0 || !isObject(id) {
		return badCall(call, "the change of "+quoted(id)+" has no tags")
	}
	if call.Action == createTags {
		return change(ctx, c, createTags, func(ctx context.Context) (*ec2.CreateTagsOutput, error) {
			return c.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: ec2Tags(tags)})
		})
	}
	return change(ctx, c, addTags, func(ctx context.Context) (*elb.AddTagsOutput, error) {
		return c.elb.AddTags(ctx, &elb.AddTagsInput{ResourceArns: []string{id}, Tags: elbTags(tags)})
	})
}

// ruleIDs returns the group of the rules, and their IDs.
func ruleIDs(call awsnet.Call, all []NetworkChange) (group string, list []string, err error) {
	for _, x := range all {
		r, err := as[awsnet.Rule](call.Action, x)
		switch {
		case err != nil:
			return "", nil, err
		case !isID("sg", r.Owner.ID):
			return "", nil, badCall(call, "the security group of the rule is not known")
		case !isID("sgr", x.ID):
			return "", nil, badCall(call, quoted(x.ID)+" is not the ID of a rule")
		case group != "" && r.Owner.ID != group:
			return "", nil, badCall(call, "the rules are of several groups: "+group+", "+r.Owner.ID)
		}
		group, list = r.Owner.ID, append(list, x.ID)
	}
	return group, list, nil
}

// describeNetworkRules sets the descriptions of rules of one group.
func describeNetworkRules(c *Client, ctx context.Context, call awsnet.Call, all []NetworkChange) ([]Made, error) {
	group, list, err := ruleIDs(call, all)
	if err != nil {
		return nil, err
	}
	var to []types.SecurityGroupRuleDescription
	for i, x := range all {
		to = append(to, types.SecurityGroupRuleDescription{SecurityGroupRuleId: &list[i], Description: aws.String(x.Object.(awsnet.Rule).Description)})
	}
	if call.Action == describeEgressRules {
		return nil, change(ctx, c, call.Action, func(ctx context.Context) (*ec2.UpdateSecurityGroupRuleDescriptionsEgressOutput, error) {
			return c.ec2.UpdateSecurityGroupRuleDescriptionsEgress(ctx, &ec2.UpdateSecurityGroupRuleDescriptionsEgressInput{GroupId: &group, SecurityGroupRuleDescriptions: to})
		})
	}
	return nil, change(ctx, c, call.Action, func(ctx context.Context) (*ec2.UpdateSecurityGroupRuleDescriptionsIngressOutput, error) {
		return c.ec2.UpdateSecurityGroupRuleDescriptionsIngress(ctx, &ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: &group, SecurityGroupRuleDescriptions: to})
	})
}

// removeRules removes rules of one group. AWS removes all or none of a request. If a
// rule is missing, removeRules sends a request for each.
func removeRules(c *Client, ctx context.Context, call awsnet.Call, all []NetworkChange) ([]Made, error) {
	group, list, err := ruleIDs(call, all)
	if err != nil {
		return nil, err
	}
	send := func(some []string) error {
		if call.Action == revokeEgress {
			return change(ctx, c, call.Action, func(ctx context.Context) (*ec2.RevokeSecurityGroupEgressOutput, error) {
				return c.ec2.RevokeSecurityGroupEgress(ctx, &ec2.RevokeSecurityGroupEgressInput{GroupId: &group, SecurityGroupRuleIds: some})
			})
		}
		return change(ctx, c, call.Action, func(ctx context.Context) (*ec2.RevokeSecurityGroupIngressOutput, error) {
			return c.ec2.RevokeSecurityGroupIngress(ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: &group, SecurityGroupRuleIds: some})
		})
	}
	if err := send(list); unlessMissing(err) != nil || err == nil || len(list) == 1 {
		return nil, unlessMissing(err)
	}
	for one := range slices.Chunk(list, 1) {
		if err := unlessMissing(send(one)); err != nil {
			return nil, err
		}
	}
	return nil, nil
}
