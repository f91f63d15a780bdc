package awstest_test

import (
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"
)

// vpcForBalancers makes a VPC with an internet gateway, three subnets in two zones, and a
// security group.
func vpcForBalancers(w *world) string {
	for _, said := range []string{
		w.vpc("vpc", "10.0.0.0/16"), w.subnet("a", "vpc", "10.0.0.0/20", "eu-central-1a"), w.subnet("b", "vpc", "10.0.16.0/20", "eu-central-1b"),
		w.subnet("a2", "vpc", "10.0.32.0/20", "eu-central-1a"), w.group("sg", "vpc"),
	} {
		if said != "ok" {
			return said
		}
	}
	out, err := w.ec2.CreateInternetGateway(w.ctx, &ec2.CreateInternetGatewayInput{})
	if err != nil {
		return code(err)
	}
	w.call("igw", out.InternetGateway.InternetGatewayId)
	_, err = w.ec2.AttachInternetGateway(w.ctx, &ec2.AttachInternetGatewayInput{InternetGatewayId: w.id("igw"), VpcId: w.id("vpc")})
	return ok(err)
}

// attributes returns attributes of a balancer.
func (w *world) attributes(balancer string, keys ...string) string {
	out, err := w.elb.DescribeLoadBalancerAttributes(w.ctx, &elb.DescribeLoadBalancerAttributesInput{LoadBalancerArn: w.id(balancer)})
	return said(err, func() string {
		all := make(map[string]string)
		for _, a := range out.Attributes {
			all[*a.Key] = aws.ToString(a.Value)
		}
		var texts []string
		for _, k := range keys {
			texts = append(texts, all[k])
		}
		return strings.Join(texts, " ")
	})
}

func (w *world) setAttribute(balancer, key, value string) string {
	_, err := w.elb.ModifyLoadBalancerAttributes(w.ctx, &elb.ModifyLoadBalancerAttributesInput{
		LoadBalancerArn: w.id(balancer), Attributes: []types.LoadBalancerAttribute{{Key: &key, Value: &value}},
	})
	return ok(err)
}

const (
	crossZone = "load_balancing.cross_zone.enabled"
	protected = "deletion_protection.enabled"
)

