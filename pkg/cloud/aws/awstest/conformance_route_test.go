package awstest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
)

var identity = scenario{"identity", []row{
	{name: "the account", want: "123456789012", do: func(w *world) string {
		out, err := w.sts.GetCallerIdentity(w.ctx, &sts.GetCallerIdentityInput{})
		return said(err, func() string { return *out.Account })
	}},
}}

var networks = scenario{"networks", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a VPC too large", want: "InvalidVpc.Range", do: func(w *world) string { return w.vpc("big", "10.0.0.0/8") }},
	{name: "a VPC of no block", want: "InvalidParameterValue", do: func(w *world) string { return w.vpc("none", "10.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "eu-central-1a") }},
	{name: "a subnet outside", want: "InvalidSubnet.Range", do: func(w *world) string { return w.subnet("x", "vpc", "10.1.0.0/24", "") }},
	{name: "a subnet that overlaps", want: "InvalidSubnet.Conflict", do: func(w *world) string { return w.subnet("x", "vpc", "10.0.0.128/25", "") }},
	{name: "a subnet in no zone", want: "InvalidParameterValue", do: func(w *world) string { return w.subnet("x", "vpc", "10.0.9.0/24", "eu-central-1z") }},
	{name: "the subnet as it is described", want: "10.0.0.0/24 eu-central-1a 251 vpc available", do: func(w *world) string {
		out, err := w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{*w.id("a")}})
		return said(err, func() string {
			s := out.Subnets[0]
			return fmt.Sprint(*s.CidrBlock, " ", *s.AvailabilityZone, " ", *s.AvailableIpAddressCount, " ", w.plain(*s.VpcId), " ", s.State)
		})
	}},
	{name: "no such subnet", want: "InvalidSubnetID.NotFound", do: func(w *world) string {
		_, err := w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{"subnet-0123456789abcdef0"}})
		return ok(err)
	}},
	{name: "no such VPC", want: "InvalidVpcID.NotFound", do: func(w *world) string {
		_, err := w.ec2.DescribeVpcs(w.ctx, &ec2.DescribeVpcsInput{VpcIds: []string{"vpc-0123456789abcdef0"}})
		return ok(err)
	}},
	{name: "VPCs by block", want: "vpc", do: func(w *world) string {
		out, err := w.ec2.DescribeVpcs(w.ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{filterOf("cidr-block-association.cidr-block", "10.0.0.0/16")}})
		return said(err, func() string { return w.plain(*out.Vpcs[0].VpcId) })
	}},
	{name: "the zones", want: "eu-central-1a eu-central-1b eu-central-1c", do: func(w *world) string {
		out, err := w.ec2.DescribeAvailabilityZones(w.ctx, &ec2.DescribeAvailabilityZonesInput{})
		return said(err, func() string {
			var names []string
			for _, z := range out.AvailabilityZones {
				names = append(names, *z.ZoneName)
			}
			return strings.Join(names, " ")
		})
	}},
}}

