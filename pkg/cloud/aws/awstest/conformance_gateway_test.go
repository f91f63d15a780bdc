package awstest_test

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (w *world) attach(gateway, vpc string) string {
	_, err := w.ec2.AttachInternetGateway(w.ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: w.id(gateway), VpcId: w.id(vpc)})
	return ok(err)
}

func (w *world) detach(gateway, vpc string) string {
	_, err := w.ec2.DetachInternetGateway(w.ctx, &ec2.DetachInternetGatewayInput{InternetGatewayId: w.id(gateway), VpcId: w.id(vpc)})
	return ok(err)
}

func (w *world) deleteGateway(gateway string) string {
	_, err := w.ec2.DeleteInternetGateway(w.ctx, &ec2.DeleteInternetGatewayInput{InternetGatewayId: w.id(gateway)})
	return ok(err)
}

func (w *world) gateway(name string) string {
	out, err := w.ec2.CreateInternetGateway(w.ctx, &ec2.CreateInternetGatewayInput{})
	return said(err, func() string { w.call(name, out.InternetGateway.InternetGatewayId); return "ok" })
}

func (w *world) defaultRoute(table, gateway string) string {
	to := "0.0.0.0/0"
	_, err := w.ec2.CreateRoute(w.ctx, &ec2.CreateRouteInput{RouteTableId: w.id(table), DestinationCidrBlock: &to, GatewayId: w.id(gateway)})
	return ok(err)
}

func (w *world) unbind(association string) string {
	_, err := w.ec2.DisassociateRouteTable(w.ctx, &ec2.DisassociateRouteTableInput{AssociationId: w.id(association)})
	return ok(err)
}

func (w *world) deleteTable(table string) string {
	_, err := w.ec2.DeleteRouteTable(w.ctx, &ec2.DeleteRouteTableInput{RouteTableId: w.id(table)})
	return ok(err)
}

func (w *world) deleteSubnet(subnet string) string {
	_, err := w.ec2.DeleteSubnet(w.ctx, &ec2.DeleteSubnetInput{SubnetId: w.id(subnet)})
	return ok(err)
}

func (w *world) deleteVPC(vpc string) string {
	_, err := w.ec2.DeleteVpc(w.ctx, &ec2.DeleteVpcInput{VpcId: w.id(vpc)})
	return ok(err)
}

var gateways = scenario{"internet gateways and deletion", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "") }},
	{name: "a table", want: "ok", do: func(w *world) string { return w.table("t", "vpc") }},
	{name: "a gateway", want: "ok", do: func(w *world) string { return w.gateway("g") }},
	{name: "another one", want: "ok", do: func(w *world) string { return w.gateway("g2") }},
	{name: "a route to it while it is detached", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string { return w.defaultRoute("t", "g2") }},
	{name: "attached", want: "ok", do: func(w *world) string { return w.attach("g", "vpc") }},
	{name: "attached twice", want: "Resource.AlreadyAssociated", do: func(w *world) string { return w.attach("g", "vpc") }},
	{name: "a second one attached", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string { return w.attach("g2", "vpc") }},
	{name: "by VPC", want: "g", do: func(w *world) string {
		out, err := w.ec2.DescribeInternetGateways(w.ctx, &ec2.DescribeInternetGatewaysInput{Filters: []types.Filter{filterOf("attachment.vpc-id", *w.id("vpc"))}})
		return said(err, func() string { return w.plain(*out.InternetGateways[0].InternetGatewayId) })
	}},
	{name: "the default route", moto: "RouteAlreadyExists", want: "ok", do: func(w *world) string { return w.defaultRoute("t", "g") }},
	{name: "the table", moto: "0.0.0.0/0 g2 active CreateRoute; " + localRoute, want: "0.0.0.0/0 g active CreateRoute; " + localRoute, do: func(w *world) string { return w.routes("t") }},
	{name: "associated", want: "ok", do: func(w *world) string { return w.associate("t", "a", "as") }},
	{name: "deleting the attached gateway", want: "DependencyViolation", do: func(w *world) string { return w.deleteGateway("g") }},
	{name: "deleting the associated table", want: "DependencyViolation", do: func(w *world) string { return w.deleteTable("t") }},
	{name: "an instance", want: "pending", do: func(w *world) string { return w.launch("i", "a") }},
	{name: "deleting its subnet", moto: "ok", want: "DependencyViolation", do: func(w *world) string { return w.deleteSubnet("a") }},
	{name: "terminated", want: "ok", do: func(w *world) string {
		_, err := w.ec2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*w.id("i")}})
		return ok(err)
	}},
	{name: "detached", want: "ok", do: func(w *world) string { return w.detach("g", "vpc") }},
	{name: "detached twice", want: "Gateway.NotAttached", do: func(w *world) string { return w.detach("g", "vpc") }},
	{name: "the table then", moto: "0.0.0.0/0 g2 active CreateRoute; " + localRoute, want: "0.0.0.0/0 g blackhole CreateRoute; " + localRoute, do: func(w *world) string { return w.routes("t") }},
	{name: "the gateway deleted", want: "ok", do: func(w *world) string { return w.deleteGateway("g") }},
	{name: "deleted twice", want: "InvalidInternetGatewayID.NotFound", do: func(w *world) string { return w.deleteGateway("g") }},
	{name: "the association removed", want: "ok", do: func(w *world) string { return w.unbind("as") }},
	{name: "removed twice", want: "InvalidAssociationID.NotFound", do: func(w *world) string { return w.unbind("as") }},
	{name: "the table deleted", want: "ok", do: func(w *world) string { return w.deleteTable("t") }},
	{name: "the subnet deleted", moto: "InvalidSubnetID.NotFound", want: "ok", do: func(w *world) string { return w.deleteSubnet("a") }},
	{name: "the VPC deleted", want: "ok", do: func(w *world) string { return w.deleteVPC("vpc") }},
	{name: "deleted twice", want: "InvalidVpcID.NotFound", do: func(w *world) string { return w.deleteVPC("vpc") }},
}}