var balancers = scenario{"load balancers", []row{
	{name: "a VPC", want: "ok", do: vpcForBalancers},
	{name: "without subnets", moto: "SubnetNotFound", want: "ValidationError", do: func(w *world) string { return w.balance("none") }},
	{name: "a subnet that there is not", moto: "InvalidSubnetID.NotFound", want: "SubnetNotFound", do: func(w *world) string {
		w.ids["no"] = "subnet-0123456789abcdef0"
		return w.balance("none", "no")
	}},
	{name: "two subnets of a zone", moto: "provisioning", want: "InvalidConfigurationRequest", do: func(w *world) string { return w.balance("one-zone", "a", "a2") }},
	{name: "a name that is too long", moto: "provisioning", want: "ValidationError", do: func(w *world) string { return w.balance(strings.Repeat("x", 33), "a") }},
	{name: "a name that ends with a hyphen", moto: "provisioning", want: "ValidationError", do: func(w *world) string { return w.balance("x-", "a") }},
	{name: "a group that there is not", moto: "provisioning", want: "InvalidSecurityGroup", do: func(w *world) string {
		return w.balanceAs("no-group", func(in *elb.CreateLoadBalancerInput) {
			in.Subnets, in.SecurityGroups = w.idsOf("a"), []string{"sg-0123456789abcdef0"}
		})
	}},
	{name: "dualstack without IPv6", moto: "provisioning", want: "InvalidConfigurationRequest", do: func(w *world) string {
		return w.balanceAs("six", func(in *elb.CreateLoadBalancerInput) {
			in.Subnets, in.IpAddressType = w.idsOf("a"), types.IpAddressTypeDualstack
		})
	}},
	{name: "a balancer", want: "provisioning", do: func(w *world) string {
		return w.balanceAs("lb", func(in *elb.CreateLoadBalancerInput) {
			in.Subnets, in.SecurityGroups, in.Tags = w.idsOf("a", "b"), w.idsOf("sg"), elbTagsOf("owner", "tulle")
		})
	}},
	{name: "what it has", want: "network internet-facing ipv4 active vpc [a b][sg]", do: func(w *world) string { return w.balancer("lb") }},
	{name: "the same again", moto: "provisioning and another one", want: "active", do: func(w *world) string {
		before := *w.id("lb")
		said := w.balanceAs("lb", func(in *elb.CreateLoadBalancerInput) {
			in.Subnets, in.SecurityGroups, in.Tags = w.idsOf("a", "b"), w.idsOf("sg"), elbTagsOf("owner", "tulle")
		})
		if *w.id("lb") != before {
			w.ids["lb"] = before
			return said + " and another one"
		}
		return said
	}},
	{name: "its name again", moto: "provisioning", want: "DuplicateLoadBalancerName", do: func(w *world) string {
		before := *w.id("lb")
		defer func() { w.ids["lb"] = before }()
		return w.balance("lb", "a")
	}},
	{name: "its tags", want: "lb owner=tulle", do: func(w *world) string { return w.elbTags("lb") }},
	{name: "a tag more", want: "ok", do: func(w *world) string { return w.elbTag("lb", "a", "b", "owner", "x") }},
	{name: "a tag twice", moto: "ok", want: "DuplicateTagKeys", do: func(w *world) string { return w.elbTag("lb", "c", "b", "c", "d") }},
	{name: "a tag less", want: "lb owner=x", do: func(w *world) string {
		if _, err := w.elb.RemoveTags(w.ctx, &elb.RemoveTagsInput{ResourceArns: w.idsOf("lb"), TagKeys: []string{"a", "c", "no"}}); err != nil {
			return code(err)
		}
		return w.elbTags("lb")
	}},
	{name: "its attributes", want: "false false", do: func(w *world) string { return w.attributes("lb", crossZone, protected) }},
	{name: "an attribute that there is not", moto: "InvalidConfigurationRequest", want: "ValidationError", do: func(w *world) string { return w.setAttribute("lb", "no", "true") }},
	{name: "a value that it cannot have", moto: "ok", want: "ValidationError", do: func(w *world) string { return w.setAttribute("lb", crossZone, "2") }},
	{name: "protected", want: "ok", do: func(w *world) string { return w.setAttribute("lb", protected, "true") }},
	{name: "deleting a protected one", moto: "ok", want: "OperationNotPermitted", do: func(w *world) string { return w.unbalance("lb") }},
}}

