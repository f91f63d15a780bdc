package aws

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	describeSubnets = "DescribeSubnets"
	describeZones   = "DescribeAvailabilityZones"
)

// Subnets returns all subnets of the cluster's networks: the VPC of the cloud config, or
// those in which a subnet has the cluster's tag.
func (c *Client) Subnets(ctx context.Context) ([]cloud.Subnet, error) {
	networks := []string{c.config.VPC}
	if c.config.VPC == "" {
		networks = nil
		tagged, err := c.describeSubnets(ctx, c.config.tagFilter())
		if err != nil {
			return nil, err
		}
		for _, s := range tagged {
			if !slices.Contains(networks, value(s.VpcId)) {
				networks = append(networks, value(s.VpcId))
			}
		}
		if len(networks) == 0 {
			return nil, &cloud.Error{Kind: cloud.Missing, Action: describeSubnets, Text: fmt.Sprintf("no subnet has the tag %s; tag the cluster's subnets, or set VPC in the cloud config", c.config.tag())}
		}
		if len(networks) > mostValues {
			return nil, &cloud.Error{Kind: cloud.Refused, Action: describeSubnets, Text: fmt.Sprintf("subnets of %d VPCs have the tag %s; set VPC in the cloud config", len(networks), c.config.tag())}
		}
	}
	found, err := c.describeSubnets(ctx, filter("vpc-id", networks...))
	if err != nil {
		return nil, err
	}
	public, err := c.publicSubnets(ctx, networks)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, s := range found {
		names = append(names, value(s.AvailabilityZone))
	}
	regular, err := c.zones.regular(ctx, c, names)
	if err != nil {
		return nil, err
	}
	all := make([]cloud.Subnet, 0, len(found))
	for _, s := range found {
		all = append(all, subnetOf(s, public, regular))
	}
	slices.SortFunc(all, func(a, b cloud.Subnet) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// describeSubnets returns the subnets that a filter selects, each once.
func (c *Client) describeSubnets(ctx context.Context, by types.Filter) ([]types.Subnet, error) {
	byID := make(map[string]types.Subnet)
	in := &ec2.DescribeSubnetsInput{Filters: []types.Filter{by}, MaxResults: aws.Int32(largestPage)}
	err := pages(describeSubnets, func() (*string, error) {
		out, err := query(ctx, c, describeSubnets, func(ctx context.Context) (*ec2.DescribeSubnetsOutput, error) {
			return c.ec2.DescribeSubnets(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		for _, s := range out.Subnets {
			switch id, network := value(s.SubnetId), value(s.VpcId); {
			case !strings.HasPrefix(id, "subnet-") || !resourceID.MatchString(id):
				return nil, strange(describeSubnets, "subnet", id)
			case !strings.HasPrefix(network, "vpc-") || !resourceID.MatchString(network):
				return nil, strange(describeSubnets, "VPC", network)
			}
			byID[*s.SubnetId] = s
		}
		in.NextToken = out.NextToken
		return out.NextToken, nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]types.Subnet, 0, len(byID))
	for _, s := range byID {
		all = append(all, s)
	}
	return all, nil
}

// routing says which subnets have a route to an internet gateway. subnets holds the subnets
// with an explicit table, by ID. The others use the main table of their VPC, which mains holds
// by the VPC's ID.
type routing struct{ subnets, mains map[string]bool }

// publicSubnets returns which subnets of networks have a route to an internet gateway.
func (c *Client) publicSubnets(ctx context.Context, networks []string) (routing, error) {
	to := routing{make(map[string]bool), make(map[string]bool)}
	err := c.eachTable(ctx, []types.Filter{filter("vpc-id", networks...)}, func(t types.RouteTable) {
		facing := slices.ContainsFunc(t.Routes, func(r types.Route) bool { return strings.HasPrefix(value(r.GatewayId), "igw-") })
		for _, a := range t.Associations {
			if value(a.Main) {
				to.mains[value(t.VpcId)] = facing
			} else if a.SubnetId != nil {
				to.subnets[*a.SubnetId] = facing
			}
		}
	})
	return to, err
}

func subnetOf(s types.Subnet, public routing, regular map[string]bool) cloud.Subnet {
	v := cloud.Subnet{ID: value(s.SubnetId), Network: value(s.VpcId), Zone: value(s.AvailabilityZone), Free: int(value(s.AvailableIpAddressCount)), Tags: tagsOf(s.Tags)}
	v.Name = clip(v.Tags["Name"])
	v.Regular = regular[v.Zone] && s.OutpostArn == nil
	facing, explicit := public.subnets[v.ID]
	v.Public = facing || !explicit && public.mains[v.Network]
	if p, err := netip.ParsePrefix(value(s.CidrBlock)); err == nil {
		v.IPv4 = p.Masked()
	}
	for _, b := range s.Ipv6CidrBlockAssociationSet {
		p, err := netip.ParsePrefix(value(b.Ipv6CidrBlock))
		if err == nil && !v.IPv6.IsValid() && (b.Ipv6CidrBlockState == nil || b.Ipv6CidrBlockState.State == types.SubnetCidrBlockStateCodeAssociated) {
			v.IPv6 = p.Masked()
		}
	}
	return v
}

func tagsOf(all []types.Tag) map[string]string {
	tags := make(map[string]string, len(all))
	for _, t := range all {
		tags[value(t.Key)] = value(t.Value)
	}
	return tags
}

// zones caches which zones of the region are regular ones. This never changes.
type zones struct {
	mu    sync.Mutex
	known map[string]bool
}

// regular reports for each zone whether it is a regular one.
func (z *zones) regular(ctx context.Context, c *Client, names []string) (map[string]bool, error) {
	z.mu.Lock()
	known := z.known
	z.mu.Unlock()
	if !slices.ContainsFunc(names, func(n string) bool { _, ok := known[n]; return !ok }) {
		return known, nil
	}
	out, err := query(ctx, c, describeZones, func(ctx context.Context) (*ec2.DescribeAvailabilityZonesOutput, error) {
		return c.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	})
	if err != nil {
		return nil, err
	}
	known = make(map[string]bool)
	for _, n := range names {
		known[n] = false // unless the answer says otherwise
	}
	for _, a := range out.AvailabilityZones {
		known[value(a.ZoneName)] = value(a.ZoneType) == "availability-zone"
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	z.known = known
	return known, nil
}
