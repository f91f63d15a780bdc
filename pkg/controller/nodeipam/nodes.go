package nodeipam

import (
	"time"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
)

// node holds the fields of a Node that the controller keeps.
type node struct {
	ipam.Node
	// version is the resourceVersion, and revision is the same as a number, or 0.
	version  string
	revision int64
	// written is the list that had begun last when our last write to the Node ended.
	written int64
	since   int64 // see hold
}

// keep returns what to keep of a Node. Only a Node without podCIDRs needs its labels.
func (c *Controller) keep(n *kube.Node) (name string, v node) {
	name = string(n.Name)
	v = node{
		Node:    ipam.Node{Name: name, UID: string(n.UID), Deleting: n.Deleting, Created: n.Created},
		version: string(n.ResourceVersion), revision: n.Revision,
	}
	for _, cidr := range n.PodCIDRs() {
		v.CIDRs = append(v.CIDRs, string(cidr))
	}
	if c.options.Select && len(v.CIDRs) == 0 {
		v.Labels = make(map[string]string)
		for _, l := range n.Labels() {
			v.Labels[string(l.Key)] = string(l.Value)
		}
	}
	return name, v
}

// isOlder reports whether v is an earlier state of the same Node than w.
func (v *node) isOlder(w *node) bool {
	return v.UID == w.UID && v.revision != 0 && w.revision != 0 && v.revision < w.revision
}

// take records the version in the answer to a write, unless the watch has already shown
// another version than the write required: that one is at least as new.
func (n *node) take(a *attempt) {
	if n.version == a.version {
		n.version, n.revision = a.answer.ResourceVersion, kube.Revision(a.answer.ResourceVersion)
	}
}

// set applies a state of a Node from the watch, unless the answer to a write has shown a
// later one.
func (c *Controller) set(name string, v node) {
	if old := c.nodes[name]; old == nil || !v.isOlder(old) {
		c.enter(name, v)
	}
}

func (c *Controller) enter(name string, v node) {
	c.count(c.nodes[name], -1)
	c.count(&v, 1)
	c.hold(&v, c.nodes[name])
	c.nodes[name] = &v
	entry := v.Node
	if _, held := c.held[name]; held {
		entry.Deleting = true // gets nothing
	}
	c.book.Set(entry, time.Now())
	c.changed(&v, false)
}

// delete applies the deletion of a Node.
func (c *Controller) delete(name string) {
	if n := c.nodes[name]; n != nil {
		c.remove(n)
	}
}

func (c *Controller) remove(n *node) {
	c.count(n, -1)
	delete(c.nodes, n.Name)
	delete(c.held, n.Name)
	c.book.Delete(n.Name, time.Now())
	c.changed(n, true)
}

// count adds to the number of Nodes that wait for podCIDRs, if n is one.
func (c *Controller) count(n *node, more int) {
	if n != nil && len(n.CIDRs) == 0 && !n.Deleting {
		c.unserved += more
	}
}

// list replaces all Nodes. The list may be older than a write that ended after the list
// began, even if the next list has begun since. After a restore of the cluster from a
// backup, it may also be older than the known state.
func (c *Controller) list(number int64, all map[string]node) {
	for name, v := range all {
		old := c.nodes[name]
		if old != nil && old.written >= number && v.isOlder(old) {
			continue
		}
		c.enter(name, v)
	}
	for name, n := range c.nodes {
		if _, is := all[name]; !is {
			c.remove(n)
		}
	}
}
