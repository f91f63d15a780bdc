package lifecycle

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// vouching is the number of ready Nodes in a round. Their instances show that the
	// round is credible.
	vouching = 10
	// readers is the number of concurrent reads of Leases.
	readers = 8
)

// times returns the durations of the rules.
func (c *Controller) times() Times { return c.judge.rules.Times }

// roundBy schedules a round at this time, unless one is due earlier.
func (c *Controller) roundBy(at time.Time) {
	if least := c.judge.last.Add(c.times().Pace); at.Before(least) {
		at = least
	}
	if at.Before(c.retry) {
		at = c.retry
	}
	if c.next.IsZero() || at.Before(c.next) {
		c.next = at
	}
}

// due returns the Nodes of the next round, if it is due. These are the unready Nodes, the ready
// ones without an instance or with another machine, the held ones, and some ready ones. An audit covers all Nodes.
func (c *Controller) due(now time.Time) (keys []string, again time.Time) {
	if c.next.IsZero() || now.Before(c.next) {
		return nil, c.next
	}
	clear(c.running)
	c.whole = !now.Before(c.audit)
	waits := false
	var ready []*subject
	for _, name := range slices.Sorted(maps.Keys(c.judge.subjects)) {
		s := c.judge.subjects[name]
		switch open := !s.ready || s.moved || isGone(s.state) && !s.outlived || !s.back.IsZero(); {
		case !s.needs():
		case open, s.isHeld(), isGone(s.state), c.whole:
			keys, waits = append(keys, c.key(s)), waits || open
		default:
			ready = append(ready, s)
		}
	}
	switch {
	case !c.whole && !waits:
		c.next = c.audit
		return nil, c.next
	case len(keys) == 0:
		c.next = now.Add(c.times().Audit)
		return nil, c.next
	}
	for i := range min(vouching, len(ready)) {
		keys = append(keys, c.key(ready[(c.turn+i)%len(ready)]))
	}
	c.turn += vouching
	c.next = time.Time{}
	return keys, c.next
}

// key records a Node of a round, and returns its key: the name and the providerID, which read
// needs.
func (c *Controller) key(s *subject) string {
	c.running[s.name] = s.uid
	return s.name + " " + s.id
}

// read looks up the instances of all Nodes of a round in one call. Then it reads the Leases of
// the Nodes whose instances are gone.
func (c *Controller) read(ctx context.Context, keys []string) (map[string]answer, error) {
	var ids []string
	for _, key := range keys {
		_, id, _ := strings.Cut(key, " ")
		ids = append(ids, id)
	}
	slices.Sort(ids)
	instances, err := c.options.Cloud.Instances(ctx, slices.Compact(ids))
	if err != nil {
		return nil, err // a partial answer decides nothing
	}
	var mu sync.Mutex
	found := make(map[string]answer, len(keys))
	var gone []string
	for _, key := range keys {
		_, id, _ := strings.Cut(key, " ")
		i, answered := instances[id]
		if !answered {
			continue
		}
		found[key] = answer{instance: i}
		if isGone(i.State) {
			gone = append(gone, key)
		}
	}
	var reading sync.WaitGroup
	for r := range readers {
		reading.Go(func() {
			for i := r; i < len(gone); i += readers {
				name, _, _ := strings.Cut(gone[i], " ")
				renewed, err := c.renewed(ctx, name)
				mu.Lock()
				a := found[gone[i]]
				a.lease, a.unread = renewed, err
				found[gone[i]] = a
				mu.Unlock()
			}
		})
	}
	reading.Wait()
	return found, nil
}

// renewed returns the time of the last renewal in a kubelet's Lease, or "" without a Lease.
func (c *Controller) renewed(ctx context.Context, node string) (at string, err error) {
	var l kube.Lease
	err = kube.Get(ctx, c.options.Client, kube.Path(kube.Leases(leaseNamespace), node), kube.LeaseFormat, &l)
	if kube.Code(err) == 404 {
		return "", nil
	}
	return l.Spec.RenewTime, err
}

// take applies the result of a round.
func (c *Controller) take(keys []string, found map[string]answer) {
	now, uids := time.Now(), maps.Clone(c.running)
	r := round{at: now, answers: make(map[string]answer)}
	for _, key := range keys {
		name, id, _ := strings.Cut(key, " ")
		a, answered := found[key]
		if !answered {
			r.failed = "the cloud did not answer, or not about all Nodes"
			continue
		}
		// Ignore a Node that was re-created during the round.
		if s := c.judge.subjects[name]; s == nil || s.id != id {
			continue
		}
		a.uid = uids[name]
		r.answers[name] = a
	}
	c.judge.take(r)
	c.decide = true
	if r.failed != "" {
		c.failures++
		c.retry = now.Add(max(c.times().Pace, retry.Backoff{First: 2 * c.times().Pace, Last: c.options.Period}.After(c.failures)))
	} else {
		c.failures, c.retry = 0, time.Time{}
		if c.whole {
			c.audit = controller.NextRefresh(c.judge.began, now, c.times().Audit)
		}
	}
	c.roundBy(now.Add(c.options.Period)) // without open Nodes then, due waits for the audit
	for name := range r.answers {
		c.steps.Set(name, now)
	}
	if r.failed != "" || c.isTurning() {
		c.roundBy(now.Add(c.times().Pace))
	}
}

// isTurning reports whether an instance is stopping, so that its next state is near, or whether a
// Node has another machine, so that the next answer decides.
func (c *Controller) isTurning() bool {
	for _, s := range c.judge.subjects {
		if !s.ready && s.state == cloud.Stopping || s.moved && s.needs() {
			return true
		}
	}
	return false
}