func describeTables(w *world, in *ec2.DescribeRouteTablesInput) string {
	out, err := w.ec2.DescribeRouteTables(w.ctx, in)
	return said(err, func() string {
		var names []string
		for _, t := range out.RouteTables {
			names = append(names, w.plain(*t.RouteTableId))
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	})
}

func tablesBy(filters ...types.Filter) func(*world) string {
	return func(w *world) string {
		all := []types.Filter{filterOf("vpc-id", *w.id("vpc"))}
		return describeTables(w, &ec2.DescribeRouteTablesInput{Filters: append(all, filters...)})
	}
}

func (w *world) associate(table, subnet, name string) string {
	out, err := w.ec2.AssociateRouteTable(w.ctx, &ec2.AssociateRouteTableInput{RouteTableId: w.id(table), SubnetId: w.id(subnet)})
	return said(err, func() string { w.call(name, out.AssociationId); return "ok" })
}

var tables = scenario{"route tables", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "") }},
	{name: "a table", want: "ok", do: func(w *world) string { return w.table("t1", "vpc", "kubernetes.io/cluster/c", "owned", "Name", "one") }},
	{name: "another one", want: "ok", do: func(w *world) string { return w.table("t2", "vpc", "Name", "two") }},
	{name: "a table in no VPC", want: "InvalidVpcID.NotFound", do: func(w *world) string {
		_, err := w.ec2.CreateRouteTable(w.ctx, &ec2.CreateRouteTableInput{VpcId: aws.String("vpc-0123456789abcdef0")})
		return ok(err)
	}},
	{name: "it has the local route", want: "10.0.0.0/16 local active CreateRouteTable", do: func(w *world) string { return w.routes("t1") }},
	{name: "by ID", want: "t1", do: func(w *world) string {
		return describeTables(w, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{*w.id("t1")}})
	}},
	{name: "by an ID that there is not", want: "InvalidRouteTableID.NotFound", do: func(w *world) string {
		return describeTables(w, &ec2.DescribeRouteTablesInput{RouteTableIds: []string{"rtb-0123456789abcdef0"}})
	}},
	{name: "by VPC", want: "rtb-? t1 t2", do: tablesBy()},
	{name: "by tag", want: "t1", do: tablesBy(filterOf("tag:kubernetes.io/cluster/c", "owned", "shared"))},
	{name: "by tag key", want: "t1", do: tablesBy(filterOf("tag-key", "kubernetes.io/cluster/c"))},
	{name: "by wildcard", want: "t1", do: tablesBy(filterOf("tag:Name", "o*"))},
	{name: "by two filters", want: "", do: tablesBy(filterOf("tag:Name", "two"), filterOf("tag-key", "kubernetes.io/cluster/c"))},
	{name: "main", want: "rtb-?", do: tablesBy(filterOf("association.main", "true"))},
	{name: "associated", want: "ok", do: func(w *world) string { return w.associate("t1", "a", "as") }},
	{name: "by subnet", want: "t1", do: func(w *world) string { return tablesBy(filterOf("association.subnet-id", *w.id("a")))(w) }},
	{name: "associated with a second table", moto: "ok", want: "Resource.AlreadyAssociated", do: func(w *world) string { return w.associate("t2", "a", "as2") }},
	{name: "tags set later", want: "t2", do: func(w *world) string {
		_, err := w.ec2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{*w.id("t2")}, Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}})
		if err != nil {
			return code(err)
		}
		return tablesBy(filterOf("tag:k", "v"))(w)
	}},
	{name: "a tag deleted with another value stays", want: "t2", do: func(w *world) string {
		_, err := w.ec2.DeleteTags(w.ctx, &ec2.DeleteTagsInput{Resources: []string{*w.id("t2")}, Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("other")}}})
		if err != nil {
			return code(err)
		}
		return tablesBy(filterOf("tag:k", "v"))(w)
	}},
	{name: "a tag deleted", want: "", do: func(w *world) string {
		_, err := w.ec2.DeleteTags(w.ctx, &ec2.DeleteTagsInput{Resources: []string{*w.id("t2")}, Tags: []types.Tag{{Key: aws.String("k")}}})
		if err != nil {
			return code(err)
		}
		return tablesBy(filterOf("tag-key", "k"))(w)
	}},
	{name: "a reserved tag", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string {
		_, err := w.ec2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{*w.id("t2")}, Tags: []types.Tag{{Key: aws.String("aws:k"), Value: aws.String("v")}}})
		return ok(err)
	}},
	{name: "a tag of nothing", want: "InvalidRouteTableID.NotFound", do: func(w *world) string {
		_, err := w.ec2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{"rtb-0123456789abcdef0"}, Tags: []types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}})
		return ok(err)
	}},
	{name: "a filter that there is not", moto: "HTTP 500", want: "InvalidParameterValue", do: tablesBy(filterOf("tags", "x"))},
	{name: "a page too small", moto: "rtb-? rtb-? t1 t2", want: "InvalidParameterValue", do: func(w *world) string {
		return describeTables(w, &ec2.DescribeRouteTablesInput{MaxResults: aws.Int32(4)})
	}},
	{name: "a token of no call", moto: "rtb-? rtb-? t1 t2", want: "InvalidNextToken", do: func(w *world) string {
		return describeTables(w, &ec2.DescribeRouteTablesInput{NextToken: aws.String("x")})
	}},
	{name: "a dry run", moto: "ok", want: "DryRunOperation", do: func(w *world) string {
		_, err := w.ec2.CreateRouteTable(w.ctx, &ec2.CreateRouteTableInput{VpcId: w.id("vpc"), DryRun: aws.Bool(true)})
		return ok(err)
	}},
	{name: "the same client token", moto: "other", want: "same", do: func(w *world) string {
		in := &ec2.CreateRouteTableInput{VpcId: w.id("vpc"), ClientToken: aws.String("token-1")}
		first, err := w.ec2.CreateRouteTable(w.ctx, in)
		if err != nil {
			return code(err)
		}
		second, err := w.ec2.CreateRouteTable(w.ctx, in)
		return said(err, func() string {
			if *first.RouteTable.RouteTableId == *second.RouteTable.RouteTableId {
				return "same"
			}
			return "other"
		})
	}},
	{name: "the same client token with other parameters", moto: "ok", want: "IdempotentParameterMismatch", do: func(w *world) string {
		_, err := w.ec2.CreateRouteTable(w.ctx, &ec2.CreateRouteTableInput{VpcId: w.id("vpc"), ClientToken: aws.String("token-1"), TagSpecifications: tagsOf(types.ResourceTypeRouteTable, "a", "b")})
		return ok(err)
	}},
}}

