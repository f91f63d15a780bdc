package route

import (
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
)

// set adds or updates a Node.
func (c *Controller) set(name string, v Node) {
	now, n := time.Now(), c.nodes[name]
	replaced := n != nil && n.UID != v.UID
	if replaced {
		c.remove(name)
		n = nil
	}
	same := n != nil && n.ProviderID == v.ProviderID
	if n == nil {
		// A notice of an earlier holder of the name is not valid for this Node.
		n = &node{began: now, moved: c.stored[name] != "" || replaced && v.Notice != ""}
		c.nodes[name] = n
	} else if !same {
		n.moved = true // its notice is no longer valid
	}
	if same {
		v.Target = n.Target
	} else {
		v.Target = cloudroute.Target{}
		n.misses = 0
		if v.ProviderID == "" {
			v.Target.Problem = c.options.Nodes.Missing()
		}
	}
	n.Node = v
	if !same && v.ProviderID != "" {
		c.instances.Set(name, now)
	}
	c.book.SetNode(v.Node, now)
	if !c.steps.Has(name) {
		c.steps.Set(name, now)
	}
}

// remove removes a Node.
func (c *Controller) remove(name string) {
	delete(c.nodes, name)
	delete(c.waiting, name)
	c.book.DeleteNode(name, time.Now())
	c.instances.Remove(name)
	c.steps.Remove(name)
	if c.stored[name] != "" {
		c.steps.Set(name, time.Now())
	}
}

// list replaces all Nodes.
func (c *Controller) list(all map[string]Node) {
	controller.Replace(c.nodes, all, c.set, c.remove)
}

// instancesDue returns the provider IDs to look up now. While many Nodes appear one after the
// other, each lookup covers all that have appeared since the last one.
func (c *Controller) instancesDue(now time.Time) (ids []string, again time.Time) {
	next := c.instances.Next()
	if least := c.lastLookup.Add(c.pace()); !next.IsZero() && next.Before(least) {
		next = least
	}
	if next.IsZero() || next.After(now) {
		return nil, next
	}
	for {
		name, due := c.instances.Pop(now)
		if !due {
			break
		}
		n := c.nodes[name]
		if n == nil || n.ProviderID == "" {
			continue
		}
		if c.lookingUp[n.ProviderID] == nil {
			ids = append(ids, n.ProviderID)
		}
		c.lookingUp[n.ProviderID] = append(c.lookingUp[n.ProviderID], name)
	}
	if len(ids) > 0 {
		c.lastLookup = now
	}
	slices.Sort(ids)
	return ids, c.instances.Next()
}

// pace returns the shortest time between two lookups. It grows with the number of Nodes: when
// many appear at once, the request budgets take longer to route them all.
func (c *Controller) pace() time.Duration {
	return min(max(time.Duration(len(c.nodes))*time.Millisecond, shortPace), longPace)
}

// takeInstances applies the result of a lookup.
func (c *Controller) takeInstances(ids []string, found map[string]cloud.Instance) {
	now, names := time.Now(), c.lookingUp
	c.lookingUp = make(map[string][]string)
	for _, id := range ids {
		i, answered := found[id]
		for _, name := range names[id] {
			n := c.nodes[name]
			if n == nil || n.ProviderID != id {
				continue
			}
			if answered {
				n.Target = targetOf(i)
				c.book.SetTarget(name, n.Target, now)
			}
			// People may change an instance that does not forward at any time.
			if answered && n.Target.Problem == "" && n.Target.ForwardFix == "" {
				n.misses = 0
				c.instances.Set(name, controller.NextRefresh(c.led, now, refreshInterval))
				continue
			}
			n.misses++
			c.instances.Set(name, now.Add(lookups.After(n.misses)))
		}
	}
}

// targetOf returns the target of routes to an instance.
func targetOf(i cloud.Instance) cloudroute.Target {
	t := cloudroute.Target{Instance: i.ID, Interface: i.Interface, NextHops: i.NextHops, Network: i.Network, Forwards: i.Forwards, ForwardFix: i.ForwardFix, Problem: i.Problem}
	if t.Problem == "" && i.State.IsGone() {
		t.Problem = "the instance " + i.ID + " is " + string(i.State) + "; delete the Node if its machine is gone"
	}
	return t
}

// retryLookup schedules another lookup of a Node's instance, because a route to it does not work
// or was refused.
func (c *Controller) retryLookup(name string, now time.Time) {
	if n := c.nodes[name]; n != nil && n.ProviderID != "" && len(c.lookingUp[n.ProviderID]) == 0 {
		n.misses++
		c.instances.Set(name, now.Add(lookups.After(n.misses)))
	}
}
