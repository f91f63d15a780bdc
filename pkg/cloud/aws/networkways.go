package aws

import (
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

const (
	describeGateways  = "DescribeInternetGateways"
	describeEgress    = "DescribeEgressOnlyInternetGateways"
	describeCarriers  = "DescribeCarrierGateways"
	describeAddresses = "DescribeAddresses"
	describeNATs      = "DescribeNatGateways"
	describeEndpoints = "DescribeVpcEndpoints"
	// largestGateways is the maximum number of egress-only gateways in a page.
	largestGateways = 255
)

// tableList is the route tables with their routes and associations. lists are the
// routes to prefix lists, which gateway endpoints create.
type tableList struct {
	found foundList
	lists []string
}

func (l tableList) shows(id string) bool { return l.found.shows(id) }

// readTables reads all route tables of the network's VPCs.
func (r *networkReader) readTables(ctx context.Context, p part) error {
	by, err := r.inVPC()
	if err != nil {
		return err
	}
	var all tableList
	seen := make(map[string]bool)
	var wrong error
	err = r.c.eachTable(ctx, by, func(t types.RouteTable) {
		if id := value(t.RouteTableId); !seen[id] && wrong == nil {
			seen[id] = true
			wrong = all.add(t)
		}
	})
	if err == nil {
		err = wrong
	}
	if err != nil {
		return err
	}
	sortedFound(all.found)
	slices.Sort(all.lists)
	r.set(p, all)
	return nil
}

// add adds a route table of an answer.
func (l *tableList) add(t types.RouteTable) error {
	id := value(t.RouteTableId)
	if err := ids(describeTables, id, "rtb", "route table", value(t.VpcId), "vpc", "VPC"); err != nil {
		return err
	}
	table := awsnet.Found{ID: id, Object: awsnet.RouteTable{VPC: awsnet.Foreign(value(t.VpcId))}, Tags: tagsOf(t.Tags)}
	for _, a := range t.Associations {
		if value(a.Main) {
			table.Fixed = true
		}
		if a.SubnetId == nil {
			continue
		}
		if err := ids(describeTables, value(a.RouteTableAssociationId), "rtbassoc", "association", *a.SubnetId, "subnet", "subnet"); err != nil {
			return err
		}
		f := awsnet.Found{ID: *a.RouteTableAssociationId, Object: awsnet.Association{Subnet: awsnet.Foreign(*a.SubnetId), Table: awsnet.Foreign(id)}}
		if a.AssociationState != nil {
			var there bool
			if f.State, there = blockState(string(a.AssociationState.State)); !there {
				continue
			}
			f.Why = clip(value(a.AssociationState.StatusMessage))
		}
		l.found = append(l.found, f)
	}
	l.found = append(l.found, table)
	for _, each := range t.Routes {
		v := route(each)
		if !v.Destination.IsValid() {
			l.lists = append(l.lists, id+" "+clip(v.To)+" "+clip(v.Target)+" "+string(each.State))
			continue
		}
		via := clip(v.Target)
		if via == "" {
			via = "unknown"
		}
		l.found = append(l.found, awsnet.Found{
			ID:     id + "/" + v.Destination.String(),
			Object: awsnet.Route{Table: awsnet.Foreign(id), To: v.Destination, Via: awsnet.Foreign(via), Blackhole: v.State == cloud.Blackhole},
			Fixed:  v.Origin != cloud.Created,
		})
	}
	return nil
}

// readGateways reads the internet gateways of the network's VPCs, or those with our tag.
func (r *networkReader) readGateways(ctx context.Context, p part) error {
	by := r.everywhere(r.ourTag())
	if p.name == partGateways {
		by = []types.Filter{filter("attachment.vpc-id", r.vpcs...)}
	}
	all, err := r.c.networkGateways(ctx, func(g types.InternetGateway) bool { return r.skips(awsnet.KindInternetGateway, len(by), g.Tags) }, by...)
	if err == nil {
		r.set(p, all)
	}
	return err
}

// networkGateways returns the internet gateways that the filters select, without those to skip.
func (c *Client) networkGateways(ctx context.Context, skip func(types.InternetGateway) bool, by ...types.Filter) (all foundList, err error) {
	err = eachPage(ctx, c, describeGateways, func(ctx context.Context, token *string) (*ec2.DescribeInternetGatewaysOutput, error) {
		return c.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{Filters: by, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeInternetGatewaysOutput) (*string, error) {
		for _, g := range out.InternetGateways {
			if skip(g) {
				continue
			}
			f := awsnet.Found{ID: value(g.InternetGatewayId), Tags: tagsOf(g.Tags)}
			vpc, state, err := attachment(describeGateways, f.ID, "igw", g.Attachments)
			if err != nil {
				return nil, err
			}
			f.Object, f.State = awsnet.InternetGateway{VPC: vpc}, state
			all = append(all, f)
		}
		return out.NextToken, nil
	})
	return sortedFound(all), err
}

// attachment validates the ID of a gateway, and returns the VPC to which it is
// attached.
func attachment(action, id, prefix string, all []types.InternetGatewayAttachment) (vpc awsnet.Ref, state awsnet.State, err error) {
	if err := ids(action, id, prefix, "gateway"); err != nil {
		return vpc, "", err
	}
	for _, a := range all {
		switch a.State {
		case types.AttachmentStatusDetached:
			continue
		case types.AttachmentStatusAttaching, types.AttachmentStatusDetaching:
			state = awsnet.Pending
		}
		if err := ids(action, value(a.VpcId), "vpc", "VPC"); err != nil {
			return vpc, "", err
		}
		vpc = awsnet.Foreign(*a.VpcId)
	}
	return vpc, state, nil
}

// readEgress reads the egress-only gateways with our tag.
func (r *networkReader) readEgress(ctx context.Context, p part) error {
	all, err := r.c.networkEgresses(ctx, r.ourTag())
	if err == nil {
		r.set(p, all)
	}
	return err
}

// networkEgresses returns the egress-only gateways that the filters select, or those of the
// region. AWS filters them only by tags.
func (c *Client) networkEgresses(ctx context.Context, by ...types.Filter) (all foundList, err error) {
	err = eachPage(ctx, c, describeEgress, func(ctx context.Context, token *string) (*ec2.DescribeEgressOnlyInternetGatewaysOutput, error) {
		return c.ec2.DescribeEgressOnlyInternetGateways(ctx, &ec2.DescribeEgressOnlyInternetGatewaysInput{Filters: by, MaxResults: aws.Int32(largestGateways), NextToken: token})
	}, func(out *ec2.DescribeEgressOnlyInternetGatewaysOutput) (*string, error) {
		for _, g := range out.EgressOnlyInternetGateways {
			f := awsnet.Found{ID: value(g.EgressOnlyInternetGatewayId), Tags: tagsOf(g.Tags)}
			vpc, state, err := attachment(describeEgress, f.ID, "eigw", g.Attachments)
			if err != nil {
				return nil, err
			}
			f.Object, f.State = awsnet.EgressGateway{VPC: vpc}, state
			all = append(all, f)
		}
		return out.NextToken, nil
	})
	return sortedFound(all), err
}

// readCarriers reads the carrier gateways of the network's VPCs.
func (r *networkReader) readCarriers(ctx context.Context, p part) error {
	by, err := r.inVPC()
	if err != nil {
		return err
	}
	all, err := r.c.networkCarriers(ctx, by...)
	if err == nil {
		r.set(p, all)
	}
	return err
}

// networkCarriers returns the carrier gateways that the filters select.
func (c *Client) networkCarriers(ctx context.Context, by ...types.Filter) (all foundList, err error) {
	err = eachPage(ctx, c, describeCarriers, func(ctx context.Context, token *string) (*ec2.DescribeCarrierGatewaysOutput, error) {
		return c.ec2.DescribeCarrierGateways(ctx, &ec2.DescribeCarrierGatewaysInput{Filters: by, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeCarrierGatewaysOutput) (*string, error) {
		for _, g := range out.CarrierGateways {
			f := awsnet.Found{ID: value(g.CarrierGatewayId), Tags: tagsOf(g.Tags)}
			if err := ids(describeCarriers, f.ID, "cagw", "gateway", value(g.VpcId), "vpc", "VPC"); err != nil {
				return nil, err
			}
			switch g.State {
			case types.CarrierGatewayStateDeleted:
				continue
			case types.CarrierGatewayStateDeleting:
				f.State = awsnet.Deleting
			case types.CarrierGatewayStatePending:
				f.State = awsnet.Pending
			}
			f.Object = awsnet.CarrierGateway{VPC: awsnet.Foreign(*g.VpcId)}
			all = append(all, f)
		}
		return out.NextToken, nil
	})
	return sortedFound(all), err
}

// readAddresses reads the elastic addresses with our tag. Given.UsedBy is the interface
// or the instance that uses each.
func (r *networkReader) readAddresses(ctx context.Context, p part) error {
	by := r.everywhere(r.ourTag())
	out, err := query(ctx, r.c, describeAddresses, func(ctx context.Context) (*ec2.DescribeAddressesOutput, error) {
		return r.c.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{Filters: by})
	})
	if err != nil {
		return err
	}
	var all foundList
	for _, a := range out.Addresses {
		counted := awsnet.KindAddress
		if poolOf(a) != "" {
			counted = "" // the quota is for Amazon's addresses
		}
		if r.skips(counted, len(by), a.Tags) {
			continue
		}
		f := awsnet.Found{ID: value(a.AllocationId), Tags: tagsOf(a.Tags)}
		if err := ids(describeAddresses, f.ID, "eipalloc", "allocation"); err != nil {
			return err
		}
		if f.Given.Address, err = addressOf(describeAddresses, value(a.PublicIp)); err != nil {
			return err
		}
		if f.Given.UsedBy = clip(value(a.InstanceId)); f.Given.UsedBy == "" {
			f.Given.UsedBy = clip(value(a.NetworkInterfaceId))
		}
		f.Object = awsnet.Address{Pool: poolOf(a)}
		all = append(all, f)
	}
	r.set(p, sortedFound(all))
	return nil
}

// poolOf returns the ID of the account's own pool that an address is from, or "".
func poolOf(a types.Address) string {
	if pool := clip(value(a.PublicIpv4Pool)); pool != "amazon" {
		return pool
	}
	return ""
}

// natList is the NAT gateways. gone are the deleted ones, which AWS shows for an hour.
type natList struct {
	found foundList
	gone  []string
}

func (l natList) shows(id string) bool { return slices.Contains(l.gone, id) || l.found.shows(id) }

// readNATs reads the NAT gateways of the network's VPCs.
func (r *networkReader) readNATs(ctx context.Context, p part) error {
	by, err := r.inVPC()
	if err != nil {
		return err
	}
	all, err := r.c.describeNATs(ctx, by[0])
	if err == nil {
		r.set(p, all)
	}
	return err
}

func (c *Client) describeNATs(ctx context.Context, by types.Filter) (all natList, err error) {
	err = eachPage(ctx, c, describeNATs, func(ctx context.Context, token *string) (*ec2.DescribeNatGatewaysOutput, error) {
		return c.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{Filter: []types.Filter{by}, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeNatGatewaysOutput) (*string, error) {
		for _, g := range out.NatGateways {
			f, err := natOf(g)
			if err != nil {
				return nil, err
			}
			if g.State == types.NatGatewayStateDeleted {
				all.gone = append(all.gone, f.ID)
			} else {
				all.found = append(all.found, f)
			}
		}
		return out.NextToken, nil
	})
	sortedFound(all.found)
	slices.Sort(all.gone)
	return all, err
}

// natOf converts a NAT gateway of an answer.
func natOf(g types.NatGateway) (awsnet.Found, error) {
	f := awsnet.Found{ID: value(g.NatGatewayId), Tags: tagsOf(g.Tags)}
	if err := ids(describeNATs, f.ID, "nat", "NAT gateway"); err != nil {
		return f, err
	}
	var o awsnet.NATGateway
	if g.SubnetId != nil { // a regional gateway has none
		if err := ids(describeNATs, *g.SubnetId, "subnet", "subnet"); err != nil {
			return f, err
		}
		o.Subnet = awsnet.Foreign(*g.SubnetId)
	}
	for i, a := range g.NatGatewayAddresses {
		if a.AllocationId == nil || i > 0 && !value(a.IsPrimary) {
			continue
		}
		if err := ids(describeNATs, *a.AllocationId, "eipalloc", "allocation"); err != nil {
			return f, err
		}
		var err error
		if f.Given.Address, err = addressOf(describeNATs, value(a.PublicIp)); err != nil {
			return f, err
		}
		o.Address = awsnet.Foreign(*a.AllocationId)
	}
	switch g.State {
	case types.NatGatewayStatePending:
		f.State = awsnet.Pending
	case types.NatGatewayStateDeleting:
		f.State = awsnet.Deleting
	case types.NatGatewayStateFailed:
		f.State, f.Why = awsnet.Failed, strings.TrimSuffix(clip(value(g.FailureCode))+": "+clip(value(g.FailureMessage)), ": ")
	}
	f.Object = o
	return f, nil
}

// readEndpoints reads the endpoints of the network's VPCs.
func (r *networkReader) readEndpoints(ctx context.Context, p part) error {
	by, err := r.inVPC()
	if err != nil {
		return err
	}
	all, err := r.c.networkEndpoints(ctx, by[0])
	if err == nil {
		r.set(p, all)
	}
	return err
}

func (c *Client) networkEndpoints(ctx context.Context, by types.Filter) (all foundList, err error) {
	err = eachPage(ctx, c, describeEndpoints, func(ctx context.Context, token *string) (*ec2.DescribeVpcEndpointsOutput, error) {
		return c.ec2.DescribeVpcEndpoints(ctx, &ec2.DescribeVpcEndpointsInput{Filters: []types.Filter{by}, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeVpcEndpointsOutput) (*string, error) {
		for _, e := range out.VpcEndpoints {
			f, there, err := endpointOf(e)
			if err != nil {
				return nil, err
			}
			if there {
				all = append(all, f)
			}
		}
		return out.NextToken, nil
	})
	return sortedFound(all), err
}

// endpointOf converts an endpoint of an answer. It returns false if the endpoint is
// deleted.
func endpointOf(e types.VpcEndpoint) (f awsnet.Found, there bool, err error) {
	f = awsnet.Found{ID: value(e.VpcEndpointId), Tags: tagsOf(e.Tags)}
	if err := ids(describeEndpoints, f.ID, "vpce", "endpoint", value(e.VpcId), "vpc", "VPC"); err != nil {
		return f, false, err
	}
	o := awsnet.Endpoint{Service: clip(value(e.ServiceName)), VPC: awsnet.Foreign(*e.VpcId)}
	if e.VpcEndpointType == types.VpcEndpointTypeGateway {
		o.Service = o.Service[strings.LastIndex(o.Service, ".")+1:]
	}
	var tables []awsnet.Ref
	for _, id := range e.RouteTableIds {
		if err := ids(describeEndpoints, id, "rtb", "route table"); err != nil {
			return f, false, err
		}
		tables = append(tables, awsnet.Foreign(id))
	}
	o.Tables = awsnet.RefsTo(tables...)
	// The API writes states in other letter case than its model.
	switch strings.ToLower(string(e.State)) {
	case "deleted":
		return f, false, nil
	case "deleting":
		f.State = awsnet.Deleting
	case "pending", "pendingacceptance":
		f.State = awsnet.Pending
	case "failed", "rejected", "expired":
		f.State = awsnet.Failed
		if e.LastError != nil {
			f.Why = clip(value(e.LastError.Message))
		}
	}
	f.Object = o
	return f, true, nil
}
