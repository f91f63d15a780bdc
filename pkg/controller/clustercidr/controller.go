package clustercidr

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
)

// Name is the controller's name.
const Name = "clustercidr-controller"

const (
	kind       = "ClusterCIDR"
	apiVersion = "networking.x-k8s.io/v1"
)

// source is the name of the pools' source.
const source = "clustercidrs"

// Controller makes pools of ClusterCIDRs, and sets their finalizers. Only the Engine's
// loop uses it.
type Controller struct {
	client *kube.Client
	ipam   IPAM

	objects  map[string]object
	absent   bool // the server does not have the resource
	changed  bool // the pools have changed since publish
	order    order
	open     map[string]struct{} // that may need a write
	attempts map[string]*attempt
}

// IPAM gives Nodes blocks of the pools. It holds new Nodes back.
type IPAM interface {
	// SetPools replaces the pools of a source, and what is wrong with it.
	SetPools(source string, pools []ipam.Pool, problems ...nodeipam.Problem) error
	// InUse reports whether a Node may have a block of a pool, or may still get one.
	InUse(pool string) bool
	// Held returns the revision as of which it must know the pools, or 0, and Known
	// reports that the pools as of a revision are set.
	Held() (revision int64)
	Known(revision int64)
}

// object is what is kept of a ClusterCIDR.
type object struct {
	version    kube.Version
	deleting   bool
	finalizers []string
	pool       ipam.Pool
	err        error // why it is no pool
}

// New returns a Controller, and adds it to the Engine with what it reads.
func New(e *controller.Engine, client *kube.Client, to IPAM) *Controller {
	c := &Controller{client: client, ipam: to, objects: make(map[string]object), open: make(map[string]struct{}), attempts: make(map[string]*attempt)}
	controller.Follow(e, controller.Feed[kube.ClusterCIDR, object]{
		What: "clustercidrs", Client: client, Path: kube.ClusterCIDRs, Format: kube.ClusterCIDRFormat, Optional: true,
		Keep: keep, List: c.list, Set: c.set, Delete: c.delete, Flush: c.flush,
	})
	controller.LookUp(e, controller.Lookup[present]{What: "newest clustercidrs", Due: c.dueOrder, Read: c.readOrder, Take: c.takeOrder, Moved: c.movedOrder})
	e.Add(c)
	return c
}

// keep returns what to keep of a ClusterCIDR.
func keep(c *kube.ClusterCIDR) (name string, o object) {
	o = object{version: c.Metadata.Version, deleting: c.Metadata.DeletionTimestamp != "", finalizers: slices.Clone(c.Metadata.Finalizers)}
	o.pool, o.err = poolOf(c)
	return c.Metadata.Name, o
}

// set records an object.
func (c *Controller) set(name string, o object) {
	old := c.objects[name]
	c.changed = c.changed || old.version.UID != o.version.UID || !reflect.DeepEqual(old.pool, o.pool) || fmt.Sprint(old.err) != fmt.Sprint(o.err)
	c.objects[name] = o
	c.order.seen = max(c.order.seen, kube.Revision(o.version.ResourceVersion))
	if kept := slices.Contains(o.finalizers, Finalizer); o.deleting && kept || !o.deleting && !kept && o.err == nil {
		c.open[name] = struct{}{}
	} else {
		c.close(name)
	}
}

func (c *Controller) delete(name string) {
	if _, is := c.objects[name]; is {
		delete(c.objects, name)
		c.close(name)
		c.changed = true
	}
}

// list replaces all objects. A server without the resource has a nil list.
func (c *Controller) list(all map[string]object) {
	c.order.seen = 0 // the cluster may have been restored from a backup
	for name := range c.objects {
		if _, is := all[name]; !is {
			c.delete(name)
		}
	}
	for name, o := range all {
		c.set(name, o)
	}
	c.changed = c.changed || c.absent != (all == nil)
	c.absent = all == nil
}

// flush hands over the pools, if they have changed.
func (c *Controller) flush() {
	if c.changed {
		c.changed = false
		c.publish()
	}
	c.settleOrder(time.Now())
}

// publish hands over the pools, and the problems of the objects.
func (c *Controller) publish() {
	var pools []ipam.Pool
	var problems []nodeipam.Problem
	if c.absent {
		problems = append(problems, nodeipam.Problem{Source: source, Text: "the API server has no ClusterCIDRs; apply their CustomResourceDefinition"})
	}
	for _, name := range slices.Sorted(maps.Keys(c.objects)) {
		if o := c.objects[name]; o.err != nil {
			problems = append(problems, nodeipam.Problem{Source: source, Object: ref(name, o.version.UID), Text: o.err.Error()})
		} else {
			pools = append(pools, o.pool)
		}
	}
	_ = c.ipam.SetPools(source, pools, problems...) // reports what it refuses
}

func ref(name, uid string) controller.Ref {
	return controller.Ref{APIVersion: apiVersion, Kind: kind, Name: name, UID: uid}
}

// Name implements controller.Controller.
func (c *Controller) Name() string { return Name }

// Lead implements controller.Controller.
func (c *Controller) Lead(election.Term) {
	clear(c.attempts)
	c.order = order{seen: c.order.seen}
}

// Clean implements controller.Controller. A late write reaches only a ClusterCIDR that
// has not changed since. It adds a finalizer, or removes one that no Node needs: what is
// being deleted gives no more blocks, whichever replica leads.
func (c *Controller) Clean() bool { return true }
