package azure

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// routesUsage is the name of the limit of routes in a table.
	routesUsage = "RoutesPerRouteTable"
	// usualRoutes is what a subscription has without asking, of both families together.
	usualRoutes = 400
	// quotaInterval is how often the limit is read, and quotaPause how often while that
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

// usage is a limit of a subscription in a region.
type usage struct {
	Limit int `json:"limit"`
	Name  struct {
		Value string `json:"value"`
	} `json:"name"`
}

// get returns the quota. Without the permission to read it, it is the usual one.
func (q *quota) get(ctx context.Context, c *Client) cloud.Quota {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Now().Before(q.next) {
		return q.most
	}
	n, why := q.read(ctx, c)
	switch {
	case n > 0:
		q.most, q.next = quotaOf(n, ""), time.Now().Add(quotaInterval)
	case q.most.Most[subnet.IPv4] > 0 && q.most.Assumed == "":
		q.next = time.Now().Add(quotaPause) // what was read once is more likely than the usual one
	default:
		q.most, q.next = quotaOf(usualRoutes, "the limit of routes per table could not be read: "+why), time.Now().Add(quotaPause)
	}
	return q.most
}

// quotaOf returns a limit of routes, which both families share.
func quotaOf(n int, assumed string) cloud.Quota {
	return cloud.Quota{Most: subnet.Pair[int]{n, n}, Shared: true, Assumed: assumed}
}

// read returns the limit, or why it is not known.
func (q *quota) read(ctx context.Context, c *Client) (n int, why string) {
	if c.config.Location == "" {
		return 0, "the cloud config has no location"
	}
	ctx, cancel := context.WithTimeout(ctx, quotaLimit)
	defer cancel()
	at := path("subscriptions", c.config.TableSubscription, "providers", "Microsoft.Network", "locations", strings.ToLower(c.config.Location), "usages")
	all, err := list[usage](ctx, c, readUsages, at, networkVersion)
	if err != nil {
		return 0, err.Error()
	}
	for _, u := range all {
		if strings.EqualFold(u.Name.Value, routesUsage) && u.Limit > 0 {
			return u.Limit, ""
		}
	}
	return 0, "Azure names no limit " + routesUsage + " in " + clip(c.config.Location)
}
