package awstest_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func (w *world) group(name, vpc string) string {
	out, err := w.ec2.CreateSecurityGroup(w.ctx, &ec2.CreateSecurityGroupInput{GroupName: &name, Description: aws.String("d"), VpcId: w.id(vpc)})
	return said(err, func() string { w.call(name, out.GroupId); return "ok" })
}

// permission returns a rule for a TCP port, from a block or from a group that has a name.
func (w *world) permission(port int32, from string) []types.IpPermission {
	p := types.IpPermission{IpProtocol: aws.String("tcp"), FromPort: &port, ToPort: &port}
	switch {
	case strings.Contains(from, ":"):
		p.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: &from}}
	case strings.Contains(from, "/"):
		p.IpRanges = []types.IpRange{{CidrIp: &from}}
	default:
		p.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: w.id(from)}}
	}
	return []types.IpPermission{p}
}

func (w *world) allow(name string, port int32, from string) string {
	_, err := w.ec2.AuthorizeSecurityGroupIngress(w.ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: w.id(name), IpPermissions: w.permission(port, from)})
	return ok(err)
}

func (w *world) forbid(name string, port int32, from string) string {
	_, err := w.ec2.RevokeSecurityGroupIngress(w.ctx, &ec2.RevokeSecurityGroupIngressInput{GroupId: w.id(name), IpPermissions: w.permission(port, from)})
	return ok(err)
}

// rules returns the ingress rules of a group, and after a slash the egress rules.
func (w *world) rules(name string) string {
	out, err := w.ec2.DescribeSecurityGroups(w.ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: []string{*w.id(name)}})
	return said(err, func() string {
		show := func(all []types.IpPermission) string {
			var texts []string
			for _, p := range all {
				port := aws.ToInt32(p.FromPort)
				for _, r := range p.IpRanges {
					texts = append(texts, fmt.Sprint(*p.IpProtocol, " ", port, " ", *r.CidrIp))
				}
				for _, r := range p.Ipv6Ranges {
					texts = append(texts, fmt.Sprint(*p.IpProtocol, " ", port, " ", *r.CidrIpv6))
				}
				for _, r := range p.UserIdGroupPairs {
					texts = append(texts, fmt.Sprint(*p.IpProtocol, " ", port, " ", w.plain(*r.GroupId)))
				}
			}
			slices.Sort(texts)
			return strings.Join(texts, ", ")
		}
		return show(out.SecurityGroups[0].IpPermissions) + " / " + show(out.SecurityGroups[0].IpPermissionsEgress)
	})
}

func (w *world) deleteGroup(name string) string {
	_, err := w.ec2.DeleteSecurityGroup(w.ctx, &ec2.DeleteSecurityGroupInput{GroupId: w.id(name)})
	return ok(err)
}

var groups = scenario{"security groups", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a group", want: "ok", do: func(w *world) string { return w.group("g1", "vpc") }},
	{name: "another one", want: "ok", do: func(w *world) string { return w.group("g2", "vpc") }},
	{name: "a name twice", want: "InvalidGroup.Duplicate", do: func(w *world) string { return w.group("g1", "vpc") }},
	{name: "its rules", want: " / -1 0 0.0.0.0/0", do: func(w *world) string { return w.rules("g1") }},
	{name: "from a block", want: "ok", do: func(w *world) string { return w.allow("g1", 443, "10.0.0.0/8") }},
	{name: "from another one", want: "ok", do: func(w *world) string { return w.allow("g1", 443, "192.168.0.0/16") }},
	{name: "from an IPv6 block", want: "ok", do: func(w *world) string { return w.allow("g1", 443, "fd00::/8") }},
	{name: "from a group", want: "ok", do: func(w *world) string { return w.allow("g1", 80, "g2") }},
	{name: "a rule twice", want: "InvalidPermission.Duplicate", do: func(w *world) string { return w.allow("g1", 443, "10.0.0.0/8") }},
	{name: "its rules then", want: "tcp 443 10.0.0.0/8, tcp 443 192.168.0.0/16, tcp 443 fd00::/8, tcp 80 g2 / -1 0 0.0.0.0/0", do: func(w *world) string { return w.rules("g1") }},
	{name: "revoked", want: "ok", do: func(w *world) string { return w.forbid("g1", 443, "192.168.0.0/16") }},
	{name: "revoked twice", want: "InvalidPermission.NotFound", do: func(w *world) string { return w.forbid("g1", 443, "192.168.0.0/16") }},
	{name: "its rules in the end", want: "tcp 443 10.0.0.0/8, tcp 443 fd00::/8, tcp 80 g2 / -1 0 0.0.0.0/0", do: func(w *world) string { return w.rules("g1") }},
	{name: "deleting one that a rule names", moto: "ok", want: "DependencyViolation", do: func(w *world) string { return w.deleteGroup("g2") }},
	{name: "deleting a VPC with groups", moto: "ok", want: "DependencyViolation", do: func(w *world) string {
		_, err := w.ec2.DeleteVpc(w.ctx, &ec2.DeleteVpcInput{VpcId: w.id("vpc")})
		return ok(err)
	}},
	{name: "deleted", want: "ok", do: func(w *world) string { return w.deleteGroup("g1") }},
	{name: "and the other one", moto: "InvalidGroup.NotFound", want: "ok", do: func(w *world) string { return w.deleteGroup("g2") }},
	{name: "deleted twice", want: "InvalidGroup.NotFound", do: func(w *world) string { return w.deleteGroup("g2") }},
	{name: "the VPC deleted", moto: "InvalidVpcID.NotFound", want: "ok", do: func(w *world) string {
		_, err := w.ec2.DeleteVpc(w.ctx, &ec2.DeleteVpcInput{VpcId: w.id("vpc")})
		return ok(err)
	}},
}}