// create makes a route to an instance, or, with a slash in its name, to an interface.
func (w *world) create(table, to, via string) string {
	in := &ec2.CreateRouteInput{RouteTableId: w.id(table)}
	if strings.Contains(to, ":") {
		in.DestinationIpv6CidrBlock = &to
	} else {
		in.DestinationCidrBlock = &to
	}
	if strings.Contains(via, "/") {
		in.NetworkInterfaceId = w.id(via)
	} else {
		in.InstanceId = w.id(via)
	}
	_, err := w.ec2.CreateRoute(w.ctx, in)
	return ok(err)
}

func (w *world) replace(table, to, via string) string {
	in := &ec2.ReplaceRouteInput{RouteTableId: w.id(table), NetworkInterfaceId: w.id(via)}
	if strings.Contains(to, ":") {
		in.DestinationIpv6CidrBlock = &to
	} else {
		in.DestinationCidrBlock = &to
	}
	_, err := w.ec2.ReplaceRoute(w.ctx, in)
	return ok(err)
}

func (w *world) deleteRoute(table, to string) string {
	in := &ec2.DeleteRouteInput{RouteTableId: w.id(table)}
	if strings.Contains(to, ":") {
		in.DestinationIpv6CidrBlock = &to
	} else {
		in.DestinationCidrBlock = &to
	}
	_, err := w.ec2.DeleteRoute(w.ctx, in)
	return ok(err)
}

const localRoute = "10.0.0.0/16 local active CreateRouteTable"

var routes = scenario{"routes", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "another VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc2", "10.9.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "") }},
	{name: "another one", want: "ok", do: func(w *world) string { return w.subnet("b", "vpc2", "10.9.0.0/24", "") }},
	{name: "a table", want: "ok", do: func(w *world) string { return w.table("t", "vpc") }},
	{name: "an instance", want: "pending", do: func(w *world) string { return w.launch("i1", "a") }},
	{name: "a second one", want: "pending", do: func(w *world) string { return w.launch("i2", "a") }},
	{name: "one in the other VPC", want: "pending", do: func(w *world) string { return w.launch("i3", "b") }},
	{name: "to an instance", want: "ok", do: func(w *world) string { return w.create("t", "10.80.0.0/24", "i1") }},
	{name: "to an interface", want: "ok", do: func(w *world) string { return w.create("t", "10.80.1.0/24", "i2/eni") }},
	{name: "IPv6 to an interface", want: "ok", do: func(w *world) string { return w.create("t", "fd00:80:0:1::/64", "i2/eni") }},
	{name: "the table", moto: localRoute + "; 10.80.0.0/24  active CreateRoute; 10.80.1.0/24 i2/eni active CreateRoute; fd00:80:0:1::/64 i2/eni active CreateRoute", want: localRoute + "; 10.80.0.0/24 i1/eni active CreateRoute; 10.80.1.0/24 i2/eni active CreateRoute; fd00:80:0:1::/64 i2/eni active CreateRoute", do: func(w *world) string { return w.routes("t") }},
	{name: "a destination twice", want: "RouteAlreadyExists", do: func(w *world) string { return w.create("t", "10.80.0.0/24", "i2") }},
	{name: "to an instance that there is not", want: "InvalidInstanceID.NotFound", do: func(w *world) string {
		_, err := w.ec2.CreateRoute(w.ctx, &ec2.CreateRouteInput{RouteTableId: w.id("t"), DestinationCidrBlock: aws.String("10.80.9.0/24"), InstanceId: aws.String("i-0123456789abcdef0")})
		return ok(err)
	}},
	{name: "to an interface that there is not", want: "InvalidNetworkInterfaceID.NotFound", do: func(w *world) string {
		_, err := w.ec2.CreateRoute(w.ctx, &ec2.CreateRouteInput{RouteTableId: w.id("t"), DestinationCidrBlock: aws.String("10.80.9.0/24"), NetworkInterfaceId: aws.String("eni-0123456789abcdef0")})
		return ok(err)
	}},
	{name: "in no table", want: "InvalidRouteTableID.NotFound", do: func(w *world) string {
		_, err := w.ec2.CreateRoute(w.ctx, &ec2.CreateRouteInput{RouteTableId: aws.String("rtb-0123456789abcdef0"), DestinationCidrBlock: aws.String("10.80.9.0/24"), InstanceId: w.id("i1")})
		return ok(err)
	}},
	{name: "no block", want: "InvalidParameterValue", do: func(w *world) string { return w.create("t", "10.80.9/24", "i1") }},
	{name: "replaced", want: "ok", do: func(w *world) string { return w.replace("t", "10.80.0.0/24", "i2/eni") }},
	{name: "IPv6 replaced", want: "ok", do: func(w *world) string { return w.replace("t", "fd00:80:0:1::/64", "i1/eni") }},
	{name: "the table then", want: localRoute + "; 10.80.0.0/24 i2/eni active CreateRoute; 10.80.1.0/24 i2/eni active CreateRoute; fd00:80:0:1::/64 i1/eni active CreateRoute", do: func(w *world) string { return w.routes("t") }},
	{name: "deleted", want: "ok", do: func(w *world) string { return w.deleteRoute("t", "10.80.0.0/24") }},
	{name: "deleted twice", want: "InvalidRoute.NotFound", do: func(w *world) string { return w.deleteRoute("t", "10.80.0.0/24") }},
	{name: "an instance stopped", want: "ok", do: func(w *world) string {
		_, err := w.ec2.StopInstances(w.ctx, &ec2.StopInstancesInput{InstanceIds: []string{*w.id("i2")}})
		return ok(err)
	}},
	{name: "its route", moto: localRoute + "; 10.80.1.0/24 i2/eni active CreateRoute; fd00:80:0:1::/64 i1/eni active CreateRoute", want: localRoute + "; 10.80.1.0/24 i2/eni blackhole CreateRoute; fd00:80:0:1::/64 i1/eni active CreateRoute", do: func(w *world) string { return w.routes("t") }},
	{name: "an instance terminated", want: "ok", do: func(w *world) string {
		_, err := w.ec2.TerminateInstances(w.ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*w.id("i1"), *w.id("i2")}})
		return ok(err)
	}},
	{name: "its route then", moto: localRoute + "; 10.80.1.0/24 i2/eni active CreateRoute; fd00:80:0:1::/64 i1/eni active CreateRoute", want: localRoute + "; 10.80.1.0/24 i2/eni blackhole CreateRoute; fd00:80:0:1::/64 i1/eni blackhole CreateRoute", do: func(w *world) string { return w.routes("t") }},
	{name: "blackholes by filter", moto: "HTTP 500", want: "t", do: tablesBy(filterOf("route.state", "blackhole"))},
	{name: "a blackhole deleted", want: "ok", do: func(w *world) string { return w.deleteRoute("t", "10.80.1.0/24") }},
	{name: "a last instance", want: "pending", do: func(w *world) string { return w.launch("i4", "a") }},
	{name: "host bits", want: "ok", do: func(w *world) string { return w.create("t", "100.68.0.18/18", "i4/eni") }},
	{name: "become the canonical block", moto: localRoute + "; 100.68.0.18/18 i4/eni active CreateRoute; fd00:80:0:1::/64 i1/eni active CreateRoute", want: localRoute + "; 100.68.0.0/18 i4/eni active CreateRoute; fd00:80:0:1::/64 i1/eni blackhole CreateRoute", do: func(w *world) string { return w.routes("t") }},
}}

