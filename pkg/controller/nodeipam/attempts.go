package nodeipam

import (
	"cmp"
	"container/heap"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// TermAnnotation is the annotation that a new leader writes to a Node without podCIDRs.
// It changes the Node, so that late writes of the last leader fail.
const TermAnnotation = "tulle.net/ipam-term"

// backoff paces the writes of one Node that the server refuses.
var backoff = retry.Backoff{First: 100 * time.Millisecond, Last: time.Minute}

// parkedLimit is how long a refused write waits, at least, for the watch to show how the
// Node has changed. After that it is retried unchanged, which does no harm.
const parkedLimit = time.Second

// attempt is a write to a Node until its outcome is known: of podCIDRs, or of the fence.
// Its block stays reserved. A try without an answer is repeated unchanged, so it does
// not matter whether the server has applied it.
type attempt struct {
	name, uid string
	cidrs     []string      // none in the fence
	version   string        // of the Node that the last try required
	answer    *kube.Version // of the last try
	failures  int
	flying    bool // a try is in flight
	parked    bool // it waits for the watch to show a later version
	over      bool // its outcome no longer matters
	at        time.Time
	index     int // in the queue
}

func (a *attempt) isFence() bool { return a.cidrs == nil }

// termText returns a text that no other term has. A term without an election has no ID.
func termText(t election.Term) string {
	return fmt.Sprintf("%d-%s", t.Number, cmp.Or(t.ID, rand.Text()))
}

// beginFence changes every Node to which the last leader may still write. It could aim
// only at those that have no podCIDRs.
func (c *Controller) beginFence() {
	c.toFence = false
	for name, n := range c.nodes {
		if len(n.CIDRs) == 0 {
			a := &attempt{name: name, uid: n.UID, version: n.version}
			c.attempts[name] = a
			c.waiting.push(a, time.Time{})
			c.fences++
		}
	}
	c.fencing = c.fences > 0
}

// changed applies a later state of an attempt's Node. gone means that it was deleted.
func (c *Controller) changed(n *node, gone bool) {
	a := c.attempts[n.Name]
	if a == nil {
		return
	}
	switch ended := gone || a.uid != n.UID || len(n.CIDRs) > 0 || a.isFence() && n.version != a.version; {
	case ended && a.flying:
		a.over = true
	case ended:
		c.waiting.remove(a)
		c.drop(a)
	case a.parked && n.version != a.version:
		// So there are at most as many tries as changes of the Node.
		a.parked = false
		c.waiting.remove(a)
		c.waiting.push(a, time.Now())
	}
}

// queue holds the attempts that wait for their next try, the first one first.
type queue []*attempt

// due reports whether a try is due.
func (q *queue) due(now time.Time) bool { return len(*q) > 0 && !(*q)[0].at.After(now) }

// next returns when the next try is due.
func (q *queue) next() time.Time {
	if len(*q) == 0 {
		return time.Time{}
	}
	return (*q)[0].at
}

func (q *queue) push(a *attempt, at time.Time) {
	a.at = at
	heap.Push((*byTime)(q), a)
}

func (q *queue) pop() *attempt { return heap.Pop((*byTime)(q)).(*attempt) }

func (q *queue) remove(a *attempt) {
	if a.index < len(*q) && (*q)[a.index] == a {
		heap.Remove((*byTime)(q), a.index)
	}
}

// byTime implements heap.Interface.
type byTime []*attempt

func (q byTime) Len() int           { return len(q) }
func (q byTime) Less(i, j int) bool { return q[i].at.Before(q[j].at) }

func (q byTime) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *byTime) Push(a any) {
	a.(*attempt).index = len(*q)
	*q = append(*q, a.(*attempt))
}

func (q *byTime) Pop() any {
	old := *q
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	return last
}
