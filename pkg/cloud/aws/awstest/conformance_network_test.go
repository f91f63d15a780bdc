package awstest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func truth(v bool) *types.AttributeBooleanValue { return &types.AttributeBooleanValue{Value: &v} }

// dns reports whether a VPC has DNS and host names.
func (w *world) dns(vpc string) string {
	var all []string
	for _, name := range []types.VpcAttributeName{types.VpcAttributeNameEnableDnsSupport, types.VpcAttributeNameEnableDnsHostnames} {
		out, err := w.ec2.DescribeVpcAttribute(w.ctx, &ec2.DescribeVpcAttributeInput{VpcId: w.id(vpc), Attribute: name})
		if err != nil {
			return code(err)
		}
		for _, v := range []*types.AttributeBooleanValue{out.EnableDnsSupport, out.EnableDnsHostnames} {
			if v != nil {
				all = append(all, fmt.Sprint(*v.Value))
			}
		}
	}
	return strings.Join(all, " ")
}

func (w *world) setSubnet(name string, change func(*ec2.ModifySubnetAttributeInput)) string {
	in := &ec2.ModifySubnetAttributeInput{SubnetId: w.id(name)}
	change(in)
	_, err := w.ec2.ModifySubnetAttribute(w.ctx, in)
	return ok(err)
}

var attributes = scenario{"attributes of networks", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "its DNS", want: "true false", do: func(w *world) string { return w.dns("vpc") }},
	{name: "host names", want: "true true", do: func(w *world) string {
		if _, err := w.ec2.ModifyVpcAttribute(w.ctx, &ec2.ModifyVpcAttributeInput{VpcId: w.id("vpc"), EnableDnsHostnames: truth(true)}); err != nil {
			return code(err)
		}
		return w.dns("vpc")
	}},
	{name: "two at a time", moto: "ok", want: "InvalidParameterCombination", do: func(w *world) string {
		_, err := w.ec2.ModifyVpcAttribute(w.ctx, &ec2.ModifyVpcAttributeInput{VpcId: w.id("vpc"), EnableDnsHostnames: truth(true), EnableDnsSupport: truth(true)})
		return ok(err)
	}},
	{name: "of a VPC that there is not", want: "InvalidVpcID.NotFound", do: func(w *world) string {
		_, err := w.ec2.ModifyVpcAttribute(w.ctx, &ec2.ModifyVpcAttributeInput{VpcId: aws.String("vpc-0123456789abcdef0"), EnableDnsHostnames: truth(true)})
		return ok(err)
	}},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("s", "vpc", "10.0.0.0/24", "") }},
	{name: "public", want: "ok", do: func(w *world) string {
		return w.setSubnet("s", func(in *ec2.ModifySubnetAttributeInput) { in.MapPublicIpOnLaunch = truth(true) })
	}},
	{name: "IPv6 without a block", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string {
		return w.setSubnet("s", func(in *ec2.ModifySubnetAttributeInput) { in.AssignIpv6AddressOnCreation = truth(true) })
	}},
	{name: "its attributes", moto: "true true", want: "true false", do: func(w *world) string {
		out, err := w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{SubnetIds: w.idsOf("s")})
		return said(err, func() string {
			return fmt.Sprint(*out.Subnets[0].MapPublicIpOnLaunch, " ", *out.Subnets[0].AssignIpv6AddressOnCreation)
		})
	}},
}}

// blocks returns the blocks of a VPC, those of IPv6 as their size.
func (w *world) blocks(vpc string) string {
	out, err := w.ec2.DescribeVpcs(w.ctx, &ec2.DescribeVpcsInput{VpcIds: w.idsOf(vpc)})
	return said(err, func() string {
		var all []string
		for _, b := range out.Vpcs[0].CidrBlockAssociationSet {
			if b.CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
				all = append(all, *b.CidrBlock)
			}
		}
		for _, b := range out.Vpcs[0].Ipv6CidrBlockAssociationSet {
			if b.Ipv6CidrBlockState.State == types.VpcCidrBlockStateCodeAssociated {
				_, size, _ := strings.Cut(*b.Ipv6CidrBlock, "/")
				all = append(all, "/"+size)
			}
		}
		return strings.Join(all, " ")
	})
}

