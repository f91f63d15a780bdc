package cloudnode

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
)

const (
	// gatherTime is how long a lookup waits for further Nodes.
	gatherTime = 50 * time.Millisecond
	// pace is the shortest time between two lookups.
	pace = 300 * time.Millisecond
	// lookupFirst and lookupLast limit the time between two lookups of an instance that
	// the cloud does not describe. The time doubles with each lookup.
	lookupFirst, lookupLast = time.Second, time.Minute
	// rarely limits that time for a Node that is ready without a running instance.
	rarely = time.Hour
	// mostDoublings is how often the time doubles at most, until it exceeds any limit.
	mostDoublings = 12
	// lateTime is how old the facts of an answer may be when its lookup begins: another
	// caller's call, begun half a minute earlier, may serve it, and clouds show changes late.
	lateTime = 45 * time.Second
)

// The keys of lookups: a Node is looked up by its providerID, or by its name if it has
// none.
const byID, byName = "id ", "name "

// needs reports whether a Node's instance needs a lookup. A Node that has neither the
// taint nor a providerID belongs to no cloud.
func (n *node) needs() bool { return !n.deleting && (n.waits || n.id != "") }

// key returns the key by which a Node is looked up.
func (n *node) key() string {
	if n.id != "" {
		return byID + n.id
	}
	return byName + n.name
}

// ask makes a lookup of a Node due.
func (c *Controller) ask(n *node, now time.Time) {
	if !n.needs() {
		return
	}
	if !c.last.IsZero() {
		now = now.Add(gatherTime)
	}
	c.reads.Set(n.name, now)
}

// due returns what to look up now.
func (c *Controller) due(now time.Time) (keys []string, again time.Time) {
	if !now.Before(c.refresh) {
		for _, n := range c.nodes {
			if !n.waits && n.needs() && !c.refresh.IsZero() {
				c.reads.Set(n.name, now) // at once, together with the refreshes of others
			}
		}
		c.refresh = controller.NextRefresh(c.led, now, c.options.Refresh)
	}
	if next := c.last.Add(pace); now.Before(next) && c.reads.Due(now) {
		return nil, next
	}
	for {
		name, due := c.reads.Pop(now)
		if !due {
			break
		}
		if n := c.nodes[name]; n.needs() {
			key := n.key()
			if c.asked[key] == nil {
				keys = append(keys, key)
			}
			c.asked[key] = append(c.asked[key], name)
		}
	}
	if len(keys) > 0 {
		c.last = now
	}
	slices.Sort(keys)
	again = c.reads.Next()
	if again.IsZero() || c.refresh.Before(again) {
		again = c.refresh
	}
	return keys, again
}

// read looks instances up: those by ID and those by name in one call each.
func (c *Controller) read(ctx context.Context, keys []string) (map[string]cloud.Instance, error) {
	var asks [2]struct {
		prefix string
		what   []string
		found  map[string]cloud.Instance
		err    error
	}
	asks[0].prefix, asks[1].prefix = byID, byName
	for _, key := range keys {
		for i := range asks {
			if what, is := strings.CutPrefix(key, asks[i].prefix); is {
				asks[i].what = append(asks[i].what, what)
			}
		}
	}
	var reading sync.WaitGroup
	for i, call := range []func(context.Context, []string) (map[string]cloud.Instance, error){c.options.Cloud.Instances, c.options.Cloud.Named} {
		if a := &asks[i]; len(a.what) > 0 {
			reading.Go(func() { a.found, a.err = call(ctx, a.what) })
		}
	}
	reading.Wait()
	all := make(map[string]cloud.Instance, len(keys))
	for _, a := range asks {
		for what, i := range a.found {
			all[a.prefix+what] = i
		}
	}
	return all, errors.Join(asks[0].err, asks[1].err)
}

// take applies what the cloud says about instances.
func (c *Controller) take(keys []string, found map[string]cloud.Instance) {
	now, asked := time.Now(), c.asked
	c.asked = make(map[string][]string)
	for _, key := range keys {
		i, answered := found[key]
		for _, name := range asked[key] {
			n := c.nodes[name]
			if n == nil {
				continue
			}
			if n.key() != key {
				if !c.reads.Has(name) {
					c.ask(n, now) // the providerID is new; the reason for the lookup remains
				}
				continue
			}
			if answered {
				if n.instance != nil && n.instance.ID != i.ID {
					c.release(n, now)
				}
				c.shares.remove(n)
				n.instance, n.answered = &i, c.last
				c.shares.add(n)
			}
			switch {
			case !answered, n.waits && !n.isDescribed():
				c.fruitlessly(n, now)
			case n.contradicts():
				c.backOff(n, now, rarely)
			case !n.waits || n.problem == "":
				n.fruitless = 0
			}
			if answered && n.answered.Before(n.certain) && n.needs() {
				c.reads.Advance(name, n.certain)
			}
			c.steps.Set(name, now)
		}
	}
}

// contradicts reports whether the cloud shows no running instance of an initialised Node that
// is ready. The answer may be old, or of other credentials, or the Node will soon be unready.
func (n *node) contradicts() bool {
	return n.ready && !n.waits && n.instance != nil && n.instance.State != "" && n.instance.State != cloud.Running
}

// fruitlessly schedules another lookup of a Node after one that did not show what was
// needed.
func (c *Controller) fruitlessly(n *node, now time.Time) { c.backOff(n, now, lookupLast) }

// backOff schedules another lookup of a Node, at most a time after the last one. The times
// lie on a grid, so that one lookup serves many Nodes. The grid starts at a time of the
// monotonic clock: Truncate would use the wall clock, which may be set back.
func (c *Controller) backOff(n *node, now time.Time, most time.Duration) {
	d := min(most, lookupFirst<<min(n.fruitless, mostDoublings))
	n.fruitless++
	at := now.Add(d)
	c.reads.Set(n.name, at.Add(-(at.Sub(c.began) % (d / 4))))
}
