package aws

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	describeVPCs         = "DescribeVpcs"
	describeVPCAttribute = "DescribeVpcAttribute"
)

// vpcFacts is a VPC without its attributes.
type vpcFacts struct {
	id     string
	v4     netip.Prefix
	tags   map[string]string
	state  awsnet.State
	blocks []blockFacts
}

// blockFacts is an additional block of a VPC, or its block of IPv6.
type blockFacts struct {
	id, pool, why string
	prefix        netip.Prefix
	state         awsnet.State
}

type vpcList []vpcFacts

func (l vpcList) shows(id string) bool {
	return slices.ContainsFunc(l, func(v vpcFacts) bool { return v.id == id })
}

// eachPage calls take for each page of a read. take returns the token of the next page.
func eachPage[Out any](ctx context.Context, c *Client, action string, send func(ctx context.Context, token *string) (Out, error), take func(Out) (*string, error)) error {
	var token *string
	return pages(action, func() (*string, error) {
		out, err := query(ctx, c, action, func(ctx context.Context) (Out, error) { return send(ctx, token) })
		if err != nil {
			return nil, err
		}
		token, err = take(out)
		return token, err
	})
}

// isID reports whether id is an ID with a prefix, such as vpc.
func isID(prefix, id string) bool {
	return strings.HasPrefix(id, prefix+"-") && resourceID.MatchString(id)
}

// ids validates the IDs of an answer. For each it gets the ID, its prefix, and what it
// identifies.
func ids(action string, all ...string) error {
	for i := 0; i+2 < len(all); i += 3 {
		if !isID(all[i+1], all[i]) {
			return strange(action, all[i+2], all[i])
		}
	}
	return nil
}

// prefixOf validates an address block of an answer. An empty one is the zero Prefix.
func prefixOf(action, text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p != p.Masked() {
		return netip.Prefix{}, strange(action, "address block", text)
	}
	return p, nil
}

// addressOf validates an address of an answer. An empty one is the zero Addr.
func addressOf(action, text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	ip, err := netip.ParseAddr(text)
	if err != nil || ip.Zone() != "" {
		return netip.Addr{}, strange(action, "address", text)
	}
	return ip, nil
}

// ourTag returns the filter for everything with the tag of the cluster's owner.
func (r *networkReader) ourTag() types.Filter { return filter("tag:"+r.scope.Owner.Tag(), "owned") }

// everywhere returns no filter if the scope has Count, and otherwise by.
func (r *networkReader) everywhere(by types.Filter) []types.Filter {
	if r.scope.Count {
		return nil
	}
	return []types.Filter{by}
}

// skips counts an object of the region, and reports whether it is not the cluster's. by is the
// number of filters of the request.
func (r *networkReader) skips(k awsnet.Kind, by int, tags []types.Tag) bool {
	if by > 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.count == nil {
		r.count = make(map[awsnet.Kind]int)
	}
	r.count[k]++
	return tagsOf(tags)[r.scope.Owner.Tag()] != "owned"
}

// inVPC returns the filter for everything in the network's VPCs.
func (r *networkReader) inVPC() ([]types.Filter, error) {
	if len(r.vpcs) > mostValues {
		return nil, &cloud.Error{Kind: cloud.Refused, Action: describeVPCs, Text: "more than 200 VPCs have the tag " + r.scope.Owner.Tag() + "; delete those that are not in use"}
	}
	return []types.Filter{filter("vpc-id", r.vpcs...)}, nil
}