// addBlock gives a VPC a block, Amazon's IPv6 without one.
func (w *world) addBlock(name, vpc, cidr string) string {
	in := &ec2.AssociateVpcCidrBlockInput{VpcId: w.id(vpc)}
	if cidr == "" {
		in.AmazonProvidedIpv6CidrBlock = aws.Bool(true)
	} else {
		in.CidrBlock = &cidr
	}
	out, err := w.ec2.AssociateVpcCidrBlock(w.ctx, in)
	return said(err, func() string {
		if cidr == "" {
			w.ids[name+"/cidr"] = *out.Ipv6CidrBlockAssociation.Ipv6CidrBlock
			w.call(name, out.Ipv6CidrBlockAssociation.AssociationId)
		} else {
			w.call(name, out.CidrBlockAssociation.AssociationId)
		}
		return "ok"
	})
}

func (w *world) dropBlock(name string) string {
	_, err := w.ec2.DisassociateVpcCidrBlock(w.ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: w.id(name)})
	return ok(err)
}

var blocks = scenario{"blocks of networks", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "another block", want: "ok", do: func(w *world) string { return w.addBlock("second", "vpc", "10.1.0.0/16") }},
	{name: "one that overlaps", moto: "ok", want: "InvalidVpc.Range", do: func(w *world) string { return w.addBlock("third", "vpc", "10.1.1.0/24") }},
	{name: "IPv6", want: "ok", do: func(w *world) string { return w.addBlock("six", "vpc", "") }},
	{name: "IPv6 twice", want: "CidrLimitExceeded", do: func(w *world) string { return w.addBlock("seven", "vpc", "") }},
	{name: "its blocks", moto: "10.0.0.0/16 10.1.0.0/16 10.1.1.0/24 /56", want: "10.0.0.0/16 10.1.0.0/16 /56", do: func(w *world) string { return w.blocks("vpc") }},
	{name: "a subnet in it", want: "ok", do: func(w *world) string { return w.subnet("s", "vpc", "10.1.0.0/24", "") }},
	{name: "its IPv6 block", want: "ok", do: func(w *world) string {
		cidr := strings.Replace(w.ids["six/cidr"], "/56", "/64", 1)
		out, err := w.ec2.AssociateSubnetCidrBlock(w.ctx, &ec2.AssociateSubnetCidrBlockInput{SubnetId: w.id("s"), Ipv6CidrBlock: &cidr})
		return said(err, func() string { w.call("s/six", out.Ipv6CidrBlockAssociation.AssociationId); return "ok" })
	}},
	{name: "the VPC's block in use", moto: "ok", want: "InvalidCidrBlock.InUse", do: func(w *world) string { return w.dropBlock("second") }},
	{name: "without its IPv6 block", want: "ok", do: func(w *world) string {
		_, err := w.ec2.DisassociateSubnetCidrBlock(w.ctx, &ec2.DisassociateSubnetCidrBlockInput{AssociationId: w.id("s/six")})
		return ok(err)
	}},
	{name: "without the VPC's", want: "ok", do: func(w *world) string { return w.dropBlock("six") }},
	{name: "without one that there is not", moto: "InvalidVpcCidrBlockAssociationIdError.NotFound", want: "InvalidVpcCidrBlockAssociationID.NotFound", do: func(w *world) string {
		_, err := w.ec2.DisassociateVpcCidrBlock(w.ctx, &ec2.DisassociateVpcCidrBlockInput{AssociationId: aws.String("vpc-cidr-assoc-0123456789abcdef0")})
		return ok(err)
	}},
	{name: "without the primary one", want: "OperationNotPermitted", do: func(w *world) string {
		out, err := w.ec2.DescribeVpcs(w.ctx, &ec2.DescribeVpcsInput{VpcIds: w.idsOf("vpc")})
		if err != nil {
			return code(err)
		}
		w.call("first", out.Vpcs[0].CidrBlockAssociationSet[0].AssociationId)
		return w.dropBlock("first")
	}},
	{name: "its blocks in the end", moto: "10.0.0.0/16 10.1.1.0/24", want: "10.0.0.0/16 10.1.0.0/16", do: func(w *world) string { return w.blocks("vpc") }},
}}

