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
	// rarely limits that time for a ready Node without a running instance.
	rarely = time.Hour
	// mostDoublings is the number of doublings after which the time exceeds any limit.
	mostDoublings = 12
	// lateTime is the maximum age of an answer's facts at the beginning of its lookup. A
	// lookup may get the result of another caller's request, which began half a minute
	// earlier, and clouds show changes late.
	lateTime = 45 * time.Second
)

// The prefixes of the lookups' keys. A Node is looked up by its providerID, or by its name if
// it has none.
const byID, byName = "id ", "name "

// needs reports whether a Node's instance needs a lookup. A Node with neither the taint nor a
// providerID belongs to no cloud.
func (n *node) needs() bool { return !n.deleting && (n.tainted || n.id != "") }

// key returns the key by which a Node is looked up.
func (n *node) key() string {
	if n.id != "" {
		return byID + n.id
	}
	return byName + n.name
}

// requestLookup schedules a lookup of a Node.
func (c *Controller) requestLookup(n *node, now time.Time) {
	if !n.needs() {
		return
	}
	if !c.last.IsZero() {
		now = now.Add(gatherTime)
	}
	c.reads.Set(n.name, now)
}

// due returns the keys to look up now.
func (c *Controller) due(now time.Time) (keys []string, again time.Time) {
	if !now.Before(c.refresh) {
		for _, n := range c.nodes {
			if !n.tainted && n.needs() && !c.refresh.IsZero() {
				c.reads.Set(n.name, now) // at once, so that one lookup covers all Nodes
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
			if c.lookingUp[key] == nil {
				keys = append(keys, key)
			}
			c.lookingUp[key] = append(c.lookingUp[key], name)
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

// read looks up instances, with one request for those by ID and one for those by name.
func (c *Controller) read(ctx context.Context, keys []string) (map[string]cloud.Instance, error) {
	var calls [2]struct {
		prefix string
		what   []string
		found  map[string]cloud.Instance
		err    error
	}
	calls[0].prefix, calls[1].prefix = byID, byName
	for _, key := range keys {
		for i := range calls {
			if what, is := strings.CutPrefix(key, calls[i].prefix); is {
				calls[i].what = append(calls[i].what, what)
			}
		}
	}
	var reading sync.WaitGroup
	for i, call := range []func(context.Context, []string) (map[string]cloud.Instance, error){c.options.Cloud.Instances, c.options.Cloud.Named} {
		if a := &calls[i]; len(a.what) > 0 {
			reading.Go(func() { a.found, a.err = call(ctx, a.what) })
		}
	}
	reading.Wait()
	all := make(map[string]cloud.Instance, len(keys))
	for _, a := range calls {
		for what, i := range a.found {
			all[a.prefix+what] = i
		}
	}
	return all, errors.Join(calls[0].err, calls[1].err)
}

// take applies the result of a lookup.
func (c *Controller) take(keys []string, found map[string]cloud.Instance) {
	now, names := time.Now(), c.lookingUp
	c.lookingUp = make(map[string][]string)
	for _, key := range keys {
		i, answered := found[key]
		for _, name := range names[key] {
			n := c.nodes[name]
			if n == nil {
				continue
			}
			if n.key() != key {
				if !c.reads.Has(name) {
					c.requestLookup(n, now) // the providerID has changed, so look the Node up again
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
				if c.needsPlace(n) {
					c.requestPlace(n, now)
				}
			}
			switch {
			case !answered, n.tainted && !n.isDescribed():
				c.retryLookup(n, now)
			case n.contradicts():
				c.backOff(n, now, rarely)
			case !n.tainted || n.problem == "":
				n.misses = 0
			}
			if answered && n.answered.Before(n.certain) && n.needs() {
				c.reads.Advance(name, n.certain)
			}
			c.steps.Set(name, now)
		}
	}
}

// contradicts reports whether the cloud shows no running instance for an initialised and ready
// Node. Perhaps the answer is old, the credentials are of another account, or the Node will
// soon be unready.
func (n *node) contradicts() bool {
	return n.ready && !n.tainted && n.instance != nil && n.instance.State != "" && n.instance.State != cloud.Running
}

// retryLookup schedules another lookup of a Node after one that did not show what was
// needed.
func (c *Controller) retryLookup(n *node, now time.Time) { c.backOff(n, now, lookupLast) }

// backOff schedules another lookup of a Node, at most a time after the last one.
func (c *Controller) backOff(n *node, now time.Time, most time.Duration) {
	c.reads.Set(n.name, c.afterMisses(n.misses, now, most))
	n.misses++
}

// afterMisses returns the time of the next lookup after misses in a row, at most a time from now.
// The times lie on a grid, so that one lookup serves many Nodes. The grid starts at a time of the
// monotonic clock: Truncate would use the wall clock, which may be set back.
func (c *Controller) afterMisses(misses int, now time.Time, most time.Duration) time.Time {
	d := min(most, lookupFirst<<min(misses, mostDoublings))
	at := now.Add(d)
	return at.Add(-(at.Sub(c.began) % (d / 4)))
}
