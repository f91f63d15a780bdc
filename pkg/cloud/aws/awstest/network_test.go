package awstest_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud/aws/awstest"
)

// Routes to a gateway or an endpoint go with it, as on AWS: those to a gateway are
// blackholes, those of an endpoint are gone.
func TestRoutesOutlastTheirGateway(t *testing.T) {
	f, w := fresh(t)
	n := f.AddNetwork("10.7.0.0/16", 20, true)
	w.ids["v"], w.ids["main"] = n.VPC, n.Main
	out, err := w.ec2.CreateEgressOnlyInternetGateway(w.ctx, &ec2.CreateEgressOnlyInternetGatewayInput{VpcId: &n.VPC})
	if err != nil {
		t.Fatal(err)
	}
	w.call("eigw", out.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId)
	route := func(to string, six bool) string {
		in := &ec2.CreateRouteInput{RouteTableId: &n.Main, EgressOnlyInternetGatewayId: w.id("eigw")}
		if six {
			in.DestinationIpv6CidrBlock = &to
		} else {
			in.DestinationCidrBlock = &to
		}
		_, err := w.ec2.CreateRoute(w.ctx, in)
		return ok(err)
	}
	want(t, "IPv4", route("0.0.0.0/0", false), "InvalidParameterValue")
	want(t, "IPv6", route("::/0", true), "ok")
	want(t, "an endpoint", w.endpoint("s3", "v", "s3", "main"), "ok")
	state := func() (states string) {
		for _, r := range f.Routes(n.Main) {
			if r.Origin == "CreateRoute" {
				states += w.plain(r.Target) + " " + r.State + "; "
			}
		}
		return states
	}
	want(t, "routes", state(), "eigw active; s3 active; ")
	_, err = w.ec2.DeleteEgressOnlyInternetGateway(w.ctx, &ec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: w.id("eigw")})
	want(t, "deleted", ok(err), "ok")
	want(t, "routes then", state(), "eigw blackhole; s3 active; ")
	_, err = w.ec2.DeleteVpcEndpoints(w.ctx, &ec2.DeleteVpcEndpointsInput{VpcEndpointIds: w.idsOf("s3")})
	want(t, "the endpoint deleted", ok(err), "ok")
	want(t, "routes in the end", state(), "eigw blackhole; ")
	f.Set(func(s *awstest.Settings) { s.Gateways, s.Endpoints = 0, 0 })
	_, err = w.ec2.CreateEgressOnlyInternetGateway(w.ctx, &ec2.CreateEgressOnlyInternetGatewayInput{VpcId: &n.VPC})
	want(t, "one too many", ok(err), "EgressOnlyInternetGatewayLimitExceeded")
	want(t, "an endpoint too many", w.endpoint("s3", "v", "s3", "main"), "VpcEndpointLimitExceeded")
}

// A NAT gateway's address is not to be taken, and a block of a subnet in use is not to go.
func TestWhatIsInUseStays(t *testing.T) {
	f, w := fresh(t)
	want(t, "an address", w.allocate("eip"), "ok")
	_, err := w.ec2.CreateNatGateway(w.ctx, &ec2.CreateNatGatewayInput{SubnetId: w.id("a"), AllocationId: w.id("eip")})
	want(t, "a gateway", ok(err), "ok")
	w.ids["i1/eni"] = f.Instances()[0].Interface
	want(t, "its address", w.giveAddress("eip", "i1/eni", nil), "AuthFailure")
	out, err := w.ec2.DescribeAddresses(w.ctx, &ec2.DescribeAddressesInput{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.ec2.DisassociateAddress(w.ctx, &ec2.DisassociateAddressInput{AssociationId: out.Addresses[0].AssociationId})
	want(t, "taken back", ok(err), "AuthFailure")

	n := f.AddNetwork("10.7.0.0/16", 20, true)
	subnets, err := w.ec2.DescribeSubnets(w.ctx, &ec2.DescribeSubnetsInput{SubnetIds: n.Subnets[:1]})
	if err != nil {
		t.Fatal(err)
	}
	block := subnets.Subnets[0].Ipv6CidrBlockAssociationSet[0].AssociationId
	w.ids["s"] = n.Subnets[0]
	want(t, "addresses", w.setSubnet("s", func(in *ec2.ModifySubnetAttributeInput) { in.AssignIpv6AddressOnCreation = truth(true) }), "ok")
	if i := f.Launch(awstest.Launch{Subnet: n.Subnets[0]})[0]; len(i.V6) != 1 {
		t.Errorf("%+v", i)
	}
	_, err = w.ec2.DisassociateSubnetCidrBlock(w.ctx, &ec2.DisassociateSubnetCidrBlockInput{AssociationId: block})
	want(t, "its block", ok(err), "InvalidCidrBlock.InUse")
	w.ids["v"] = n.VPC
	f.Set(func(s *awstest.Settings) { s.CIDRsPerVPC = 1 })
	want(t, "a block too many", w.addBlock("b", "v", "10.8.0.0/16"), "CidrLimitExceeded")
	_, err = w.ec2.ModifyVpcAttribute(w.ctx, &ec2.ModifyVpcAttributeInput{VpcId: &n.VPC, EnableDnsSupport: truth(false)})
	want(t, "no DNS", ok(err), "ok")
	want(t, "its DNS", w.dns("v"), "false false")
}

func TestTagsAndRulesInPages(t *testing.T) {
	f, w := fresh(t)
	f.Set(func(s *awstest.Settings) { s.Page = 5 })
	tags := make(map[string]string)
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		tags[k] = "x"
	}
	f.Tag(w.ids["vpc"], tags)
	count, pages := 0, 0
	for p := ec2.NewDescribeTagsPaginator(w.ec2, &ec2.DescribeTagsInput{Filters: []types.Filter{filterOf("resource-type", "vpc")}}); p.HasMorePages(); pages++ {
		out, err := p.NextPage(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		count += len(out.Tags)
	}
	if count != 7 || pages != 2 {
		t.Errorf("%d tags in %d pages", count, pages)
	}
	want(t, "a group", w.group("g", "vpc"), "ok")
	for port := range int32(6) {
		want(t, "a rule", w.allow("g", port, "10.0.0.0/8"), "ok")
	}
	count, pages = 0, 0
	for p := ec2.NewDescribeSecurityGroupRulesPaginator(w.ec2, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{filterOf("group-id", *w.id("g"))}}); p.HasMorePages(); pages++ {
		out, err := p.NextPage(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		count += len(out.SecurityGroupRules)
	}
	if count != 7 || pages != 2 {
		t.Errorf("%d rules in %d pages", count, pages)
	}
	// A change that would make two equal rules is refused, and changes nothing.
	out, err := w.ec2.DescribeSecurityGroupRules(w.ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{filterOf("group-id", *w.id("g"))}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.ec2.ModifySecurityGroupRules(w.ctx, &ec2.ModifySecurityGroupRulesInput{GroupId: w.id("g"), SecurityGroupRules: []types.SecurityGroupRuleUpdate{{
		SecurityGroupRuleId: out.SecurityGroupRules[1].SecurityGroupRuleId,
		SecurityGroupRule:   &types.SecurityGroupRuleRequest{IpProtocol: aws.String("6"), FromPort: aws.Int32(5), ToPort: aws.Int32(5), CidrIpv4: aws.String("10.0.0.0/8")},
	}}})
	want(t, "another one's", ok(err), "InvalidPermission.Duplicate")
}
