package cloudnode

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
)

// Topology is the part of a cloud's client that knows the places of instances in the cloud's
// network, for workloads whose pods should be near one another.
type Topology interface {
	// Layered reports whether instances of a type have a place.
	Layered(kind string) bool
	// NetworkNodes returns the network nodes above instances, from the top layer, keyed by
	// the instances' IDs. "" is an unknown one. An instance without a place has none. If
	// NetworkNodes returns an error, the places of instances that are missing from the
	// result are unknown.
	NetworkNodes(ctx context.Context, ids []string) (map[string][]string, error)
}

// places are the lookups of places.
type places struct {
	due       controller.Schedule
	lookingUp map[string][]string // the Nodes of each instance that is being looked up
}

func newPlaces() places {
	return places{controller.NewSchedule(), make(map[string][]string)}
}

// place is an instance's place in the network.
type place struct {
	instance string   // its ID; "" is an unknown place
	nodes    []string // the network nodes above it, from the top layer
	misses   int      // lookups in a row without an answer
}

// layerLabel returns the label of a layer of network nodes. The top layer is 1.
func layerLabel(prefix string, layer int) string { return prefix + strconv.Itoa(layer) }

// needsPlace reports whether a Node cannot be initialised before its place in the network is
// known. A Node that already has the label of the top layer keeps its labels, as with AWS's own
// controller.
func (c *Controller) needsPlace(n *node) bool {
	if c.options.Topology == nil || !n.tainted || n.deleting || !n.isDescribed() || n.place.instance == n.instance.ID {
		return false
	}
	_, has := n.labels[layerLabel(c.options.Layer, 1)]
	return !has && c.options.Topology.Layered(n.instance.Type)
}

// layersOf returns the labels of the network nodes above a Node's instance, as far as they are
// known.
func (c *Controller) layersOf(n *node, i *cloud.Instance) map[string]string {
	if _, has := n.labels[layerLabel(c.options.Layer, 1)]; has || n.place.instance != i.ID {
		return nil
	}
	labels := make(map[string]string, len(n.place.nodes))
	for k, id := range n.place.nodes {
		if id != "" {
			labels[layerLabel(c.options.Layer, k+1)] = id
		}
	}
	return labels
}

// duePlaces returns the IDs of the instances whose places to look up now.
func (c *Controller) duePlaces(now time.Time) (ids []string, again time.Time) {
	for {
		name, due := c.places.due.Pop(now)
		if !due {
			break
		}
		if n := c.nodes[name]; c.needsPlace(n) {
			id := n.instance.ID
			if c.places.lookingUp[id] == nil {
				ids = append(ids, id)
			}
			c.places.lookingUp[id] = append(c.places.lookingUp[id], name)
		}
	}
	slices.Sort(ids)
	return ids, c.places.due.Next()
}

// takePlaces applies the result of a lookup of places.
func (c *Controller) takePlaces(ids []string, found map[string][]string) {
	now, names := time.Now(), c.places.lookingUp
	c.places.lookingUp = make(map[string][]string)
	for _, id := range ids {
		nodes, answered := found[id]
		for _, name := range names[id] {
			n := c.nodes[name]
			if n == nil {
				continue
			}
			// Clouds may show no place of an instance that does not run yet.
			if answered && (len(nodes) > 0 || n.instance == nil || n.instance.State != cloud.Starting) {
				n.place = place{instance: id, nodes: nodes}
			} else if c.needsPlace(n) {
				c.places.due.Set(name, c.afterMisses(n.place.misses, now, lookupLast))
				n.place.misses++
			}
			c.steps.Set(name, now)
		}
	}
}

// requestPlace schedules a lookup of a Node's place, unless there is one.
func (c *Controller) requestPlace(n *node, now time.Time) {
	if c.places.due.Has(n.name) || slices.Contains(c.places.lookingUp[n.instance.ID], n.name) {
		return
	}
	c.places.due.Set(n.name, now)
}

// waitsForPlace explains a Node that waits for its place.
func waitsForPlace(n *node) string {
	return fmt.Sprintf("stays until the cloud tells the place of %s in its network, for the labels of the topology; readyz names the reason of a failure", n.instance.ID)
}
