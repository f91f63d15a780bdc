package lifecycle

import (
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
)

// keep returns the facts of a Node to keep.
func keep(k *kube.Node) (name string, s subject) {
	s = subject{
		name: string(k.Name), uid: string(k.UID), version: string(k.ResourceVersion), id: string(k.ProviderID),
		ready: string(k.Ready.Status) == "True", deleting: k.Deleting,
		machine: string(k.Machine),
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
	if c.judge.watching.IsZero() {
		c.judge.watching = time.Now()
	}
	controller.Replace(c.judge.subjects, all, c.set, func(name string) { c.forget(name, true) })
}

// set adds or updates a Node. It schedules a round soon if the Node has become unready, or another
// machine uses it.
func (c *Controller) set(name string, v subject) {
	old, now := c.judge.subjects[name], time.Now()
	if old != nil && old.uid == v.uid && old.version == v.version {
		return
	}
	fell := v.needs() && !v.ready && (old == nil || old.uid != v.uid || old.ready || old.id != v.id)
	c.judge.set(v, now)
	c.decide = c.decide || c.judge.suspects[name]
	moved := v.needs() && old != nil && !old.moved && c.judge.subjects[name].moved
	switch {
	case fell && c.judge.last.IsZero():
		c.roundBy(now)
	case fell, moved:
		c.roundBy(now.Add(c.times().Gather))
	}
	c.steps.Set(name, now)
}

// remove removes a Node whose deletion the watch has shown.
func (c *Controller) remove(name string) { c.forget(name, false) }

// forget removes a Node. missed is set if the watch has missed the deletion.
func (c *Controller) forget(name string, missed bool) {
	c.decide = c.decide || c.judge.suspects[name]
	c.judge.remove(name, time.Now(), missed)
	delete(c.paused, name)
	c.steps.Remove(name)
}

// needs reports whether the instance of a Node can be looked up.
func (s *subject) needs() bool { return s.id != "" && !s.deleting }