func (w *world) natState() string {
	out, err := w.ec2.DescribeNatGateways(w.ctx, &ec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*w.id("nat")}})
	return said(err, func() string { return string(out.NatGateways[0].State) })
}

func (w *world) nat(address string) string {
	out, err := w.ec2.CreateNatGateway(w.ctx, &ec2.CreateNatGatewayInput{SubnetId: w.id("a"), AllocationId: &address})
	return said(err, func() string { w.call("nat", out.NatGateway.NatGatewayId); return string(out.NatGateway.State) })
}

func (w *world) release(name string) string {
	_, err := w.ec2.ReleaseAddress(w.ctx, &ec2.ReleaseAddressInput{AllocationId: w.id(name)})
	return ok(err)
}

func (w *world) address(name string) string {
	out, err := w.ec2.AllocateAddress(w.ctx, &ec2.AllocateAddressInput{Domain: types.DomainTypeVpc})
	return said(err, func() string { w.call(name, out.AllocationId); return string(out.Domain) })
}

var nats = scenario{"NAT gateways", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "") }},
	{name: "a table", want: "ok", do: func(w *world) string { return w.table("t", "vpc") }},
	{name: "a gateway", want: "ok", do: func(w *world) string { return w.gateway("g") }},
	{name: "attached", want: "ok", do: func(w *world) string { return w.attach("g", "vpc") }},
	{name: "an address", want: "vpc", do: func(w *world) string { return w.address("e") }},
	{name: "a NAT gateway of no address", want: "InvalidAllocationID.NotFound", do: func(w *world) string { return w.nat("eipalloc-0123456789abcdef0") }},
	{name: "a NAT gateway", moto: "available", want: "pending", do: func(w *world) string { return w.nat(*w.id("e")) }},
	{name: "then", want: "available", do: (*world).natState},
	{name: "its address released", moto: "ok", want: "InvalidIPAddress.InUse", do: func(w *world) string { return w.release("e") }},
	{name: "a route", want: "ok", do: func(w *world) string {
		_, err := w.ec2.CreateRoute(w.ctx, &ec2.CreateRouteInput{RouteTableId: w.id("t"), DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: w.id("nat")})
		return ok(err)
	}},
	{name: "the table", want: "0.0.0.0/0 nat active CreateRoute; " + localRoute, do: func(w *world) string { return w.routes("t") }},
	{name: "its interface", moto: "2", want: "1", do: func(w *world) string {
		out, err := w.ec2.DescribeNetworkInterfaces(w.ctx, &ec2.DescribeNetworkInterfacesInput{Filters: []types.Filter{filterOf("subnet-id", *w.id("a"))}})
		return said(err, func() string { return fmt.Sprint(len(out.NetworkInterfaces)) })
	}},
	{name: "deleted", want: "ok", do: func(w *world) string {
		_, err := w.ec2.DeleteNatGateway(w.ctx, &ec2.DeleteNatGatewayInput{NatGatewayId: w.id("nat")})
		return ok(err)
	}},
	{name: "still visible", want: "deleted", do: (*world).natState},
	{name: "the table then", moto: "0.0.0.0/0 nat active CreateRoute; " + localRoute, want: "0.0.0.0/0 nat blackhole CreateRoute; " + localRoute, do: func(w *world) string { return w.routes("t") }},
	{name: "its address released then", moto: "InvalidAllocationID.NotFound", want: "ok", do: func(w *world) string { return w.release("e") }},
	{name: "its subnet deleted", want: "ok", do: func(w *world) string { return w.deleteSubnet("a") }},
}}
