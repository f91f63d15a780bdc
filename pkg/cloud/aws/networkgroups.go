package aws

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

const describeRules = "DescribeSecurityGroupRules"

// groupList is the security groups. rules are their rules as the groups' own read
// returns them, without IDs and tags, by the groups' IDs.
type groupList struct {
	found foundList
	rules map[string][]string
	names map[string][]string // the groups that the rules of a group name
}

func (l groupList) shows(id string) bool { return l.found.shows(id) }

// readGroups reads all security groups of the network's VPCs.
func (r *networkReader) readGroups(ctx context.Context, p part) error {
	by, err := r.inVPC()
	if err != nil {
		return err
	}
	all := groupList{rules: make(map[string][]string), names: make(map[string][]string)}
	err = eachPage(ctx, r.c, describeGroups, func(ctx context.Context, token *string) (*ec2.DescribeSecurityGroupsOutput, error) {
		return r.c.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{Filters: by, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeSecurityGroupsOutput) (*string, error) {
		for _, g := range out.SecurityGroups {
			if err := all.add(g); err != nil {
				return nil, err
			}
		}
		return out.NextToken, nil
	})
	if err == nil {
		sortedFound(all.found)
		r.set(p, all)
	}
	return err
}

// add adds a security group of an answer.
func (l *groupList) add(g types.SecurityGroup) error {
	id := value(g.GroupId)
	if err := ids(describeGroups, id, "sg", "security group", value(g.VpcId), "vpc", "VPC"); err != nil {
		return err
	}
	o := awsnet.SecurityGroup{VPC: awsnet.Foreign(*g.VpcId), Title: clip(value(g.GroupName)), Description: clip(value(g.Description))}
	l.found = append(l.found, awsnet.Found{ID: id, Object: o, Tags: tagsOf(g.Tags), Fixed: o.Title == "default"})
	for way, list := range map[string][]types.IpPermission{"in": g.IpPermissions, "out": g.IpPermissionsEgress} {
		for _, p := range list {
			at := fmt.Sprintf("%s %q %d-%d", way, value(p.IpProtocol), value(p.FromPort), value(p.ToPort))
			rule := func(peer, description *string) {
				l.rules[id] = append(l.rules[id], fmt.Sprintf("%s %q %q", at, value(peer), value(description)))
			}
			for _, s := range p.IpRanges {
				rule(s.CidrIp, s.Description)
			}
			for _, s := range p.Ipv6Ranges {
				rule(s.CidrIpv6, s.Description)
			}
			for _, s := range p.PrefixListIds {
				rule(s.PrefixListId, s.Description)
			}
			for _, s := range p.UserIdGroupPairs {
				rule(s.GroupId, s.Description)
				l.names[id] = append(l.names[id], value(s.GroupId))
			}
		}
	}
	slices.Sort(l.rules[id])
	slices.Sort(l.names[id])
	return nil
}

// readRules reads the rules of groups with our tag, of default groups, and of groups
// with a rule that names one of these.
func (r *networkReader) readRules(ctx context.Context, p part) error {
	groups := r.get(part{name: partGroups}).(groupList)
	matters := make(map[string]bool)
	for _, f := range groups.found {
		matters[f.ID] = f.Fixed || f.Tags[r.scope.Owner.Tag()] == "owned"
	}
	var wanted []string
	for _, f := range groups.found {
		if matters[f.ID] || slices.ContainsFunc(groups.names[f.ID], func(id string) bool { return matters[id] }) {
			wanted = append(wanted, f.ID)
		}
	}
	var all foundList
	for some := range slices.Chunk(wanted, mostValues) {
		err := eachPage(ctx, r.c, describeRules, func(ctx context.Context, token *string) (*ec2.DescribeSecurityGroupRulesOutput, error) {
			return r.c.ec2.DescribeSecurityGroupRules(ctx, &ec2.DescribeSecurityGroupRulesInput{Filters: []types.Filter{filter("group-id", some...)}, MaxResults: aws.Int32(largestPage), NextToken: token})
		}, func(out *ec2.DescribeSecurityGroupRulesOutput) (*string, error) {
			for _, g := range out.SecurityGroupRules {
				f, err := ruleOf(describeRules, g)
				if err != nil {
					return nil, err
				}
				all = append(all, f)
			}
			return out.NextToken, nil
		})
		if err != nil {
			return err
		}
	}
	r.set(p, sortedFound(all))
	return nil
}

// ruleOf converts a rule of an answer.
func ruleOf(action string, g types.SecurityGroupRule) (awsnet.Found, error) {
	f := awsnet.Found{ID: value(g.SecurityGroupRuleId), Tags: tagsOf(g.Tags)}
	if err := ids(action, f.ID, "sgr", "rule", value(g.GroupId), "sg", "security group"); err != nil {
		return f, err
	}
	o := awsnet.Rule{
		Owner: awsnet.Foreign(*g.GroupId), Egress: value(g.IsEgress), Protocol: clip(value(g.IpProtocol)), From: int(value(g.FromPort)), To: int(value(g.ToPort)),
		Description: clip(value(g.Description)),
	}
	if name, ok := protocols[o.Protocol]; ok {
		o.Protocol = name
	}
	if o.Protocol == "-1" || !slices.Contains([]string{"tcp", "udp", "icmp", "icmpv6"}, o.Protocol) {
		o.From, o.To = 0, 0
	}
	var err error
	if o.Addresses, err = prefixOf(action, cmp.Or(value(g.CidrIpv4), value(g.CidrIpv6))); err != nil {
		return f, err
	}
	switch group := g.ReferencedGroupInfo; {
	case group != nil:
		if err := ids(action, value(group.GroupId), "sg", "security group"); err != nil {
			return f, err
		}
		o.Group = awsnet.Foreign(*group.GroupId)
	case !o.Addresses.IsValid():
		if err := ids(action, value(g.PrefixListId), "pl", "source of a rule"); err != nil {
			return f, err
		}
		o.Group = awsnet.Foreign(*g.PrefixListId)
	}
	f.Object = o
	return f, nil
}