// ruleNamed returns the ID of the only ingress rule of a group.
func (w *world) ruleNamed(group string) string {
	out, err := w.ec2.DescribeSecurityGroupRules(w.ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{filterOf("group-id", *w.id(group))}})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range out.SecurityGroupRules {
		if !*r.IsEgress {
			return *r.SecurityGroupRuleId
		}
	}
	w.t.Fatalf("group %s has no rule", group)
	return ""
}

// description returns the ingress rules of a group with their descriptions.
func (w *world) description(group string) string {
	out, err := w.ec2.DescribeSecurityGroups(w.ctx, &ec2.DescribeSecurityGroupsInput{GroupIds: w.idsOf(group)})
	return said(err, func() string {
		var all []string
		for _, p := range out.SecurityGroups[0].IpPermissions {
			for _, r := range p.IpRanges {
				all = append(all, fmt.Sprint(*p.IpProtocol, " ", *p.FromPort, " ", *r.CidrIp, " ", aws.ToString(r.Description)))
			}
		}
		return strings.Join(all, ", ")
	})
}

var ruleChanges = scenario{"changes of rules", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a group", want: "ok", do: func(w *world) string { return w.group("g", "vpc") }},
	{name: "a rule", want: "ok", do: func(w *world) string { return w.allow("g", 443, "10.0.0.0/8") }},
	{name: "described", want: "tcp 443 10.0.0.0/8 d", do: func(w *world) string {
		p := w.permission(443, "10.0.0.0/8")
		p[0].IpRanges[0].Description = aws.String("d")
		if _, err := w.ec2.UpdateSecurityGroupRuleDescriptionsIngress(w.ctx, &ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: w.id("g"), IpPermissions: p}); err != nil {
			return code(err)
		}
		return w.description("g")
	}},
	{name: "described by its ID", moto: "tcp 443 10.0.0.0/8 d", want: "tcp 443 10.0.0.0/8 e", do: func(w *world) string {
		if _, err := w.ec2.UpdateSecurityGroupRuleDescriptionsIngress(w.ctx, &ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{
			GroupId: w.id("g"), SecurityGroupRuleDescriptions: []types.SecurityGroupRuleDescription{{SecurityGroupRuleId: aws.String(w.ruleNamed("g")), Description: aws.String("e")}},
		}); err != nil {
			return code(err)
		}
		return w.description("g")
	}},
	{name: "one that there is not", moto: "ok", want: "InvalidPermission.NotFound", do: func(w *world) string {
		_, err := w.ec2.UpdateSecurityGroupRuleDescriptionsIngress(w.ctx, &ec2.UpdateSecurityGroupRuleDescriptionsIngressInput{GroupId: w.id("g"), IpPermissions: w.permission(444, "10.0.0.0/8")})
		return ok(err)
	}},
	{name: "changed", want: "tcp 80 10.1.0.0/16 f", do: func(w *world) string {
		if _, err := w.ec2.ModifySecurityGroupRules(w.ctx, &ec2.ModifySecurityGroupRulesInput{GroupId: w.id("g"), SecurityGroupRules: []types.SecurityGroupRuleUpdate{{
			SecurityGroupRuleId: aws.String(w.ruleNamed("g")),
			SecurityGroupRule:   &types.SecurityGroupRuleRequest{IpProtocol: aws.String("tcp"), FromPort: aws.Int32(80), ToPort: aws.Int32(80), CidrIpv4: aws.String("10.1.0.0/16"), Description: aws.String("f")},
		}}}); err != nil {
			return code(err)
		}
		return w.description("g")
	}},
	{name: "a rule that there is not, by its ID", want: "InvalidSecurityGroupRuleId.NotFound", do: func(w *world) string {
		_, err := w.ec2.ModifySecurityGroupRules(w.ctx, &ec2.ModifySecurityGroupRulesInput{GroupId: w.id("g"), SecurityGroupRules: []types.SecurityGroupRuleUpdate{{
			SecurityGroupRuleId: aws.String("sgr-0123456789abcdef0"), SecurityGroupRule: &types.SecurityGroupRuleRequest{IpProtocol: aws.String("-1"), CidrIpv4: aws.String("10.1.0.0/16")},
		}}})
		return ok(err)
	}},
}}

