package aws

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/cloud"
)

// NetworkNow returns the states of single objects of a network, by ID, for steps that
// wait: objects of every kind that a reading may find pending or being deleted. It makes
// one call for each kind, and one for each 20 load balancers. An object that the result
// lacks does not exist, and neither does one that is Gone. The objects lack the tags of load balancers, and attributes that
// need calls of their own.
func (c *Client) NetworkNow(ctx context.Context, ids ...string) (map[string]awsnet.Found, error) {
	kinds := make(map[string][]string)
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		kind := id[:max(strings.LastIndex(id, "-"), 0)]
		if balancerARN.MatchString(id) {
			kind = partBalancers
		}
		if !isObject(id) || nowReads[kind] == nil {
			return nil, badCall(awsnet.Call{Action: "Describe"}, quoted(id)+" is not the ID of an object that a network waits for")
		}
		kinds[kind] = append(kinds[kind], id)
	}
	var running sync.WaitGroup
	var mu sync.Mutex
	var failed []error
	all := make(map[string]awsnet.Found)
	for kind, wanted := range kinds {
		running.Go(func() {
			found, err := c.now(ctx, kind, wanted)
			mu.Lock()
			defer mu.Unlock()
			failed = append(failed, err)
			for _, f := range found {
				all[f.ID] = f
			}
		})
	}
	running.Wait()
	if err := firstUrgent(failed); err != nil {
		return nil, err
	}
	return all, nil
}

// now returns those objects of one kind that exist.
func (c *Client) now(ctx context.Context, kind string, ids []string) (all []awsnet.Found, err error) {
	most := mostValues
	if kind == partBalancers {
		most = mostARNs
	}
	for some := range slices.Chunk(ids, most) {
		found, err := nowReads[kind](c, ctx, some)
		if err != nil {
			return nil, err
		}
		all = append(all, slices.DeleteFunc(found, func(f awsnet.Found) bool { return !slices.Contains(some, f.ID) })...)
	}
	return all, nil
}

// nowReads are the functions that read single objects, by the prefix of their IDs.
var nowReads = map[string]func(*Client, context.Context, []string) ([]awsnet.Found, error){
	"vpc": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		return c.vpcsNow(ctx, filter("vpc-id", ids...))
	},
	"vpc-cidr-assoc": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		four, err := c.vpcsNow(ctx, filter("cidr-block-association.association-id", ids...))
		if err != nil {
			return nil, err
		}
		six, err := c.vpcsNow(ctx, filter("ipv6-cidr-block-association.association-id", ids...))
		return append(four, six...), err
	},
	"igw": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		all, err := c.networkGateways(ctx, func(types.InternetGateway) bool { return false }, filter("internet-gateway-id", ids...))
		return all, err
	},
	"eigw": func(c *Client, ctx context.Context, _ []string) ([]awsnet.Found, error) {
		all, err := c.networkEgresses(ctx)
		return all, err
	},
	"cagw": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		all, err := c.networkCarriers(ctx, filter("carrier-gateway-id", ids...))
		return all, err
	},
	"rtbassoc": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		var all tableList
		var wrong error
		err := c.eachTable(ctx, []types.Filter{filter("association.route-table-association-id", ids...)}, func(t types.RouteTable) {
			if wrong == nil {
				wrong = all.add(t)
			}
		})
		if err == nil {
			err = wrong
		}
		return all.found, err
	},
	"subnet": func(c *Client, ctx context.Context, ids []string) (all []awsnet.Found, err error) {
		found, err := c.describeSubnets(ctx, filter("subnet-id", ids...))
		for _, s := range found {
			f, err := networkSubnet(s)
			if err != nil {
				return nil, err
			}
			all = append(all, f)
		}
		return all, err
	},
	"nat": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		all, err := c.describeNATs(ctx, filter("nat-gateway-id", ids...))
		for _, id := range all.gone {
			all.found = append(all.found, awsnet.Found{ID: id, Object: awsnet.NATGateway{}, State: awsnet.Gone})
		}
		return all.found, err
	},
	"vpce": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		all, err := c.networkEndpoints(ctx, filter("vpc-endpoint-id", ids...))
		return all, err
	},
	"i": func(c *Client, ctx context.Context, ids []string) ([]awsnet.Found, error) {
		all, err := c.networkInstances(ctx, filter("instance-id", ids...))
		return all, err
	},
	partBalancers: (*Client).balancersNow,
}

// vpcsNow returns the VPCs that a filter selects, and their blocks.
func (c *Client) vpcsNow(ctx context.Context, by types.Filter) (all []awsnet.Found, err error) {
	err = eachPage(ctx, c, describeVPCs, func(ctx context.Context, token *string) (*ec2.DescribeVpcsOutput, error) {
		return c.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{Filters: []types.Filter{by}, MaxResults: aws.Int32(largestPage), NextToken: token})
	}, func(out *ec2.DescribeVpcsOutput) (*string, error) {
		for _, v := range out.Vpcs {
			one, err := vpcOf(v)
			if err != nil {
				return nil, err
			}
			all = append(all, facts{}.vpc(one)...)
		}
		return out.NextToken, nil
	})
	return all, err
}

// balancersNow returns load balancers. If one of them does not exist, AWS returns none,
// so balancersNow then reads each separately.
func (c *Client) balancersNow(ctx context.Context, arns []string) ([]awsnet.Found, error) {
	list, err := c.networkBalancers(ctx, arns)
	if err != nil && cloud.KindOf(err) == cloud.Missing {
		if len(arns) == 1 {
			return nil, nil
		}
		var all []awsnet.Found
		for _, arn := range arns {
			some, err := c.balancersNow(ctx, []string{arn})
			if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
		return all, nil
	}
	return facts{}.balancers(list), err
}
