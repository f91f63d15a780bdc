package lifecycle

import (
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
)

// keep returns what to keep of a Node.
func keep(k *kube.Node) (name string, s subject) {
	s = subject{
		name: string(k.Name), uid: string(k.UID), version: string(k.ResourceVersion), id: string(k.ProviderID),
		ready: string(k.Ready.Status) == "True", deleting: k.Deleting,
	}
	for _, t := range k.Taints() {
		if string(t.Key) == Taint {
			s.shutdown = true
		} else {
			s.taints = append(s.taints, t.Spec())
		}
	}
	for _, a := range k.Annotations {
		if string(a.Key) == Mark && s.id != "" && string(a.Value) == s.id {
			s.marked = true
		}
	}
	return s.name, s
}

// list replaces all Nodes.
func (c *Controller) list(all map[string]subject) {
	if c.judge.follows.IsZero() {
		c.judge.follows = time.Now()
	}
	for name, v := range all {
		c.set(name, v)
	}
	for name := range c.judge.subjects {
		if _, is := all[name]; !is {
			c.forget(name, true)
		}
	}
}

// set takes a state of a Node. One that is no longer ready is asked about soon.
func (c *Controller) set(name string, v subject) {
	old, now := c.judge.subjects[name], time.Now()
	if old != nil && old.uid == v.uid && old.version == v.version {
		return
	}
	fell := v.needs() && !v.ready && (old == nil || old.uid != v.uid || old.ready || old.id != v.id)
	c.judge.set(v, now)
	c.decide = c.decide || c.judge.suspects[name]
	switch {
	case fell && c.judge.last.IsZero():
		c.hurry(now)
	case fell:
		c.hurry(now.Add(c.times().Gather))
	}
	c.steps.Set(name, now)
}

// remove takes the deletion of a Node.
func (c *Controller) remove(name string) { c.forget(name, false) }

// forget takes the deletion of a Node, and whether the watch missed it.
func (c *Controller) forget(name string, missed bool) {
	c.decide = c.decide || c.judge.suspects[name]
	c.judge.remove(name, time.Now(), missed)
	delete(c.paused, name)
	c.steps.Remove(name)
}

// needs reports whether the cloud can be asked about a Node.
func (s *subject) needs() bool { return s.id != "" && !s.deleting }