// ruleTags returns the tags of a group's rules of a direction: destination or source, KEY=VALUE.
func (w *world) ruleTags(group string, egress bool) string {
	out, err := w.ec2.DescribeSecurityGroupRules(w.ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{filterOf("group-id", *w.id(group))}})
	return said(err, func() string {
		var all []string
		for _, r := range out.SecurityGroupRules {
			if *r.IsEgress != egress {
				continue
			}
			text := aws.ToString(r.CidrIpv4) + aws.ToString(r.CidrIpv6)
			for _, t := range r.Tags {
				text += " " + *t.Key + "=" + *t.Value
			}
			all = append(all, text)
		}
		slices.Sort(all)
		return strings.Join(all, ", ")
	})
}

var ruleTags = scenario{"tags of rules", []row{
	{name: "a VPC", want: "ok", do: func(w *world) string { return w.vpc("vpc", "10.0.0.0/16") }},
	{name: "a group", want: "ok", do: func(w *world) string { return w.group("g", "vpc") }},
	{name: "rules with tags", moto: "1 10.1.0.0/16 a=1", want: "2 10.0.0.0/8 a=1", do: func(w *world) string {
		out, err := w.ec2.AuthorizeSecurityGroupIngress(w.ctx, &ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: w.id("g"), IpPermissions: append(w.permission(443, "10.0.0.0/8"), w.permission(80, "10.1.0.0/16")...), TagSpecifications: tagsOf(types.ResourceTypeSecurityGroupRule, "a", "1"),
		})
		return said(err, func() string {
			r := out.SecurityGroupRules[0]
			return fmt.Sprint(len(out.SecurityGroupRules), " ", *r.CidrIpv4, " ", *r.Tags[0].Key, "=", *r.Tags[0].Value)
		})
	}},
	{name: "then", want: "10.0.0.0/8 a=1, 10.1.0.0/16 a=1", do: func(w *world) string { return w.ruleTags("g", false) }},
	{name: "tagged", want: "0.0.0.0/0 b=2", do: func(w *world) string {
		out, err := w.ec2.DescribeSecurityGroupRules(w.ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{filterOf("group-id", *w.id("g"))}})
		if err != nil {
			return code(err)
		}
		for _, r := range out.SecurityGroupRules {
			if *r.IsEgress {
				if _, err := w.ec2.CreateTags(w.ctx, &ec2.CreateTagsInput{Resources: []string{*r.SecurityGroupRuleId}, Tags: []types.Tag{{Key: aws.String("b"), Value: aws.String("2")}}}); err != nil {
					return code(err)
				}
			}
		}
		return w.ruleTags("g", true)
	}},
	{name: "by tag", want: "2", do: func(w *world) string {
		out, err := w.ec2.DescribeSecurityGroupRules(w.ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{filterOf("group-id", *w.id("g")), filterOf("tag:a", "1")}})
		return said(err, func() string { return fmt.Sprint(len(out.SecurityGroupRules)) })
	}},
	{name: "a tag of another kind", moto: "ok", want: "InvalidParameterValue", do: func(w *world) string {
		_, err := w.ec2.AuthorizeSecurityGroupIngress(w.ctx, &ec2.AuthorizeSecurityGroupIngressInput{
			GroupId: w.id("g"), IpPermissions: w.permission(22, "10.0.0.0/8"), TagSpecifications: tagsOf(types.ResourceTypeSecurityGroup, "a", "1"),
		})
		return ok(err)
	}},
	{name: "a VPC with IPv6", want: "ok", do: func(w *world) string {
		out, err := w.ec2.CreateVpc(w.ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.2.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)})
		return said(err, func() string { w.call("vpc6", out.Vpc.VpcId); return "ok" })
	}},
	{name: "a group in it", want: "ok", do: func(w *world) string { return w.group("g6", "vpc6") }},
	{name: "what it lets out", want: "0.0.0.0/0, ::/0", do: func(w *world) string { return w.ruleTags("g6", true) }},
	{name: "the VPC by an association of its block", want: "vpc6", do: func(w *world) string {
		out, err := w.ec2.DescribeVpcs(w.ctx, &ec2.DescribeVpcsInput{VpcIds: w.idsOf("vpc6")})
		if err != nil {
			return code(err)
		}
		out, err = w.ec2.DescribeVpcs(w.ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{filterOf("ipv6-cidr-block-association.association-id", *out.Vpcs[0].Ipv6CidrBlockAssociationSet[0].AssociationId)}})
		return said(err, func() string { return w.plain(*out.Vpcs[0].VpcId) })
	}},
}}
