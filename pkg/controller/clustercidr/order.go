package clustercidr

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
)

const (
	// orderLimit is how long Nodes are held back at most. After that they get blocks of
	// the pools that are known.
	orderLimit = time.Second
	// orderRetry is how long to wait after a failed read.
	orderRetry = 100 * time.Millisecond
)

// order makes sure that a Node which was created after a ClusterCIDR can use it. The two
// have separate watches, so the Node may be read first. For the Nodes that are held
// back, one list of all ClusterCIDRs is read, which has everything that is older than
// they are. Once the watch has shown the newest of these, the Nodes get blocks.
type order struct {
	seen  int64     // the newest revision of a ClusterCIDR that the watch has shown
	since time.Time // when the first of the Nodes was held back; zero without any
	again time.Time // when the next read begins
	moved bool      // Nodes were let go since movedOrder was called
	// present is what was read, and the watch has yet to show; nil without it.
	present *present
}

// present is what a list of all ClusterCIDRs shows.
type present struct {
	revision int64 // of the list
	newest   int64 // of the ClusterCIDR that was changed last
}

// dueOrder returns the revision that the Nodes wait for, if a read is due.
func (c *Controller) dueOrder(now time.Time) (keys []string, again time.Time) {
	c.settleOrder(now)
	o, held := &c.order, c.ipam.Held()
	if held == 0 {
		o.since = time.Time{}
		return nil, time.Time{}
	}
	if o.since.IsZero() {
		o.since, o.again = now, now
	}
	switch end := o.since.Add(orderLimit); {
	case !now.Before(end):
		c.ipam.Known(held)
		o.since, o.present, o.moved = time.Time{}, nil, true
		return nil, time.Time{}
	case o.present != nil:
		return nil, end
	case now.Before(o.again):
		return nil, o.again
	}
	return []string{strconv.FormatInt(held, 10)}, time.Time{}
}

// readOrder lists the ClusterCIDRs.
func (c *Controller) readOrder(ctx context.Context, keys []string) (map[string]present, error) {
	ctx, cancel := context.WithTimeout(ctx, orderLimit)
	defer cancel()
	var p present
	revision, err := kube.ListAll(ctx, c.client, kube.ClusterCIDRs, kube.ClusterCIDRFormat, func(o *kube.ClusterCIDR) {
		p.newest = max(p.newest, kube.Revision(o.Metadata.ResourceVersion))
	})
	switch {
	case kube.Code(err) == http.StatusNotFound: // the server has none
		p = present{}
	case err != nil:
		return nil, err
	}
	p.revision = max(revision, kube.Revision(keys[0]))
	return map[string]present{keys[0]: p}, nil
}

// takeOrder applies what readOrder has read.
func (c *Controller) takeOrder(keys []string, found map[string]present) {
	now := time.Now()
	p, ok := found[keys[0]]
	if !ok {
		c.order.again = now.Add(orderRetry)
		return
	}
	c.order.present = &p
	c.settleOrder(now)
}

// settleOrder lets Nodes get blocks once the watch has shown what was read.
func (c *Controller) settleOrder(now time.Time) {
	o := &c.order
	if o.present != nil && o.seen >= o.present.newest {
		c.ipam.Known(o.present.revision)
		o.present, o.since, o.again, o.moved = nil, time.Time{}, now, true
	}
}

// movedOrder reports whether Nodes were let go since the last call.
func (c *Controller) movedOrder() bool {
	moved := c.order.moved
	c.order.moved = false
	return moved
}
