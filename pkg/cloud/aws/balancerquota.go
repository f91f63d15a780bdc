package aws

import (
	"cmp"
	"context"
	"strconv"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/tulle-net/tulle/pkg/cloud"
)

func compareTargets(a, b cloud.Target) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port))
}

// BalancerQuota returns the account's quotas of load balancers, target groups, listeners and
// targets in the region.
func (c *Client) BalancerQuota(ctx context.Context) (cloud.BalancerQuota, error) {
	var q cloud.BalancerQuota
	to := map[string]*int{
		"network-load-balancers": &q.Balancers, "target-groups": &q.Groups, "listeners-per-network-load-balancer": &q.Listeners,
		"targets-per-availability-zone-per-network-load-balancer": &q.Targets, "targets-per-target-group": &q.GroupTargets,
	}
	in := &elb.DescribeAccountLimitsInput{}
	err := pages(describeLimits, func() (*string, error) {
		out, err := query(ctx, c, describeLimits, func(ctx context.Context) (*elb.DescribeAccountLimitsOutput, error) {
			return c.elb.DescribeAccountLimits(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		for _, l := range out.Limits {
			if n, err := strconv.Atoi(value(l.Max)); err == nil && n > 0 && to[value(l.Name)] != nil {
				*to[value(l.Name)] = n
			}
		}
		in.Marker = out.NextMarker
		return out.NextMarker, nil
	})
	if err != nil {
		return cloud.BalancerQuota{}, err
	}
	return q, nil
}