// refusals is about routes that AWS refuses, and moto makes.
var refusals = scenario{"refused routes", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "another VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc2", "10.9.0.0/16") }},
	{name: "a subnet", want: "ok", do: func(w *world) string { return w.subnet("a", "vpc", "10.0.0.0/24", "") }},
	{name: "another one", want: "ok", do: func(w *world) string { return w.subnet("b", "vpc2", "10.9.0.0/24", "") }},
	{name: "a table", want: "ok", do: func(w *world) string { return w.table("t", "vpc") }},
	{name: "an instance", want: "pending", do: func(w *world) string { return w.launch("i1", "a") }},
	{name: "a second one", want: "pending", do: func(w *world) string { return w.launch("i2", "a") }},
	{name: "one in the other VPC", want: "pending", do: func(w *world) string { return w.launch("i3", "b") }},
	{name: "to an interface", want: "ok", do: func(w *world) string { return w.create("t", "10.80.1.0/24", "i2/eni") }},
	{name: "IPv6 to an interface", want: "ok", do: func(w *world) string { return w.create("t", "fd00:80:0:1::/64", "i2/eni") }},
	{name: "a destination twice, by interface", moto: "ok", want: "RouteAlreadyExists", do: func(w *world) string { return w.create("t", "10.80.1.0/24", "i1/eni") }},
	{name: "an IPv6 destination twice", moto: "ok", want: "RouteAlreadyExists", do: func(w *world) string { return w.create("t", "fd00:80:0:1::/64", "i1/eni") }},
	{name: "to another VPC", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string { return w.create("t", "10.80.9.0/24", "i3") }},
	{name: "within the VPC's block", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string { return w.create("t", "10.0.200.0/24", "i1") }},
	{name: "replacing a route that there is not", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string { return w.replace("t", "10.80.9.0/24", "i2/eni") }},
	{name: "deleting the local route", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string { return w.deleteRoute("t", "10.0.0.0/16") }},
}}
