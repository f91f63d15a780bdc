package daemon

import (
	"context"
	"maps"
	"slices"

	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/subnet"
)

// condition tells systemd and Kubernetes how the daemon is.
type condition struct {
	*network.Agent
	store Store
	etcd  *ownEtcd // nil where the store is elsewhere
}

// outlook is how a node is, for whoever starts what needs its network.
type outlook struct {
	started bool
	own     subnet.Lease // the zero Lease until there is one
	text    string
}

// outlook returns how the node is. A network goes on without its store.
func (c condition) outlook(ctx context.Context) outlook {
	v := c.View(ctx)
	o := outlook{started: v.Checks().Started(), own: v.Own, text: v.Line()}
	failing := c.store.Status().Failing
	for _, what := range slices.Sorted(maps.Keys(failing)) {
		o.text += "; failing: " + what + ": " + failing[what]
	}
	if why := c.etcd.text(); why != "" {
		o.text += "; " + why
	}
	return o
}

// Condition implements systemd.Daemon.
func (c condition) Condition(ctx context.Context) (started bool, text string) {
	o := c.outlook(ctx)
	return o.started, o.text
}
