package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

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
	// quotaCalm is the time between two reads of the quota, quotaInterval while a table uses
	// more than half of it, and quotaFull while one is full: Nodes wait until it is raised.
	quotaCalm     = 24 * time.Hour
	quotaInterval = time.Hour
	quotaFull     = time.Minute
	// quotaPause is the time after a failed read.
	quotaPause = 10 * time.Minute
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

// quotaAge returns how old a quota may be when the fullest table uses so many routes.
func quotaAge(used, most int) time.Duration {
	switch {
	case used >= most:
		return quotaFull
	case 2*used > most:
		return quotaInterval
	}
	return quotaCalm
}

// get returns the quota, or the default one if it could not be read. used is the number of
// routes in the fullest table.
func (q *quota) get(ctx context.Context, c *Client, used int) cloud.Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	due := q.next
	if !q.read.IsZero() {
		due = q.read.Add(quotaAge(used, q.most.Most[subnet.IPv4]))
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

// accountQuota returns the account's own quota of a service.
func (c *Client) accountQuota(ctx context.Context, service, code string) (int, error) {
	out, err := query(ctx, c, getQuota, func(ctx context.Context) (*servicequotas.GetServiceQuotaOutput, error) {
		return c.quotas.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: &service, QuotaCode: &code})
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

// quotaOf returns a quota of the service vpc.
func (c *Client) quotaOf(ctx context.Context, code string) (int, error) {
	return c.accountQuota(ctx, "vpc", code)
}
