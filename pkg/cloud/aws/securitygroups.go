package aws

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const describeGroups = "DescribeSecurityGroups"

// SecurityGroups returns the security groups with these IDs. A group that is missing in the
// result does not exist.
func (c *Client) SecurityGroups(ctx context.Context, ids []string) ([]cloud.SecurityGroup, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	for _, id := range ids {
		if !isGroup(id) {
			return nil, &cloud.Error{Kind: cloud.Refused, Action: describeGroups, Text: quoted(id) + " is not a security group; use one like sg-0123456789abcdef0"}
		}
	}
	var all []cloud.SecurityGroup
	for part := range slices.Chunk(ids, mostValues) {
		some, err := c.describeGroups(ctx, filter("group-id", part...))
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

func isGroup(id string) bool { return strings.HasPrefix(id, "sg-") && resourceID.MatchString(id) }

// describeGroups returns all security groups that the filters select, in the order of
// their IDs.
func (c *Client) describeGroups(ctx context.Context, filters ...types.Filter) ([]cloud.SecurityGroup, error) {
	byID := make(map[string]cloud.SecurityGroup)
	in := &ec2.DescribeSecurityGroupsInput{Filters: filters, MaxResults: aws.Int32(largestPage)}
	err := pages(describeGroups, func() (*string, error) {
		out, err := query(ctx, c, describeGroups, func(ctx context.Context) (*ec2.DescribeSecurityGroupsOutput, error) {
			return c.ec2.DescribeSecurityGroups(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		for _, g := range out.SecurityGroups {
			v := cloud.SecurityGroup{ID: value(g.GroupId), Name: value(g.GroupName), Network: value(g.VpcId), Description: value(g.Description), Tags: tagsOf(g.Tags)}
			if !isGroup(v.ID) {
				return nil, strange(describeGroups, "security group", v.ID)
			}
			for _, p := range g.IpPermissions {
				v.Rules = append(v.Rules, rules(p)...)
			}
			slices.SortFunc(v.Rules, cloud.Rule.Compare)
			byID[v.ID] = v
		}
		in.NextToken = out.NextToken
		return out.NextToken, nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]cloud.SecurityGroup, 0, len(byID))
	for _, g := range byID {
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b cloud.SecurityGroup) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// protocols are the names of protocols by their numbers. AWS uses both.
var protocols = map[string]string{"6": "tcp", "17": "udp", "1": "icmp", "58": "icmpv6"}

// rules returns the rules of a permission, one for each source.
func rules(p types.IpPermission) []cloud.Rule {
	r := cloud.Rule{Protocol: value(p.IpProtocol), From: int(value(p.FromPort)), To: int(value(p.ToPort))}
	if name, ok := protocols[r.Protocol]; ok {
		r.Protocol = name
	}
	if r.Protocol == "-1" {
		r.From, r.To = 0, 0
	}
	var all []cloud.Rule
	block := func(text string, description *string) {
		each := r
		each.Description = value(description)
		if source, err := netip.ParsePrefix(text); err == nil {
			each.Source = source.Masked()
		}
		all = append(all, each)
	}
	for _, s := range p.IpRanges {
		block(value(s.CidrIp), s.Description)
	}
	for _, s := range p.Ipv6Ranges {
		block(value(s.CidrIpv6), s.Description)
	}
	for _, s := range p.UserIdGroupPairs {
		each := r
		each.Group, each.Description = value(s.GroupId), value(s.Description)
		all = append(all, each)
	}
	for _, s := range p.PrefixListIds {
		each := r
		each.Description = value(s.Description)
		all = append(all, each)
	}
	return all
}

// permissions converts rules for a request. Each becomes a separate permission.
func permissions(all []cloud.Rule) []types.IpPermission {
	var to []types.IpPermission
	for _, r := range all {
		p := types.IpPermission{IpProtocol: aws.String(r.Protocol)}
		if r.Protocol != "-1" {
			p.FromPort, p.ToPort = aws.Int32(int32(r.From)), aws.Int32(int32(r.To))
		}
		var description *string
		if r.Description != "" {
			description = aws.String(r.Description)
		}
		switch {
		case r.Group != "":
			p.UserIdGroupPairs = []types.UserIdGroupPair{{GroupId: aws.String(r.Group), Description: description}}
		case r.Source.Addr().Is4():
			p.IpRanges = []types.IpRange{{CidrIp: aws.String(r.Source.String()), Description: description}}
		default:
			p.Ipv6Ranges = []types.Ipv6Range{{CidrIpv6: aws.String(r.Source.String()), Description: description}}
		}
		to = append(to, p)
	}
	return to
}
