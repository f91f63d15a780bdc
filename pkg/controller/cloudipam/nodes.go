package cloudipam

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// node is what the controller keeps of a Node.
type node struct {
	name, uid, version string
	created            int64
	deleting           bool
	cidrs              []string // its podCIDRs
	id                 string   // its providerID
	// unrouted is set if its condition NetworkUnavailable is missing, or waits for a route.
	// A condition with another reason belongs to another program.
	unrouted bool

	instance  *cloud.Instance // nil until it was read
	fruitless int             // lookups in a row that found no usable range
	failures  int             // of writes in a row
	granted   netip.Prefix    // from the Book; not added to the instance yet
	last      cloud.Change    // the last change, if its outcome is unknown

	revision int64 // version as a number, or 0
	written  int64 // the number of the last list that had begun when our last write ended
}

// noRoute is the reason with which a cloud's node controller registers a Node.
const noRoute = "NoRouteCreated"

// keep converts a Node.
func keep(k *kube.Node) (name string, n node) {
	status := string(k.Unavailable.Status)
	n = node{
		name: string(k.Name), uid: string(k.UID), version: string(k.ResourceVersion), created: k.Created, deleting: k.Deleting,
		revision: k.Revision, id: string(k.ProviderID), unrouted: status == "" || status != "False" && string(k.Unavailable.Reason) == noRoute,
	}
	for _, cidr := range k.PodCIDRs() {
		n.cidrs = append(n.cidrs, string(cidr))
	}
	return n.name, n
}

// isOlder reports whether v is an earlier state of the same Node than n.
func (v *node) isOlder(n *node) bool {
	return v.uid == n.uid && v.revision != 0 && n.revision != 0 && v.revision < n.revision
}

// set applies a Node from the watch, unless the answer to a write has shown a later state.
func (c *Controller) set(name string, v node) {
	if n := c.nodes[name]; n == nil || !v.isOlder(n) {
		c.apply(name, v)
	}
}

// wrote applies a confirmed write before the watch shows it. It returns false if the watch has
// shown another version since the write began: that version is at least as new.
func (c *Controller) wrote(n *node, f flight, now time.Time) bool {
	if n.version != f.version || f.answer.ResourceVersion == "" {
		return false
	}
	c.count(n, -1)
	n.version, n.revision, n.written = f.answer.ResourceVersion, kube.Revision(f.answer.ResourceVersion), c.lists
	if f.cidrs != nil {
		n.cidrs = f.cidrs
	}
	n.unrouted = n.unrouted && !f.routed
	c.count(n, 1)
	c.enter(n, now)
	return true
}

// apply applies a state of a Node.
func (c *Controller) apply(name string, v node) {
	now, n := time.Now(), c.nodes[name]
	switch {
	case n == nil:
		n = &v
		c.nodes[name] = n
	case n.uid != v.uid:
		c.remove(name)
		n = &v
		c.nodes[name] = n
	case n.id != v.id:
		c.ungrant(n)
		c.count(n, -1)
		v.written = n.written
		*n = v
	default:
		if n.version == v.version {
			return
		}
		c.count(n, -1)
		n.version, n.revision, n.deleting, n.cidrs, n.unrouted = v.version, v.revision, v.deleting, v.cidrs, v.unrouted
	}
	c.count(n, 1)
	c.enter(n, now)
}

// count adds to the number of Nodes that wait for podCIDRs, if n is one.
func (c *Controller) count(n *node, more int) {
	if len(n.cidrs) == 0 && !n.deleting {
		c.waiting += more
	}
}

// remove applies the deletion of a Node.
func (c *Controller) remove(name string) {
	n := c.nodes[name]
	if n == nil {
		return
	}
	c.count(n, -1)
	delete(c.nodes, name)
	c.book.Delete(name, time.Now())
	c.reads.Remove(name)
	c.steps.Remove(name)
	c.adds.Remove(name)
}

// list replaces all Nodes. A list may be older than a write that ended after the list began.
// Such a list does not undo the write. After a restore of the cluster from a backup, a list may
// be older than the known state, and counts nevertheless.
func (c *Controller) list(number int64, all map[string]node) {
	for name, v := range all {
		if old := c.nodes[name]; old != nil && old.written >= number && v.isOlder(old) {
			continue
		}
		c.apply(name, v)
	}
	for name := range c.nodes {
		if _, is := all[name]; !is {
			c.remove(name)
		}
	}
}

// enter records in the Book what a Node owns, and schedules the Node's next step. A Node
// without podCIDRs waits for a block only if its instance was read and has none.
func (c *Controller) enter(n *node, now time.Time) {
	cidrs := n.cidrs
	if len(cidrs) == 0 {
		cidrs = texts(c.ranges(n))
	}
	waits := c.options.Mode == FromCluster && n.isKnown()
	switch {
	case len(cidrs) > 0 || waits:
		if len(cidrs) > 0 {
			n.granted = netip.Prefix{}
		}
		c.book.Set(ipam.Node{Name: n.name, UID: n.uid, CIDRs: cidrs, Deleting: n.deleting, Created: n.created}, now)
	case !n.granted.IsValid():
		c.book.Delete(n.name, now)
	}
	if !c.reads.Has(n.name) && n.instance == nil && c.needs(n) && !slices.Contains(c.asked[n.id], n.name) {
		c.reads.Set(n.name, now)
	}
	c.steps.Set(n.name, now)
}

// needs reports whether a Node's instance must be looked up.
func (c *Controller) needs(n *node) bool {
	return !n.deleting && n.id != "" && (c.options.Mode != CloudAllocator || len(n.cidrs) == 0 || n.unrouted)
}

// isKnown reports whether the Node's instance was read, and belongs to the Node.
func (n *node) isKnown() bool {
	return n.instance != nil && n.instance.Problem == "" && n.isNamed()
}

// isNamed reports whether the Node has the name of its instance, alone or with a domain.
func (n *node) isNamed() bool {
	rest, ok := strings.CutPrefix(n.name, n.instance.Name)
	return ok && n.instance.Name != "" && (rest == "" || rest[0] == '.')
}

// ranges returns the ranges that the cloud routes to a Node for its pods: one of each family,
// or nil if one is missing.
func (c *Controller) ranges(n *node) (all []netip.Prefix) {
	if !n.isKnown() {
		return nil
	}
	for _, f := range c.options.Families {
		p := n.instance.IPv6
		if f == subnet.IPv4 {
			p = c.alias(n)
		}
		if !p.IsValid() {
			return nil
		}
		all = append(all, p)
	}
	return all
}

// alias returns the first alias range for pods of a Node's instance.
func (c *Controller) alias(n *node) netip.Prefix {
	for _, a := range n.instance.Aliases {
		from := a.From == c.options.Secondary || c.options.Secondary == "" && c.options.Mode != FromCluster
		if from && a.Range.Addr().Is4() && (c.options.Mode != FromCluster || c.holds(a.Range)) {
			return a.Range
		}
	}
	return netip.Prefix{}
}

// holds reports whether a range lies in the pool.
func (c *Controller) holds(p netip.Prefix) bool {
	return slices.ContainsFunc(c.options.Pool.Ranges[subnet.FamilyOf(p.Addr())], func(r netip.Prefix) bool {
		return r.Bits() <= p.Bits() && r.Overlaps(p)
	})
}

// texts formats networks for a Node's spec.
func texts(networks []netip.Prefix) (all []string) {
	for _, n := range networks {
		all = append(all, n.String())
	}
	return all
}
