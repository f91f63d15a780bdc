package cloudnode

import (
	"time"
	"unique"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// node holds the facts of a Node, and the state of its lookups and writes.
type node struct {
	name, uid string
	revision  int64
	created   int64
	deleting  bool
	ready     bool
	unready   time.Time         // when this process first saw it unready
	since     int64             // when it became ready, by its condition
	boot      string            // the ID of its machine's last boot
	left      bool              // this process has seen it unready after its initialisation
	id        string            // its providerID
	tainted   bool              // it has the Taint
	version   string            // its resourceVersion
	taints    []kube.TaintSpec  // the others, if it waits
	labels    map[string]string // of those that the controller writes
	addresses []cloud.Address
	// provided is the annotation ProvidedIP, if isProvided.
	provided   string
	isProvided bool

	// instance is the last answer of the cloud, or nil. answered is the beginning of the
	// lookup: the answer may lack later changes.
	instance *cloud.Instance
	answered time.Time
	place    place     // of the instance in the cloud's network
	certain  time.Time // a lookup that began earlier may show the instance before its return
	misses   int       // answers in a row that did not show what was needed
	failures int       // of writes in a row
	written  int64     // the revision of the last write
	settled  time.Time // until then, ignore a state that is older than the last write
	problem  string    // why the Node cannot get its addresses, with the fix
}

// keep returns the facts of a Node to keep.
func (c *Controller) keep(k *kube.Node) (name string, n node) {
	n = node{
		name: string(k.Name), uid: string(k.UID), revision: k.Revision, created: k.Created, deleting: k.Deleting,
		ready: string(k.Ready.Status) == "True", since: k.Ready.Since, boot: string(k.Boot), id: string(k.ProviderID),
	}
	n.version = string(k.ResourceVersion)
	for _, t := range k.Taints() {
		if string(t.Key) == Taint {
			n.tainted = true
		} else {
			n.taints = append(n.taints, t.Spec())
		}
	}
	if !n.tainted {
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

// shared returns a text that many Nodes have, so that they share its memory.
func shared(text []byte) string { return unique.Make(string(text)).Value() }

// list replaces all Nodes.
func (c *Controller) list(all map[string]node) {
	controller.Replace(c.nodes, all, c.set, c.remove)
}

// set adds or updates a Node.
func (c *Controller) set(name string, v node) {
	n, now := c.nodes[name], time.Now()
	switch {
	case n != nil && n.uid == v.uid && n.revision == v.revision && v.revision != 0:
		return
	case n == nil || n.uid != v.uid || n.isOfAnother(&v):
		c.remove(name)
		v.unready, v.left = now, !v.ready && !v.tainted
		c.nodes[name] = &v
		c.requestLookup(&v, now)
	default:
		c.change(n, &v, now)
	}
	c.steps.Set(name, now)
}

// isOfAnother reports whether a Node may now belong to another instance than the one that was
// looked up. Another program may set the providerID during a lookup by name.
func (n *node) isOfAnother(v *node) bool {
	return n.id != v.id && (n.id != "" || n.instance == nil || n.instance.ProviderID != v.id)
}

// change updates a known Node. If the instance may have changed, or another program has changed
// the Node, it requests a lookup.
func (c *Controller) change(n, v *node, now time.Time) {
	returned := v.hasReturned(n)
	lookUp := returned || v.ready && !n.ready || v.tainted && !n.tainted || v.provided != n.provided || v.isProvided != n.isProvided
	if l, err := c.pending(v, n.instance); !lookUp && !v.tainted && n.instance != nil {
		lookUp = err == nil && !l.isEmpty()
	}
	if v.unready, v.left = n.unready, n.left && !v.ready; n.ready && !v.ready {
		v.unready, v.left = now, true
	}
	if v.certain = n.certain; returned {
		v.certain = now.Add(lateTime)
	}
	v.instance, v.answered, v.place, v.misses, v.failures = n.instance, n.answered, n.place, n.misses, n.failures
	v.written, v.settled, v.problem = n.written, n.settled, n.problem
	leaves := v.deleting && !n.deleting
	if *n = *v; leaves {
		c.release(n, now)
	}
	switch again := n.answered.Add(freshTime); {
	case lookUp && !now.Before(again):
		c.requestLookup(n, now)
	case returned:
		c.requestLookup(n, again)
	}
}

// hasReturned reports whether the machine of a Node may have been off since an earlier state of
// the Node. A machine that was stopped and started may have another address. The watch may miss
// the unready state between, but then the boot ID or the time of the condition differs.
// hasReturned also returns true if the instance did not run yet when the Node was initialised,
// because it may have lacked addresses then.
func (n *node) hasReturned(before *node) bool {
	switch {
	case !n.ready:
		return false
	case !before.ready, before.tainted && !n.tainted:
		return before.left || before.instance != nil && before.instance.State != cloud.Running
	}
	return n.boot != before.boot && before.boot != "" || n.since != before.since
}

// remove removes a Node.
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
	c.places.due.Remove(name)
}

// ref names the Node in events and writes.
func (n *node) ref() controller.Ref { return controller.Ref{Kind: "Node", Name: n.name, UID: n.uid} }
