package cloudnode

import (
	"time"
	"unique"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// node is what is kept of a Node.
type node struct {
	name, uid string
	revision  int64
	created   int64
	deleting  bool
	ready     bool
	unready   time.Time         // when it was first seen not ready
	since     int64             // when it became ready, by its condition
	boot      string            // the ID of its machine's last boot
	left      bool              // it was initialised, and then seen not ready
	id        string            // its providerID
	waits     bool              // it has the Taint
	version   string            // its resourceVersion
	taints    []kube.TaintSpec  // the others, if it waits
	labels    map[string]string // of those that the controller writes
	addresses []cloud.Address
	// provided is the annotation ProvidedIP, if isProvided.
	provided   string
	isProvided bool

	// instance is the last answer of the cloud. It is nil until then. answered is when the
	// lookup began: what changed later, it may not show.
	instance  *cloud.Instance
	answered  time.Time
	certain   time.Time // a lookup that began earlier may show the instance before its return
	fruitless int       // answers in a row that did not show what was needed
	failures  int       // of writes in a row
	written   int64     // the revision of the last write
	settled   time.Time // until then, an earlier state than that of the last write is old
	problem   string    // why the Node cannot get its addresses, with the fix
}

// keep returns what to keep of a Node.
func (c *Controller) keep(k *kube.Node) (name string, n node) {
	n = node{
		name: string(k.Name), uid: string(k.UID), revision: k.Revision, created: k.Created, deleting: k.Deleting,
		ready: string(k.Ready.Status) == "True", since: k.Ready.Since, boot: string(k.Boot), id: string(k.ProviderID),
	}
	n.version = string(k.ResourceVersion)
	for _, t := range k.Taints() {
		if string(t.Key) == Taint {
			n.waits = true
		} else {
			n.taints = append(n.taints, t.Spec())
		}
	}
	if !n.waits {
		n.taints = nil
	}
	for _, a := range k.Addresses {
		n.addresses = append(n.addresses, cloud.Address{Type: cloud.AddressType(shared(a.Kind)), Value: string(a.Address)})
	}
	for _, a := range k.Annotations {
		if string(a.Key) == ProvidedIP {
			n.provided, n.isProvided = string(a.Value), true
		}
	}
	for _, l := range k.Labels() {
		if key, is := c.keys[string(l.Key)]; is {
			if n.labels == nil {
				n.labels = make(map[string]string, len(c.keys))
			}
			n.labels[key] = shared(l.Value)
		}
	}
	return n.name, n
}

// shared returns a text that many Nodes have, once for all of them.
func shared(text []byte) string { return unique.Make(string(text)).Value() }

// list replaces all Nodes.
func (c *Controller) list(all map[string]node) {
	for name, v := range all {
		c.set(name, v)
	}
	for name := range c.nodes {
		if _, is := all[name]; !is {
			c.remove(name)
		}
	}
}

// set applies a state of a Node.
func (c *Controller) set(name string, v node) {
	n, now := c.nodes[name], time.Now()
	switch {
	case n != nil && n.uid == v.uid && n.revision == v.revision && v.revision != 0:
		return
	case n == nil || n.uid != v.uid || n.isOfAnother(&v):
		c.remove(name)
		v.unready, v.left = now, !v.ready && !v.waits
		c.nodes[name] = &v
		c.ask(&v, now)
	default:
		c.change(n, &v, now)
	}
	c.steps.Set(name, now)
}

// isOfAnother reports whether a later state of a Node may belong to another instance than
// the one that was looked up. A program may set the providerID during a lookup by name.
func (n *node) isOfAnother(v *node) bool {
	return n.id != v.id && (n.id != "" || n.instance == nil || n.instance.ProviderID != v.id)
}

// change applies a later state of a known Node. If the instance may have changed, or
// another program has changed the Node, it requests a new answer of the cloud.
func (c *Controller) change(n, v *node, now time.Time) {
	returns := v.returns(n)
	asks := returns || v.ready && !n.ready || v.waits && !n.waits || v.provided != n.provided || v.isProvided != n.isProvided
	if l, err := c.lack(v, n.instance); !asks && !v.waits && n.instance != nil {
		asks = err == nil && !l.isEmpty()
	}
	if v.unready, v.left = n.unready, n.left && !v.ready; n.ready && !v.ready {
		v.unready, v.left = now, true
	}
	if v.certain = n.certain; returns {
		v.certain = now.Add(lateTime)
	}
	v.instance, v.answered, v.fruitless, v.failures = n.instance, n.answered, n.fruitless, n.failures
	v.written, v.settled, v.problem = n.written, n.settled, n.problem
	leaves := v.deleting && !n.deleting
	if *n = *v; leaves {
		c.release(n, now)
	}
	switch again := n.answered.Add(freshTime); {
	case asks && !now.Before(again):
		c.ask(n, now)
	case returns:
		c.ask(n, again)
	}
}

// returns reports whether the machine of a Node may have been off since an earlier state of
// the Node. One that was stopped and started may have another address. The watch does not
// always show the time between: then the boot or the condition differs. An instance that did
// not run yet when the Node was initialised may lack addresses.
func (n *node) returns(before *node) bool {
	switch {
	case !n.ready:
		return false
	case !before.ready, before.waits && !n.waits:
		return before.left || before.instance != nil && before.instance.State != cloud.Running
	}
	return n.boot != before.boot && before.boot != "" || n.since != before.since
}

// remove applies the deletion of a Node.
func (c *Controller) remove(name string) {
	n := c.nodes[name]
	if n == nil {
		return
	}
	c.release(n, time.Now())
	c.shares.remove(n)
	delete(c.nodes, name)
	c.reads.Remove(name)
	c.steps.Remove(name)
}

// ref returns the Node as the object of events and writes.
func (n *node) ref() controller.Ref { return controller.Ref{Kind: "Node", Name: n.name, UID: n.uid} }
