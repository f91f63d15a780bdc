package gce

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// routesQuota is the project's quota of routes, in all its networks.
	routesQuota = "ROUTES"
	// quotaInterval is how often the quota is read. Other programs use it up, too.
	quotaInterval = 10 * time.Minute
	// quotaLimit is how long that may take, while the routes wait.
	quotaLimit = 5 * time.Second
)

// quota is how many routes the network may have, as far as is known.
type quota struct {
	mu   sync.Mutex
	most cloud.Quota
	next time.Time // when to read it again
}

// get returns the quota of a network. It is the project's without what the project's other
// networks use. Without the permission to read it, it is unknown.
func (q *quota) get(ctx context.Context, c *Client, t cloud.Table) cloud.Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Now().Before(q.next) {
		return q.most
	}
	q.next = time.Now().Add(quotaInterval)
	ctx, cancel := context.WithTimeout(ctx, quotaLimit)
	defer cancel()
	var p struct {
		Quotas []struct {
			Metric string  `json:"metric"`
			Limit  float64 `json:"limit"`
			Usage  float64 `json:"usage"`
		} `json:"quotas"`
	}
	err := c.do(ctx, request{action: getProject, method: http.MethodGet, at: place{project: c.network.project}, query: url.Values{"fields": {"quotas(metric,limit,usage)"}}}, &p)
	for _, one := range p.Quotas {
		if one.Metric == routesQuota && one.Limit >= 1 && one.Limit < 1e9 && one.Usage >= 0 && one.Usage < 1e9 {
			t.Quota.Shared = true
			used := t.Used(subnet.IPv4)
			n := max(1, used+int(one.Limit)-int(one.Usage))
			q.most = cloud.Quota{Most: subnet.Pair[int]{n, n}, Shared: true}
			return q.most
		}
	}
	if q.most.Most[subnet.IPv4] == 0 { // what was read once is more likely than nothing
		q.most = cloud.Quota{Shared: true, Assumed: "the quota of routes could not be read"}
		if err != nil {
			q.most.Assumed += ": " + err.Error()
		}
	}
	return q.most
}
