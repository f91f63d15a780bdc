package gce

import (
	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// quota returns how many routes the network may have. Google limits the static routes of a
// network, by the quota STATIC_ROUTES_PER_NETWORK. The Compute Engine API does not show it.
// The API shows the project's quota ROUTES, which Google no longer enforces.
func (c *Client) quota(t cloud.Table) cloud.Quota {
	n := c.options.RouteLimit
	if n == 0 {
		return cloud.Quota{Shared: true, Assumed: "the API does not show the quota STATIC_ROUTES_PER_NETWORK; set " + c.options.Names.orWords().RouteLimit + " to it"}
	}
	for _, r := range t.Routes {
		if r.Kind == cloud.ToLocal {
			n++ // the route of a subnetwork is not a static one
		}
	}
	return cloud.Quota{Most: subnet.Pair[int]{n, n}, Shared: true}
}
