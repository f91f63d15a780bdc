package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/smithy-go"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

// prefixes are the prefixes of the IDs that each call deletes.
var prefixes = map[string]string{
	deleteVPC: "vpc", detachGateway: "igw", deleteGateway: "igw", deleteEgress: "eigw", deleteCarrier: "cagw", deleteSubnet: "subnet", releaseAddress: "eipalloc",
	deleteNAT: "nat", deleteTable: "rtb", disassociateTable: "rtbassoc", deleteEndpoints: "vpce", deleteSecurityGroup: "sg", terminateInstances: "i",
}

// deleteFromEC2 makes a call that deletes an object of EC2.
func deleteFromEC2(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	if p := prefixes[call.Action]; p != "" && !isID(p, x.ID) {
		return badCall(call, quoted(x.ID)+" is not the ID of what the call deletes; such an ID begins with "+p+"-")
	}
	send := func(do func(ctx context.Context) error) error {
		return change(ctx, c, call.Action, func(ctx context.Context) (struct{}, error) { return struct{}{}, do(ctx) })
	}
	id := &x.ID
	switch call.Action {
	case deleteVPC:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteVpc(ctx, &ec2.DeleteVpcInput{VpcId: id})
			return err
		})
	case disassociateBlock:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DisassociateVpcCidrBlock(ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: id})
			return err
		})
	case detachGateway:
		o, err := as[awsnet.InternetGateway](call.Action, x)
		if err == nil && !isID("vpc", o.VPC.ID) {
			err = badCall(call, "the VPC of "+x.ID+" is not known")
		}
		if err != nil {
			return err
		}
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DetachInternetGateway(ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: id, VpcId: &o.VPC.ID})
			return err
		})
	case deleteGateway:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteInternetGateway(ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: id})
			return err
		})
	case deleteEgress:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteEgressOnlyInternetGateway(ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: id})
			return err
		})
	case deleteCarrier:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteCarrierGateway(ctx, &ec2.DeleteCarrierGatewayInput{CarrierGatewayId: id})
			return err
		})
	case deleteSubnet:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteSubnet(ctx, &ec2.DeleteSubnetInput{SubnetId: id})
			return err
		})
	case releaseAddress:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.ReleaseAddress(ctx, &ec2.ReleaseAddressInput{AllocationId: id})
			return err
		})
	case deleteNAT:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteNatGateway(ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: id})
			return err
		})
	case deleteTable:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteRouteTable(ctx, &ec2.DeleteRouteTableInput{RouteTableId: id})
			return err
		})
	case disassociateTable:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DisassociateRouteTable(ctx, &ec2.DisassociateRouteTableInput{AssociationId: id})
			return err
		})
	case deleteEndpoints:
		return send(func(ctx context.Context) error { return c.deleteEndpoint(ctx, x.ID) })
	case deleteSecurityGroup:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteSecurityGroup(ctx, &ec2.DeleteSecurityGroupInput{GroupId: id})
			return err
		})
	case terminateInstances:
		return send(func(ctx context.Context) error {
			_, err := c.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{x.ID}})
			return err
		})
	case deleteRoute:
		o, err := as[awsnet.Route](call.Action, x)
		if err == nil && !isID("rtb", o.Table.ID) {
			err = badCall(call, "the table of the route is not known")
		}
		if err != nil {
			return err
		}
		if there, err := c.routeIsStill(ctx, o); err != nil || !there {
			return err
		}
		to4, to6 := destination(o.To)
		return send(func(ctx context.Context) error {
			_, err := c.ec2.DeleteRoute(ctx, &ec2.DeleteRouteInput{RouteTableId: &o.Table.ID, DestinationCidrBlock: to4, DestinationIpv6CidrBlock: to6})
			return err
		})
	}
	return c.untag(ctx, call, x, send)
}

// routeIsStill reports whether a table has a route. It returns an error if the route
// has another target by now: AWS has no preconditions, and a foreign route may have
// replaced ours.
func (c *Client) routeIsStill(ctx context.Context, o awsnet.Route) (bool, error) {
	now, there, err := c.routeNow(ctx, o.Table.ID, o.To)
	if err == nil && there && now.Target != o.Via.ID {
		return false, &cloud.Error{Kind: cloud.Changed, Action: deleteRoute, Text: "route " + o.To.String() + " of " + o.Table.ID + " leads to " + clip(now.Target) + " now, and not to " + quoted(o.Via.ID) + "; reading the network again"}
	}
	return there, err
}

// untag deletes the tags of a Tagging that still have its values.
func (c *Client) untag(ctx context.Context, call awsnet.Call, x NetworkChange, send func(func(context.Context) error) error) error {
	t, err := as[awsnet.Tagging](call.Action, x)
	if err != nil {
		return err
	}
	tags := t.Tags.Map()
	if len(tags) == 0 || !resourceID.MatchString(t.ID) {
		return badCall(call, "the change of "+quoted(t.ID)+" has no tags") // without tags in the request, AWS deletes all
	}
	return send(func(ctx context.Context) error {
		_, err := c.ec2.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{t.ID}, Tags: ec2Tags(tags)})
		return err
	})
}

// deleteEndpoint deletes an endpoint. AWS reports a failure in a successful answer.
func (c *Client) deleteEndpoint(ctx context.Context, id string) error {
	out, err := c.ec2.DeleteVpcEndpoints(ctx, &ec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{id}})
	if err != nil {
		return err
	}
	for _, u := range out.Unsuccessful {
		if u.Error != nil {
			return &smithy.GenericAPIError{Code: value(u.Error.Code), Message: value(u.Error.Message)}
		}
	}
	return nil
}

// deleteFromELB makes a call that deletes an object of Elastic Load Balancing.
func deleteFromELB(c *Client, ctx context.Context, call awsnet.Call, x NetworkChange) error {
	id := &x.ID
	switch {
	case call.Action == deleteBalancer && balancerARN.MatchString(x.ID):
		return change(ctx, c, call.Action, func(ctx context.Context) (*elb.DeleteLoadBalancerOutput, error) {
			return c.elb.DeleteLoadBalancer(ctx, &elb.DeleteLoadBalancerInput{LoadBalancerArn: id})
		})
	case call.Action == deleteTargetGroup && groupARN.MatchString(x.ID):
		return change(ctx, c, call.Action, func(ctx context.Context) (*elb.DeleteTargetGroupOutput, error) {
			return c.elb.DeleteTargetGroup(ctx, &elb.DeleteTargetGroupInput{TargetGroupArn: id})
		})
	case call.Action == deleteListener && listenerARN.MatchString(x.ID):
		return change(ctx, c, call.Action, func(ctx context.Context) (*elb.DeleteListenerOutput, error) {
			return c.elb.DeleteListener(ctx, &elb.DeleteListenerInput{ListenerArn: id})
		})
	}
	return badCall(call, quoted(x.ID)+" is not the ARN of what the call deletes")
}