var balancerChanges = scenario{"changes of load balancers", []row{
	{name: "a VPC", want: "ok", do: vpcForBalancers},
	{name: "a balancer", want: "provisioning", do: func(w *world) string {
		return w.balanceAs("lb", func(in *elb.CreateLoadBalancerInput) {
			in.Subnets, in.SecurityGroups = w.idsOf("a"), w.idsOf("sg")
		})
	}},
	{name: "another one, without groups", want: "provisioning", do: func(w *world) string {
		return w.balanceAs("plain", func(in *elb.CreateLoadBalancerInput) {
			in.Subnets, in.Scheme = w.idsOf("a"), types.LoadBalancerSchemeEnumInternal
		})
	}},
	{name: "names in the order in which they were made", want: "lb plain", do: func(w *world) string {
		out, err := w.elb.DescribeLoadBalancers(w.ctx, &elb.DescribeLoadBalancersInput{})
		return said(err, func() string {
			return *out.LoadBalancers[0].LoadBalancerName + " " + *out.LoadBalancers[1].LoadBalancerName
		})
	}},
	{name: "in pages", want: "1 true 1 false", do: func(w *world) string {
		one, err := w.elb.DescribeLoadBalancers(w.ctx, &elb.DescribeLoadBalancersInput{PageSize: aws.Int32(1)})
		if err != nil {
			return code(err)
		}
		two, err := w.elb.DescribeLoadBalancers(w.ctx, &elb.DescribeLoadBalancersInput{PageSize: aws.Int32(1), Marker: one.NextMarker})
		return said(err, func() string {
			return fmt.Sprint(len(one.LoadBalancers), one.NextMarker != nil, len(two.LoadBalancers), two.NextMarker != nil)
		})
	}},
	{name: "one that there is not", want: "LoadBalancerNotFound", do: func(w *world) string { return w.balancer("no") }},
	{name: "one that there is, and one that there is not", moto: "ok", want: "LoadBalancerNotFound", do: func(w *world) string {
		_, err := w.elb.DescribeLoadBalancers(w.ctx, &elb.DescribeLoadBalancersInput{Names: []string{"lb", "no"}})
		return ok(err)
	}},
	{name: "groups of one without", moto: "ok", want: "InvalidConfigurationRequest", do: func(w *world) string {
		_, err := w.elb.SetSecurityGroups(w.ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: w.id("plain"), SecurityGroups: w.idsOf("sg")})
		return ok(err)
	}},
	{name: "groups of one that there is not", want: "LoadBalancerNotFound", do: func(w *world) string {
		_, err := w.elb.SetSecurityGroups(w.ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: aws.String(*w.id("lb") + "0"), SecurityGroups: w.idsOf("sg")})
		return ok(err)
	}},
	{name: "other groups", want: "network internet-facing ipv4 active vpc [a][sg2]", do: func(w *world) string {
		if s := w.group("sg2", "vpc"); s != "ok" {
			return s
		}
		if _, err := w.elb.SetSecurityGroups(w.ctx, &elb.SetSecurityGroupsInput{LoadBalancerArn: w.id("lb"), SecurityGroups: w.idsOf("sg2")}); err != nil {
			return code(err)
		}
		return w.balancer("lb")
	}},
	{name: "other subnets", want: "network internet-facing ipv4 active vpc [a2 b][sg2]", do: func(w *world) string {
		if _, err := w.elb.SetSubnets(w.ctx, &elb.SetSubnetsInput{LoadBalancerArn: w.id("lb"), Subnets: w.idsOf("a2", "b")}); err != nil {
			return code(err)
		}
		return w.balancer("lb")
	}},
	{name: "two subnets of a zone", moto: "SubnetNotFound", want: "InvalidConfigurationRequest", do: func(w *world) string {
		_, err := w.elb.SetSubnets(w.ctx, &elb.SetSubnetsInput{LoadBalancerArn: w.id("lb"), Subnets: w.idsOf("a", "a2")})
		return ok(err)
	}},
	{name: "dualstack without IPv6", moto: "ok", want: "InvalidConfigurationRequest", do: func(w *world) string {
		_, err := w.elb.SetIpAddressType(w.ctx, &elb.SetIpAddressTypeInput{LoadBalancerArn: w.id("plain"), IpAddressType: types.IpAddressTypeDualstack})
		return ok(err)
	}},
	{name: "deleting a subnet that one is in", moto: "ok", want: "DependencyViolation", do: func(w *world) string {
		_, err := w.ec2.DeleteSubnet(w.ctx, &ec2.DeleteSubnetInput{SubnetId: w.id("b")})
		return ok(err)
	}},
	{name: "deleting a group that one has", moto: "ok", want: "DependencyViolation", do: func(w *world) string { return w.deleteGroup("sg2") }},
	{name: "deleted", want: "ok", do: func(w *world) string { return w.unbalance("lb") }},
	{name: "deleted twice", want: "ok", do: func(w *world) string { return w.unbalance("lb") }},
	{name: "its group deleted then", moto: "InvalidGroup.NotFound", want: "ok", do: func(w *world) string { return w.deleteGroup("sg2") }},
	{name: "tags of one that there is not", moto: "none", want: "LoadBalancerNotFound", do: func(w *world) string { return w.elbTags("lb") }},
	{name: "the other one", moto: "network internal dualstack active vpc [a][sg]", want: "network internal ipv4 active vpc [a][]", do: func(w *world) string { return w.balancer("plain") }},
}}