// endpoints returns the endpoints of a VPC with their tables.
func (w *world) endpointsOf(vpc string) string {
	out, err := w.ec2.DescribeVpcEndpoints(w.ctx, &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{filterOf("vpc-id", *w.id(vpc))}})
	return said(err, func() string {
		var all []string
		for _, e := range out.VpcEndpoints {
			tables := slices.Sorted(slices.Values(e.RouteTableIds))
			all = append(all, fmt.Sprint(w.plain(*e.VpcEndpointId), " ", strings.ToLower(string(e.State)), " ", w.plain(fmt.Sprint(tables))))
		}
		return strings.Join(all, ", ")
	})
}

func (w *world) endpoint(name, vpc, service string, tables ...string) string {
	out, err := w.ec2.CreateVpcEndpoint(w.ctx, &ec2.CreateVpcEndpointInput{
		VpcId: w.id(vpc), ServiceName: aws.String("com.amazonaws.eu-central-1." + service), VpcEndpointType: types.VpcEndpointTypeGateway, RouteTableIds: w.idsOf(tables...),
	})
	return said(err, func() string { w.call(name, out.VpcEndpoint.VpcEndpointId); return "ok" })
}

var ways = scenario{"ways out of networks", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "with IPv6", want: "ok", do: func(w *world) string { return w.addBlock("six", "vpc", "") }},
	{name: "tables", want: "ok ok", do: func(w *world) string { return w.table("t1", "vpc") + " " + w.table("t2", "vpc") }},
	{name: "an egress-only gateway", want: "ok", do: func(w *world) string {
		out, err := w.ec2.CreateEgressOnlyInternetGateway(w.ctx, &ec2.CreateEgressOnlyInternetGatewayInput{VpcId: w.id("vpc")})
		return said(err, func() string { w.call("eigw", out.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId); return "ok" })
	}},
	{name: "what it is attached to", want: "vpc attached", do: func(w *world) string {
		out, err := w.ec2.DescribeEgressOnlyInternetGateways(w.ctx, &ec2.DescribeEgressOnlyInternetGatewaysInput{EgressOnlyInternetGatewayIds: w.idsOf("eigw")})
		return said(err, func() string {
			a := out.EgressOnlyInternetGateways[0].Attachments[0]
			return w.plain(*a.VpcId) + " " + string(a.State)
		})
	}},
	{name: "a route to it", want: "ok", do: func(w *world) string {
		_, err := w.ec2.CreateRoute(w.ctx, &ec2.CreateRouteInput{RouteTableId: w.id("t1"), DestinationIpv6CidrBlock: aws.String("::/0"), EgressOnlyInternetGatewayId: w.id("eigw")})
		return ok(err)
	}},
	{name: "an endpoint", want: "ok", do: func(w *world) string { return w.endpoint("s3", "vpc", "s3", "t1") }},
	{name: "what it leads from", want: "s3 available [t1]", do: func(w *world) string { return w.endpointsOf("vpc") }},
	{name: "another table", want: "s3 available [t2]", do: func(w *world) string {
		if _, err := w.ec2.ModifyVpcEndpoint(w.ctx, &ec2.ModifyVpcEndpointInput{VpcEndpointId: w.id("s3"), AddRouteTableIds: w.idsOf("t2"), RemoveRouteTableIds: w.idsOf("t1")}); err != nil {
			return code(err)
		}
		return w.endpointsOf("vpc")
	}},
	{name: "a table twice", moto: "ok", want: "RouteAlreadyExists", do: func(w *world) string { return w.endpoint("s3b", "vpc", "s3", "t2") }},
	{name: "a service that there is not", moto: "ok", want: "InvalidServiceName", do: func(w *world) string { return w.endpoint("none", "vpc", "no", "t2") }},
	{name: "a VPC with a gateway", want: "DependencyViolation", do: func(w *world) string {
		_, err := w.ec2.DeleteVpc(w.ctx, &ec2.DeleteVpcInput{VpcId: aws.String(*w.id("vpc"))})
		return ok(err)
	}},
	{name: "the gateway deleted", want: "ok", do: func(w *world) string {
		_, err := w.ec2.DeleteEgressOnlyInternetGateway(w.ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: w.id("eigw")})
		return ok(err)
	}},
	{name: "deleted twice", want: "InvalidGatewayID.NotFound", do: func(w *world) string {
		_, err := w.ec2.DeleteEgressOnlyInternetGateway(w.ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: w.id("eigw")})
		return ok(err)
	}},
	{name: "the endpoint deleted, and one that there is not", moto: "0", want: "1", do: func(w *world) string {
		out, err := w.ec2.DeleteVpcEndpoints(w.ctx, &ec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{*w.id("s3"), "vpce-0123456789abcdef0"}})
		return said(err, func() string { return fmt.Sprint(len(out.Unsuccessful)) })
	}},
}}

