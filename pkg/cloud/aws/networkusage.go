package aws

import (
	"context"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// NetworkUsage returns what the region has of the quotas that a plan needs more of, by their
// codes. It counts the objects of all clusters, or uses what a reading with Count has counted.
// Where AWS's default limit does not suffice, it reads the account's own. assumed says which of
// these it could not read, and why.
//
// Security groups and target groups are not counted: their limits are in the thousands.
func (c *Client) NetworkUsage(ctx context.Context, v awsnet.View) (use map[string]awsnet.Usage, assumed []string, err error) {
	u := usageReader{c: c, use: make(map[string]awsnet.Usage)}
	var wanted []awsnet.Quota
	for _, n := range awsnet.Needs(v.Plan, v.Want, nil) {
		if usages[n.Kind] != nil && n.Of != awsnet.KindVPC && !slices.ContainsFunc(wanted, func(q awsnet.Quota) bool { return q.Code == n.Code }) {
			wanted = append(wanted, n.Quota)
		}
	}
	err = u.each(wanted, func(q awsnet.Quota) error {
		if n, known := c.networks.countOf(q.Kind); known {
			u.set(q, func(to *awsnet.Usage) { to.Used = n })
			return nil
		}
		got, err := usages[q.Kind](c, ctx)
		u.set(q, func(to *awsnet.Usage) { to.Used, to.Zones = got.Used, got.Zones })
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	var short []awsnet.Quota
	for _, n := range awsnet.Headroom(v.Plan, v.Want, u.use) {
		if !slices.ContainsFunc(short, func(q awsnet.Quota) bool { return q.Code == n.Code }) {
			short = append(short, n.Quota)
		}
	}
	_ = u.each(short, func(q awsnet.Quota) error {
		limit, err := c.accountQuota(ctx, q.Service, q.Code)
		if err != nil {
			u.mu.Lock()
			defer u.mu.Unlock()
			assumed = append(assumed, "the account's limit of "+q.Name+" could not be read, so AWS's default counts: "+err.Error())
			return nil
		}
		u.set(q, func(to *awsnet.Usage) { to.Limit = limit })
		return nil
	})
	slices.Sort(assumed)
	return u.use, assumed, nil
}

// usageReader collects usages.
type usageReader struct {
	c   *Client
	mu  sync.Mutex
	use map[string]awsnet.Usage
}

func (u *usageReader) set(q awsnet.Quota, to func(*awsnet.Usage)) {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.use[q.Code]
	to(&one)
	u.use[q.Code] = one
}

// each calls f for all quotas side by side, and returns the first error.
func (u *usageReader) each(all []awsnet.Quota, f func(awsnet.Quota) error) error {
	errs := make([]error, len(all))
	var running sync.WaitGroup
	for i, q := range all {
		running.Go(func() { errs[i] = f(q) })
	}
	running.Wait()
	return firstUrgent(errs)
}

// usages are the functions that count the objects of a kind in the region.
var usages = map[awsnet.Kind]func(*Client, context.Context) (awsnet.Usage, error){
	awsnet.KindVPC: func(c *Client, ctx context.Context) (u awsnet.Usage, err error) {
		err = eachPage(ctx, c, describeVPCs, func(ctx context.Context, token *string) (*ec2.DescribeVpcsOutput, error) {
			return c.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{MaxResults: aws.Int32(largestPage), NextToken: token})
		}, func(out *ec2.DescribeVpcsOutput) (*string, error) {
			u.Used += len(out.Vpcs)
			return out.NextToken, nil
		})
		return u, err
	},
	awsnet.KindInternetGateway: func(c *Client, ctx context.Context) (u awsnet.Usage, err error) {
		err = eachPage(ctx, c, describeGateways, func(ctx context.Context, token *string) (*ec2.DescribeInternetGatewaysOutput, error) {
			return c.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{MaxResults: aws.Int32(largestPage), NextToken: token})
		}, func(out *ec2.DescribeInternetGatewaysOutput) (*string, error) {
			u.Used += len(out.InternetGateways)
			return out.NextToken, nil
		})
		return u, err
	},
	awsnet.KindEgressGateway: func(c *Client, ctx context.Context) (u awsnet.Usage, err error) {
		err = eachPage(ctx, c, describeEgress, func(ctx context.Context, token *string) (*ec2.DescribeEgressOnlyInternetGatewaysOutput, error) {
			return c.ec2.DescribeEgressOnlyInternetGateways(ctx, &ec2.DescribeEgressOnlyInternetGatewaysInput{MaxResults: aws.Int32(255), NextToken: token})
		}, func(out *ec2.DescribeEgressOnlyInternetGatewaysOutput) (*string, error) {
			u.Used += len(out.EgressOnlyInternetGateways)
			return out.NextToken, nil
		})
		return u, err
	},
	awsnet.KindAddress: func(c *Client, ctx context.Context) (awsnet.Usage, error) {
		out, err := query(ctx, c, describeAddresses, func(ctx context.Context) (*ec2.DescribeAddressesOutput, error) {
			return c.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{})
		})
		if err != nil {
			return awsnet.Usage{}, err
		}
		used := 0
		for _, a := range out.Addresses {
			if poolOf(a) == "" {
				used++
			}
		}
		return awsnet.Usage{Used: used}, nil
	},
	awsnet.KindNATGateway: (*Client).usageOfNATs,
	awsnet.KindEndpoint: func(c *Client, ctx context.Context) (awsnet.Usage, error) {
		all, err := c.networkEndpoints(ctx, filter("vpc-endpoint-type", string(types.VpcEndpointTypeGateway)))
		return awsnet.Usage{Used: len(all)}, err
	},
	awsnet.KindBalancer: func(c *Client, ctx context.Context) (u awsnet.Usage, err error) {
		err = eachPage(ctx, c, describeBalancers, func(ctx context.Context, token *string) (*elb.DescribeLoadBalancersOutput, error) {
			return c.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{PageSize: aws.Int32(largestELBPage), Marker: token})
		}, func(out *elb.DescribeLoadBalancersOutput) (*string, error) {
			for _, l := range out.LoadBalancers {
				if l.Type == elbtypes.LoadBalancerTypeEnumNetwork {
					u.Used++
				}
			}
			return out.NextMarker, nil
		})
		return u, err
	},
}

// usageOfNATs counts the NAT gateways of the region by zone.
func (c *Client) usageOfNATs(ctx context.Context) (awsnet.Usage, error) {
	u := awsnet.Usage{Zones: make(map[string]int)}
	all, err := c.describeNATs(ctx, filter("state", "pending", "available", "deleting"))
	if err != nil || len(all.found) == 0 {
		return u, err
	}
	var subnets []string
	for _, f := range all.found {
		if g := f.Object.(awsnet.NATGateway); g.Subnet.ID != "" && !slices.Contains(subnets, g.Subnet.ID) {
			subnets = append(subnets, g.Subnet.ID)
		}
	}
	zone := make(map[string]string)
	for some := range slices.Chunk(subnets, mostValues) {
		found, err := c.describeSubnets(ctx, filter("subnet-id", some...))
		if err != nil {
			return u, err
		}
		for _, s := range found {
			zone[value(s.SubnetId)] = value(s.AvailabilityZone)
		}
	}
	for _, f := range all.found {
		u.Used++
		u.Zones[zone[f.Object.(awsnet.NATGateway).Subnet.ID]]++
	}
	return u, nil
}
