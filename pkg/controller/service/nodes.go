package service

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unique"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

const (
	// ExcludeLabel keeps a Node out of the targets.
	ExcludeLabel = "node.kubernetes.io/exclude-from-external-load-balancers"
	// leavingTaint is on a Node that the cluster autoscaler is about to remove.
	leavingTaint = "ToBeDeletedByClusterAutoscaler"
)

// node is what is kept of a Node.
type node struct {
	name, id string // id is its providerID
	// serves is set if it is to be a target. As with cloud controller managers, one that
	// is not ready stays a target: health checks find out.
	serves bool
	labels map[string]string
}

// keepNode returns what to keep of a Node.
func keepNode(k *kube.Node) (string, node) {
	n := node{name: string(k.Name), id: unique.Make(string(k.ProviderID)).Value(), serves: !k.Deleting && len(k.ProviderID) > 0, labels: make(map[string]string)}
	for _, l := range k.Labels() {
		n.labels[unique.Make(string(l.Key)).Value()] = unique.Make(string(l.Value)).Value()
	}
	if value, is := n.labels[ExcludeLabel]; is {
		if excluded, err := strconv.ParseBool(value); err != nil || excluded {
			n.serves = false
		}
	}
	for _, t := range k.Taints() {
		if string(t.Key) == leavingTaint {
			n.serves = false
		}
	}
	return n.name, n
}

// same reports whether nothing has changed that balancers depend on.
func (n node) same(o node) bool {
	return n.id == o.id && n.serves == o.serves && maps.Equal(n.labels, o.labels)
}

// listNodes replaces all Nodes.
func (c *Controller) listNodes(all map[string]node) {
	controller.Replace(c.nodes, all, c.setNode, c.deleteNode)
}

func (c *Controller) setNode(name string, n node) {
	was, is := c.nodes[name]
	if is && was.same(n) {
		return
	}
	c.nodes[name] = n
	// Nothing looks up an instance while its Node is no target.
	if i := c.instances[n.id]; n.serves && (i == nil || !was.serves && !runs(i)) {
		c.lookUpInstance(n.id, time.Now())
	}
	c.nodesChanged(time.Now())
}

// lookUpInstance makes a lookup of a Node's instance due.
func (c *Controller) lookUpInstance(id string, now time.Time) {
	c.look.waits = 0
	if len(c.look.instances) == 0 || c.look.later.After(now.Add(gatherTime/2)) {
		c.look.later = now.Add(gatherTime / 2) // others may come with it
	}
	c.look.instances[id] = true
}

// instanceIDs returns the provider IDs of all Nodes that are to be targets, in order.
func (c *Controller) instanceIDs() (ids []string) {
	for _, n := range c.nodes {
		if n.serves {
			ids = append(ids, n.id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func (c *Controller) deleteNode(name string) {
	n := c.nodes[name]
	delete(c.nodes, name)
	delete(c.instances, n.id)
	delete(c.look.instances, n.id)
	for _, other := range c.nodes { // a Node may come back under another name
		if other.serves && other.id == n.id {
			c.lookUpInstance(n.id, time.Now())
			break
		}
	}
	c.nodesChanged(time.Now())
}

// nodesChanged lets all balancers follow the Nodes. Changes that come together become one
// update.
func (c *Controller) nodesChanged(now time.Time) {
	clear(c.backends)
	if c.gathered.IsZero() || now.After(c.gathered) {
		c.gathered = now.Add(gatherTime)
	}
	for key, s := range c.services {
		if s.isOurs() {
			c.clouds.Set(key, latest(c.gathered, s.paused))
		}
	}
}

// backend is the targets of Services with the same labels of Nodes.
type backend struct {
	targets, undecided, groups []string
	networks                   map[string]string // of all instances that are known, by ID
	known                      bool
	problem                    string
}

// backend returns the targets for labels of Nodes.
func (c *Controller) backend(labels map[string]string) *backend {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&key, "%s=%s,", name, labels[name])
	}
	if b := c.backends[key.String()]; b != nil {
		return b
	}
	b := &backend{known: true, networks: make(map[string]string, len(c.instances))}
	for _, i := range c.instances {
		b.networks[i.ID] = i.Network
	}
	groups := make(map[string]bool)
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		if !n.serves || !n.matches(labels) {
			continue
		}
		i := c.instances[n.id]
		switch {
		case i != nil && i.Problem != "" && i.State != cloud.Absent, i != nil && i.State.IsGone():
			continue
		case i == nil || i.State != cloud.Running && i.State != cloud.Starting:
			// Not known, too new, or stopped: it stays what it is.
			b.undecided, b.known = append(b.undecided, n.id[strings.LastIndexByte(n.id, '/')+1:]), false
			continue
		}
		b.targets = append(b.targets, i.ID)
		id, problem := c.groupOf(i)
		if b.problem == "" && problem != "" {
			b.problem = "Node " + name + ": " + problem
		}
		if problem != "" {
			b.known = false
		} else {
			groups[id] = true
		}
	}
	slices.Sort(b.targets)
	b.targets = slices.Compact(b.targets)
	b.groups = slices.Sorted(maps.Keys(groups))
	b.known = b.known && len(b.targets) > 0
	c.backends[key.String()] = b
	return b
}

// matches reports whether a Node has labels; an empty value is any.
func (n node) matches(labels map[string]string) bool {
	for key, value := range labels {
		if has, is := n.labels[key]; !is || value != "" && has != value {
			return false
		}
	}
	return true
}

// groupOf returns the security group of an instance that gets rules: the one with the
// cluster's tag, or the only one.
func (c *Controller) groupOf(i *cloud.Instance) (id, problem string) {
	var tagged []string
	for _, g := range i.Groups {
		if s, is := c.account.Security(g); is && cloudbalancer.IsOfCluster(c.options.Rules.Cluster, s) {
			tagged = append(tagged, g)
		}
	}
	tag := "kubernetes.io/cluster/" + c.options.Rules.Cluster
	switch {
	case len(tagged) == 1:
		return tagged[0], ""
	case len(tagged) > 1:
		return "", fmt.Sprintf("the security groups %s of instance %s all have the tag %s; leave it on the one that gets rules", strings.Join(tagged, " and "), i.ID, tag)
	case len(i.Groups) == 1:
		return i.Groups[0], ""
	case len(i.Groups) == 0:
		return "", "instance " + i.ID + " has no security group; give it one"
	}
	return "", fmt.Sprintf("none of the security groups %s of instance %s has the tag %s; tag the one that gets rules", strings.Join(i.Groups, ", "), i.ID, tag)
}

// latest returns the later of two times.
func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
