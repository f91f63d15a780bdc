package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

const (
	getQuota = "GetServiceQuota"
	// routesQuota is the code of the quota of routes in a table.
	routesQuota = "L-93826ACB"
	// usualRoutes is AWS's default quota of routes of each family in a table.
	usualRoutes = 500
	// quotaInterval is the poll interval of the quota while a table uses more than half of
	// it, and quotaCalm is the one otherwise. quotaPause is the pause after a failed read.
	quotaInterval = time.Hour
	quotaCalm     = 24 * time.Hour
	quotaPause    = 10 * time.Minute
	// quotaLimit is the timeout of a read. Routes wait for it.
	quotaLimit = 5 * time.Second
)

// quota caches the quota of routes in a table.
type quota struct {
	mu   sync.Mutex
	most cloud.Quota
	read time.Time // when it was read last; zero if the last read failed
	next time.Time // when to try again after a failure
}

// get returns the quota, or the default one if it could not be read. used is the number of
// routes in the fullest table.
func (q *quota) get(ctx context.Context, c *Client, used int) cloud.Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	due, interval := q.next, quotaCalm
	if 2*used > q.most.Most[subnet.IPv4] {
		interval = quotaInterval
	}
	if !q.read.IsZero() {
		due = q.read.Add(interval)
	}
	if time.Now().Before(due) {
		return q.most
	}
	q.read = time.Time{}
	ctx, cancel := context.WithTimeout(ctx, quotaLimit)
	defer cancel()
	n, err := c.quotaOf(ctx, routesQuota)
	switch {
	case err == nil:
		q.most, q.read = cloud.Quota{Most: subnet.Pair[int]{n, n}}, time.Now()
	case q.most.Most[subnet.IPv4] > 0 && q.most.Assumed == "":
		q.next = time.Now().Add(quotaPause) // a quota that was read before is more likely than the default
	default:
		q.most = cloud.Quota{Most: subnet.Pair[int]{usualRoutes, usualRoutes}, Assumed: "the quota of routes could not be read: " + err.Error()}
		q.next = time.Now().Add(quotaPause)
	}
	return q.most
}

// quotaOf returns a quota of the service vpc.
func (c *Client) quotaOf(ctx context.Context, code string) (int, error) {
	out, err := query(ctx, c, getQuota, func(ctx context.Context) (*servicequotas.GetServiceQuotaOutput, error) {
		return c.quotas.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("vpc"), QuotaCode: &code})
	})
	if err != nil {
		return 0, err
	}
	n := 0
	if out.Quota != nil {
		n = int(value(out.Quota.Value))
	}
	if n <= 0 {
		return 0, fmt.Errorf("the answer has the invalid value %d", n)
	}
	return n, nil
}
