package aws

import (
	"cmp"
	"context"
	"strconv"
	"sync"

	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"

	"github.com/tulle-net/tulle/pkg/cloud"
)

func compareTargets(a, b cloud.Target) int {
	return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port))
}

const (
	// rulesQuota is the code of the quota of rules in a security group.
	rulesQuota = "L-0EA8095F"
	// usualRules is the default quota of rules in a security group.
	usualRules = 60
)

// ruleQuota is the quota of rules as it was read last, or 0.
type ruleQuota struct {
	mu   sync.Mutex
	most int
}

// get returns the quota. If it cannot be read, get returns the one that was read before, or
// else the default one, with the reason.
func (q *ruleQuota) get(ctx context.Context, c *Client) (most int, assumed string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, quotaLimit)
	defer cancel()
	n, err := c.quotaOf(ctx, rulesQuota)
	switch {
	case err == nil:
		q.most = n
	case q.most == 0:
		return usualRules, "AWS's default: the quota of rules could not be read: " + err.Error()
	}
	return q.most, ""
}

// BalancerQuota returns the account's quotas of load balancers, target groups, listeners,
// targets and rules of a security group in the region.
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
	q.Rules, q.Assumed = c.rules.get(ctx, c)
	return q, nil
}
