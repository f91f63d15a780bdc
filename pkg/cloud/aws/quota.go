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
	// usualRoutes is what an account has without asking, of each family.
	usualRoutes = 500
	// quotaInterval is how often the quota is read, and quotaPause how often while that
	// fails.
	quotaInterval = time.Hour
	quotaPause    = 10 * time.Minute
	// quotaLimit is how long that may take, while the routes wait.
	quotaLimit = 5 * time.Second
)

// quota is how many routes a table may have, as far as is known.
type quota struct {
	mu   sync.Mutex
	most cloud.Quota
	next time.Time // when to read it again
}

// get returns the quota. Without the permission to read it, it is the usual one.
func (q *quota) get(ctx context.Context, c *Client) cloud.Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Now().Before(q.next) {
		return q.most
	}
	ctx, cancel := context.WithTimeout(ctx, quotaLimit)
	defer cancel()
	out, err := ask(ctx, c, getQuota, func(ctx context.Context) (*servicequotas.GetServiceQuotaOutput, error) {
		return c.quotas.GetServiceQuota(ctx, &servicequotas.GetServiceQuotaInput{ServiceCode: aws.String("vpc"), QuotaCode: aws.String(routesQuota)})
	})
	n := 0
	if err == nil && out.Quota != nil {
		n = int(value(out.Quota.Value))
	}
	switch {
	case err == nil && n > 0:
		q.most, q.next = cloud.Quota{Most: subnet.Pair[int]{n, n}}, time.Now().Add(quotaInterval)
	case q.most.Most[subnet.IPv4] > 0 && q.most.Assumed == "":
		q.next = time.Now().Add(quotaPause) // what was read once is more likely than the usual one
	default:
		if err == nil {
			err = fmt.Errorf("the answer has the value %d", n)
		}
		q.most = cloud.Quota{Most: subnet.Pair[int]{usualRoutes, usualRoutes}, Assumed: "the quota of routes could not be read: " + err.Error()}
		q.next = time.Now().Add(quotaPause)
	}
	return q.most
}
