package clustercidr

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Finalizer keeps a ClusterCIDR that Nodes use. node-ipam-controller has the same.
const Finalizer = "networking.x-k8s.io/cluster-cidr-finalizer"

// backoff paces the writes of one ClusterCIDR that fail.
var backoff = retry.Backoff{First: 100 * time.Millisecond, Last: time.Minute}

// shownLimit is how long a write waits for the watch to show its outcome. After that it
// is made again, which does no harm.
const shownLimit = time.Second

// attempt is a write until the watch shows its outcome.
type attempt struct {
	version  string // of the ClusterCIDR that the last try required
	flying   bool
	failures int
	after    time.Time // when the next try is due, if the version is still the same
}

// close removes a ClusterCIDR from those that may need a write.
func (c *Controller) close(name string) {
	delete(c.open, name)
	if a := c.attempts[name]; a != nil && !a.flying {
		delete(c.attempts, name)
	}
}

// Plan implements controller.Controller.
func (c *Controller) Plan(now time.Time, n int) (writes []controller.Write, again time.Time) {
	for _, name := range slices.Sorted(maps.Keys(c.open)) {
		o, a := c.objects[name], c.attempts[name]
		switch {
		case len(writes) == n, a != nil && a.flying, o.deleting && c.ipam.InUse(o.pool.Name):
		case a != nil && a.version == o.version.ResourceVersion && now.Before(a.after):
			again = controller.Earlier(again, a.after)
		default:
			writes = append(writes, c.write(name, o))
		}
	}
	return writes, again
}

// write returns the write that adds the finalizer to a ClusterCIDR, or removes it from
// one that is being deleted.
func (c *Controller) write(name string, o object) controller.Write {
	a := c.attempts[name]
	if a == nil {
		a = new(attempt)
		c.attempts[name] = a
	}
	a.version, a.flying = o.version.ResourceVersion, true
	summary, finalizers := "add the finalizer", append(slices.Clone(o.finalizers), Finalizer)
	if o.deleting {
		summary = "remove the finalizer; no Node uses it"
		finalizers = slices.DeleteFunc(slices.Clone(o.finalizers), func(f string) bool { return f == Finalizer })
	}
	m := kube.Merge{If: o.version, Metadata: map[string]any{"finalizers": finalizers}}
	client, path := c.client, kube.Path(kube.ClusterCIDRs, name)
	return controller.Write{
		Controller: Name, Object: ref(name, o.version.UID), Verb: controller.Patch, Summary: summary,
		Do: func(ctx context.Context) error {
			_, err := client.Merge(ctx, path, m)
			return err
		},
	}
}

// Done implements controller.Controller.
func (c *Controller) Done(w controller.Write, err error) {
	name := w.Object.Name
	a := c.attempts[name]
	a.flying = false
	switch {
	case err == controller.ErrNotMade:
		delete(c.attempts, name)
	case err == nil || kube.Moved(err):
		a.failures, a.after = 0, time.Now().Add(shownLimit)
	default:
		a.failures++
		a.after = time.Now().Add(controller.Backoff(backoff, a.failures, err))
	}
	if _, open := c.open[name]; !open {
		delete(c.attempts, name)
	}
}
