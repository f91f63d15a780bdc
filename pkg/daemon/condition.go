package daemon

import (
	"context"
	"maps"
	"slices"

	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/subnet"
)

// condition reports the daemon's state to systemd and Kubernetes.
type condition struct {
	*network.Agent
	store Store
	etcd  *ownEtcd // nil if the store is elsewhere
}

// outlook is a node's state, for systemd and Kubernetes: they start the programs that
// need its network.
type outlook struct {
	started bool
	own     subnet.Lease // the zero Lease until there is one
	text    string
}

// outlook returns the node's state. A network works without its store.
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
