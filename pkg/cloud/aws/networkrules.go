package aws

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// networkPermission converts a rule for a request.
func networkPermission(r awsnet.Rule) types.IpPermission {
	p := types.IpPermission{IpProtocol: &r.Protocol}
	if r.Protocol != "-1" {
		p.FromPort, p.ToPort = aws.Int32(int32(r.From)), aws.Int32(int32(r.To))
	}
	description := optional(r.Description)
	switch {
	case isID("pl", r.Group.ID):
		p.PrefixListIds = []types.PrefixListId{{PrefixListId: &r.Group.ID, Description: description}}
	case r.Group.ID != "":
		p.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: &r.Group.ID, Description: description}}
	case r.Addresses.Addr().Is4():
		p.IpRanges = []types.IpRange{{CidrIp: aws.String(r.Addresses.String()), Description: description}}
	default:
		p.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: aws.String(r.Addresses.String()), Description: description}}
	}
	return p
}

// addRules adds rules to one group. AWS adds all or none of a request. If a rule exists
// already, addRules sends a request for each. An existing rule keeps its tags, and has
// no ID in the result.
func addRules(c *Client, ctx context.Context, call awsnet.Call, all []NetworkChange) ([]Made, error) {
	group := ""
	for _, x := range all {
		r, err := as[awsnet.Rule](call.Action, x)
		switch {
		case err != nil:
			return nil, err
		case !isID("sg", r.Owner.ID) || group != "" && r.Owner.ID != group:
			return nil, badCall(call, "the rules are of several groups, or of none: "+quoted(r.Owner.ID))
		case r.Egress != (call.Action == authorizeEgress):
			return nil, badCall(call, "the rule "+x.Step.Key.String()+" is of the other direction")
		case r.Group.ID == "" && !r.Addresses.IsValid():
			return nil, badCall(call, "the rule "+x.Step.Key.String()+" has neither a source nor a destination")
		}
		group = r.Owner.ID
	}
	made, err := c.authorize(ctx, call.Action, group, all)
	if err == nil || !isCode(err, "InvalidPermission.Duplicate") {
		return made, err
	}
	if len(all) == 1 {
		return []Made{{}}, nil
	}
	made = nil
	for _, x := range all {
		some, err := c.authorize(ctx, call.Action, group, []NetworkChange{x})
		switch {
		case isCode(err, "InvalidPermission.Duplicate"):
			some = []Made{{}}
		case err != nil:
			return nil, err
		}
		made = append(made, some...)
	}
	return made, nil
}

// authorize sends one request that adds rules, and finds the IDs of the rules in the answer.
func (c *Client) authorize(ctx context.Context, action, group string, all []NetworkChange) ([]Made, error) {
	var to []types.IpPermission
	for _, x := range all {
		to = append(to, networkPermission(x.Object.(awsnet.Rule)))
	}
	tags := specs(all[0], types.ResourceTypeSecurityGroupRule)
	var rules []types.SecurityGroupRule
	if action == authorizeEgress {
		out, err := create(ctx, c, action, func(ctx context.Context) (*ec2.AuthorizeSecurityGroupEgressOutput, error) {
			return c.ec2.AuthorizeSecurityGroupEgress(ctx, &ec2.AuthorizeSecurityGroupEgressInput{GroupId: &group, IpPermissions: to, TagSpecifications: tags})
		})
		if err != nil {
			return nil, err
		}
		rules = out.SecurityGroupRules
	} else {
		out, err := create(ctx, c, action, func(ctx context.Context) (*ec2.AuthorizeSecurityGroupIngressOutput, error) {
			return c.ec2.AuthorizeSecurityGroupIngress(ctx, &ec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: to, TagSpecifications: tags})
		})
		if err != nil {
			return nil, err
		}
		rules = out.SecurityGroupRules
	}
	made := make([]Made, len(all))
	for _, g := range rules {
		f, err := ruleOf(action, g)
		if err != nil {
			return nil, err
		}
		for i, x := range all {
			if f.Object.Key() == x.Object.Key() {
				made[i].ID = f.ID
			}
		}
	}
	return made, nil
}
