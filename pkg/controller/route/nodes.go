package route

import (
	"slices"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
)

// set takes a state of a Node.
func (c *Controller) set(name string, v Node) {
	now, n := time.Now(), c.nodes[name]
	replaced := n != nil && n.UID != v.UID
	if replaced {
		c.remove(name)
		n = nil
	}
	same := n != nil && n.ProviderID == v.ProviderID
	if n == nil {
		// What was said of an earlier holder's routes does not hold for this one.
		n = &node{began: now, moved: c.told[name] != "" || replaced && v.Notice != ""}
		c.nodes[name] = n
	} else if !same {
		n.moved = true // what was said of its routes does not hold any more
	}
	if same {
		v.Target = n.Target
	} else {
		v.Target = cloudroute.Target{}
		n.fruitless = 0
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

// remove takes the deletion of a Node.
func (c *Controller) remove(name string) {
	delete(c.nodes, name)
	delete(c.waiting, name)
	c.book.DeleteNode(name, time.Now())
	c.instances.Remove(name)
	c.steps.Remove(name)
	if c.told[name] != "" {
		c.steps.Set(name, time.Now())
	}
}

// list replaces all Nodes.
func (c *Controller) list(all map[string]Node) {
	for name, v := range all {
		c.set(name, v)
	}
	for name := range c.nodes {
		if _, is := all[name]; !is {
			c.remove(name)
		}
	}
}

// instancesDue returns the instances to look up now. While many Nodes get their
// instances one after the other, one lookup is about all that came in the meantime.
func (c *Controller) instancesDue(now time.Time) (ids []string, again time.Time) {
	next := c.instances.Next()
	if least := c.looked.Add(c.pace()); !next.IsZero() && next.Before(least) {
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
		if c.asked[n.ProviderID] == nil {
			ids = append(ids, n.ProviderID)
		}
		c.asked[n.ProviderID] = append(c.asked[n.ProviderID], name)
	}
	if len(ids) > 0 {
		c.looked = now
	}
	slices.Sort(ids)
	return ids, c.instances.Next()
}

// pace returns the shortest time between two lookups. The more Nodes there are, the
// longer a rush of them lasts, because the budgets of changes hold it up.
func (c *Controller) pace() time.Duration {
	return min(max(time.Duration(len(c.nodes))*time.Millisecond, shortPace), longPace)
}

// takeInstances applies what the cloud says about instances.
func (c *Controller) takeInstances(ids []string, found map[string]cloud.Instance) {
	now, asked := time.Now(), c.asked
	c.asked = make(map[string][]string)
	for _, id := range ids {
		i, answered := found[id]
		for _, name := range asked[id] {
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
				n.fruitless = 0
				c.instances.Set(name, controller.NextRefresh(c.led, now, refreshInterval))
				continue
			}
			n.fruitless++
			c.instances.Set(name, now.Add(lookups.After(n.fruitless)))
		}
	}
}

// targetOf returns what routes to an instance lead to.
func targetOf(i cloud.Instance) cloudroute.Target {
	t := cloudroute.Target{Instance: i.ID, Interface: i.Interface, NextHops: i.NextHops, Network: i.Network, Forwards: i.Forwards, ForwardFix: i.ForwardFix, Problem: i.Problem}
	if t.Problem == "" && i.State.IsGone() {
		t.Problem = "the instance " + i.ID + " is " + string(i.State) + "; delete the Node if its machine is gone"
	}
	return t
}

// lookAgain looks up the instance of a Node whose route leads to nothing.
func (c *Controller) lookAgain(name string, now time.Time) {
	if n := c.nodes[name]; n != nil && n.ProviderID != "" && len(c.asked[n.ProviderID]) == 0 {
		n.fruitless++
		c.instances.Set(name, now.Add(lookups.After(n.fruitless)))
	}
}