// readVPCs reads the VPCs with our tag, or the one that the part names.
func (r *networkReader) readVPCs(ctx context.Context, p part) error {
	by := r.everywhere(r.ourTag())
	if p.of != "" {
		by = []types.Filter{filter("vpc-id", p.of)}
	}
	var all vpcList
	err := eachPage(ctx, r.c, describeVPCs, func(ctx context.Context, token *string) (*ec2.DescribeVpcsOutput, error) {
		return r.c.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: by, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeVpcsOutput) (*string, error) {
		for _, v := range out.Vpcs {
			if r.skips(awsnet.KindVPC, len(by), v.Tags) {
				continue
			}
			one, err := vpcOf(v)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return out.NextToken, nil
	})
	if err != nil {
		return err
	}
	if p.of != "" && !all.shows(p.of) {
		return &cloud.Error{Kind: cloud.Missing, Action: describeVPCs, Text: "region " + r.c.region + " has no VPC " + p.of + "; correct the ID of the VPC in the spec"}
	}
	slices.SortFunc(all, func(a, b vpcFacts) int { return strings.Compare(a.id, b.id) })
	r.set(p, all)
	return nil
}

// vpcOf converts a VPC of an answer.
func vpcOf(v types.Vpc) (vpcFacts, error) {
	one := vpcFacts{id: value(v.VpcId), tags: tagsOf(v.Tags)}
	if err := ids(describeVPCs, one.id, "vpc", "VPC"); err != nil {
		return one, err
	}
	var err error
	if one.v4, err = prefixOf(describeVPCs, value(v.CidrBlock)); err != nil {
		return one, err
	}
	if v.State == types.VpcStatePending {
		one.state = awsnet.Pending
	}
	add := func(id, text, pool string, state types.VpcCidrBlockStateCode, why *string) error {
		b := blockFacts{id: id, pool: pool, why: clip(value(why))}
		if b.prefix, err = prefixOf(describeVPCs, text); err != nil {
			return err
		}
		if err := ids(describeVPCs, strings.TrimPrefix(id, "vpc-cidr-"), "assoc", "association of an address block"); err != nil {
			return err
		}
		var there bool
		if b.state, there = blockState(string(state)); there && b.prefix != one.v4 {
			one.blocks = append(one.blocks, b)
		}
		return nil
	}
	for _, b := range v.CidrBlockAssociationSet {
		s := value(b.CidrBlockState)
		if err := add(value(b.AssociationId), value(b.CidrBlock), "", s.State, s.StatusMessage); err != nil {
			return one, err
		}
	}
	for _, b := range v.Ipv6CidrBlockAssociationSet {
		s := value(b.Ipv6CidrBlockState)
		pool := clip(value(b.Ipv6Pool))
		if pool == "" {
			pool = awsnet.AmazonPool
		}
		if err := add(value(b.AssociationId), value(b.Ipv6CidrBlock), pool, s.State, s.StatusMessage); err != nil {
			return one, err
		}
	}
	slices.SortFunc(one.blocks, func(a, b blockFacts) int { return strings.Compare(a.id, b.id) })
	return one, nil
}

// blockState converts the state of a block or an association. It returns false if the
// block or association no longer exists.
func blockState(state string) (awsnet.State, bool) {
	switch state {
	case "associating":
		return awsnet.Pending, true
	case "disassociating":
		return awsnet.Deleting, true
	case "failing", "failed":
		return awsnet.Failed, true
	case "disassociated":
		return "", false
	}
	return awsnet.Usable, true
}

// readVPCAttribute reads one attribute of a VPC.
func (r *networkReader) readVPCAttribute(ctx context.Context, p part) error {
	name := types.VpcAttributeNameEnableDnsHostnames
	if p.name == partSupport {
		name = types.VpcAttributeNameEnableDnsSupport
	}
	out, err := query(ctx, r.c, describeVPCAttribute, func(ctx context.Context) (*ec2.DescribeVpcAttributeOutput, error) {
		return r.c.ec2.DescribeVpcAttribute(ctx, &ec2.DescribeVpcAttributeInput{VpcId: &p.of, Attribute: name})
	})
	if err != nil {
		return err
	}
	on := out.EnableDnsHostnames
	if p.name == partSupport {
		on = out.EnableDnsSupport
	}
	if on == nil || on.Value == nil {
		return strange(describeVPCAttribute, "lack of the attribute", string(name))
	}
	r.set(p, *on.Value)
	return nil
}

// readSubnets reads all subnets of the network's VPCs.
func (r *networkReader) readSubnets(ctx context.Context, p part) error {
	by, err := r.inVPC()
	if err != nil {
		return err
	}
	found, err := r.c.describeSubnets(ctx, by[0])
	if err != nil {
		return err
	}
	var all foundList
	for _, s := range found {
		f, err := networkSubnet(s)
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	r.set(p, sortedFound(all))
	return nil
}

func sortedFound(all foundList) foundList {
	slices.SortFunc(all, func(a, b awsnet.Found) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// networkSubnet converts a subnet of an answer. Its IDs are valid.
func networkSubnet(s types.Subnet) (awsnet.Found, error) {
	f := awsnet.Found{ID: value(s.SubnetId), Tags: tagsOf(s.Tags)}
	o := awsnet.Subnet{
		VPC: awsnet.Foreign(value(s.VpcId)), Zone: value(s.AvailabilityZone),
		PublicIPs: value(s.MapPublicIpOnLaunch), AssignIPv6: value(s.AssignIpv6AddressOnCreation), DNS64: value(s.EnableDns64),
	}
	if !zoneName.MatchString(o.Zone) {
		return f, strange(describeSubnets, "zone", o.Zone)
	}
	if n := s.PrivateDnsNameOptionsOnLaunch; n != nil {
		o.HostnameType = clip(string(n.HostnameType))
	}
	var err error
	if o.IPv4, err = prefixOf(describeSubnets, value(s.CidrBlock)); err != nil {
		return f, err
	}
	for _, b := range s.Ipv6CidrBlockAssociationSet {
		state := types.SubnetCidrBlockStateCodeAssociated
		if b.Ipv6CidrBlockState != nil {
			state = b.Ipv6CidrBlockState.State
		}
		if state != types.SubnetCidrBlockStateCodeAssociated && state != types.SubnetCidrBlockStateCodeAssociating || o.IPv6 != (awsnet.Slice{}) {
			continue
		}
		if o.IPv6.Prefix, err = prefixOf(describeSubnets, value(b.Ipv6CidrBlock)); err != nil {
			return f, err
		}
		if state == types.SubnetCidrBlockStateCodeAssociating {
			f.State = awsnet.Pending
		}
	}
	switch s.State {
	case types.SubnetStatePending:
		f.State = awsnet.Pending
	case types.SubnetStateFailed, "failed-insufficient-capacity":
		f.State = awsnet.Failed
	}
	f.Object = o
	return f, nil
}
