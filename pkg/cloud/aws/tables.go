package aws

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

const (
	describeTables = "DescribeRouteTables"
	// largestTables is the maximum number of tables in a page.
	largestTables = 100
)

// Tables returns the cluster's route tables with all their routes. These are the tables in the
// cloud config, or else those with the cluster's tag. Tables fails if one of them is missing.
func (c *Client) Tables(ctx context.Context) ([]cloud.Table, error) {
	filters, ours := c.config.ours(), "tag "+c.config.tag()
	if ids := c.config.Tables; len(ids) > 0 {
		filters, ours = []types.Filter{filter("route-table-id", ids...)}, "RouteTableID of the cloud config"
	}
	all, err := c.describeTables(ctx, filters)
	if err != nil {
		return nil, err
	}
	missing := func(text string) error {
		return &cloud.Error{Kind: cloud.Missing, Action: describeTables, Text: text}
	}
	for _, id := range c.config.Tables {
		if !slices.ContainsFunc(all, func(t cloud.Table) bool { return t.ID == id }) {
			return nil, missing(fmt.Sprintf("region %s has no route table %s; correct RouteTableID in the cloud config", c.region, id))
		}
	}
	if len(all) == 0 {
		return nil, missing(fmt.Sprintf("no route table has the tag %s; tag the tables of the Nodes' subnets, or list them in RouteTableID of the cloud config", c.config.tag()))
	}
	used := 0
	for _, t := range all {
		used = max(used, t.Used(subnet.IPv4), t.Used(subnet.IPv6))
	}
	most := c.most.get(ctx, c, used)
	for i := range all {
		all[i].Ours, all[i].Quota = ours, most
	}
	return all, nil
}

// describeTables returns all tables that the filters select, in the order of their IDs.
func (c *Client) describeTables(ctx context.Context, filters []types.Filter) ([]cloud.Table, error) {
	byID := make(map[string]cloud.Table)
	err := c.eachTable(ctx, filters, func(t types.RouteTable) { byID[value(t.RouteTableId)] = table(t) })
	if err != nil {
		return nil, err
	}
	all := make([]cloud.Table, 0, len(byID))
	for _, t := range byID {
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b cloud.Table) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// eachTable calls each for every table that the filters select. If it returns an error, it may
// have missed some.
func (c *Client) eachTable(ctx context.Context, filters []types.Filter, each func(types.RouteTable)) error {
	in := &ec2.DescribeRouteTablesInput{Filters: filters, MaxResults: aws.Int32(largestTables)}
	return pages(describeTables, func() (*string, error) {
		out, err := query(ctx, c, describeTables, func(ctx context.Context) (*ec2.DescribeRouteTablesOutput, error) {
			return c.ec2.DescribeRouteTables(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		for _, t := range out.RouteTables {
			if id := value(t.RouteTableId); !strings.HasPrefix(id, "rtb-") || !resourceID.MatchString(id) {
				return nil, strange(describeTables, "route table", id)
			}
		}
		for _, t := range out.RouteTables {
			each(t)
		}
		in.NextToken = out.NextToken
		return out.NextToken, nil
	})
}

// strange returns the error for an answer with a value that the real API never sends. The
// caller must ignore the whole answer.
func strange(action, what, value string) error {
	return &cloud.Error{Kind: cloud.Unavailable, Action: action, Text: fmt.Sprintf("the answer has the invalid %s %.80q; retrying", what, value)}
}

func table(t types.RouteTable) cloud.Table {
	v := cloud.Table{ID: value(t.RouteTableId), Network: value(t.VpcId), Routes: make([]cloud.Route, 0, len(t.Routes))}
	for _, tag := range t.Tags {
		if value(tag.Key) == "Name" {
			v.Name = clip(value(tag.Value))
		}
	}
	for _, r := range t.Routes {
		v.Routes = append(v.Routes, route(r))
	}
	return v
}

// route converts a route of an answer.
func route(r types.Route) cloud.Route {
	v := cloud.Route{
		To:       cmp.Or(value(r.DestinationCidrBlock), value(r.DestinationIpv6CidrBlock), value(r.DestinationPrefixListId)),
		Instance: value(r.InstanceId), Kind: cloud.ToGateway, State: cloud.Active, Origin: cloud.Propagated,
	}
	if p, err := netip.ParsePrefix(v.To); err == nil {
		v.Destination = p.Masked()
	}
	switch {
	case r.NetworkInterfaceId != nil || r.InstanceId != nil:
		v.Kind, v.Target = cloud.ToInterface, value(r.NetworkInterfaceId)
	case value(r.GatewayId) == "local":
		v.Kind, v.Target = cloud.ToLocal, "local"
	default:
		v.Target = cmp.Or(value(r.GatewayId), value(r.NatGatewayId), value(r.TransitGatewayId), value(r.VpcPeeringConnectionId), value(r.EgressOnlyInternetGatewayId),
			value(r.LocalGatewayId), value(r.CarrierGatewayId), value(r.CoreNetworkArn), value(r.OdbNetworkArn), value(r.IpAddress))
	}
	if r.State == types.RouteStateBlackhole {
		v.State = cloud.Blackhole
	}
	// A route with an unknown origin counts as propagated: not ours.
	switch r.Origin {
	case types.RouteOriginCreateRoute:
		v.Origin = cloud.Created
	case types.RouteOriginCreateRouteTable:
		v.Origin = cloud.WithTable
	}
	return v
}