var associations = scenario{"associations of route tables", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "another one", want: "ok", do: func(w *world) string { return w.vpc("other", "10.1.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("s", "vpc", "10.0.0.0/24", "") }},
	{name: "tables", want: "ok ok ok", do: func(w *world) string {
		return w.table("t1", "vpc") + " " + w.table("t2", "vpc") + " " + w.table("foreign", "other")
	}},
	{name: "associated", want: "ok", do: func(w *world) string {
		out, err := w.ec2.AssociateRouteTable(w.ctx, &ec2.AssociateRouteTableInput{RouteTableId: w.id("t1"), SubnetId: w.id("s")})
		return said(err, func() string { w.call("as", out.AssociationId); return "ok" })
	}},
	{name: "with a table of another VPC", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string {
		out, err := w.ec2.ReplaceRouteTableAssociation(w.ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: w.id("as"), RouteTableId: w.id("foreign")})
		return said(err, func() string { w.call("as", out.NewAssociationId); return "ok" })
	}},
	{name: "with the same table", moto: "another", want: "the same", do: func(w *world) string {
		out, err := w.ec2.ReplaceRouteTableAssociation(w.ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: w.id("as"), RouteTableId: w.id("t1")})
		return said(err, func() string {
			same := map[bool]string{true: "the same", false: "another"}[*out.NewAssociationId == *w.id("as")]
			w.call("as", out.NewAssociationId)
			return same
		})
	}},
	{name: "with another table", want: "t2", do: func(w *world) string {
		out, err := w.ec2.ReplaceRouteTableAssociation(w.ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: w.id("as"), RouteTableId: w.id("t2")})
		if err != nil {
			return code(err)
		}
		w.call("as2", out.NewAssociationId)
		return w.tableOf("s")
	}},
	{name: "the old one", want: "InvalidAssociationID.NotFound", do: func(w *world) string {
		_, err := w.ec2.ReplaceRouteTableAssociation(w.ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: w.id("as"), RouteTableId: w.id("t1")})
		return ok(err)
	}},
	{name: "another main table", want: "t1", do: func(w *world) string {
		main := []types.Filter{filterOf("vpc-id", *w.id("vpc")), filterOf("association.main", "true")}
		out, err := w.ec2.DescribeRouteTables(w.ctx, &ec2.DescribeRouteTablesInput{Filters: main})
		if err != nil {
			return code(err)
		}
		if _, err = w.ec2.ReplaceRouteTableAssociation(w.ctx, &ec2.ReplaceRouteTableAssociationInput{AssociationId: out.RouteTables[0].Associations[0].RouteTableAssociationId, RouteTableId: w.id("t1")}); err != nil {
			return code(err)
		}
		out, err = w.ec2.DescribeRouteTables(w.ctx, &ec2.DescribeRouteTablesInput{Filters: main})
		return said(err, func() string { return w.plain(*out.RouteTables[0].RouteTableId) })
	}},
}}

// tableOf returns the table that a subnet is associated with.
func (w *world) tableOf(subnet string) string {
	out, err := w.ec2.DescribeRouteTables(w.ctx, &ec2.DescribeRouteTablesInput{Filters: []types.Filter{filterOf("association.subnet-id", *w.id(subnet))}})
	return said(err, func() string { return w.plain(*out.RouteTables[0].RouteTableId) })
}
