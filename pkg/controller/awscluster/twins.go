package awscluster

import (
	"cmp"
	"strings"
	"time"
)

// claim records which network the annotation of an AWSCluster names. If that has changed, the
// others that name the same network are judged again.
func (c *Controller) claim(n *network, now time.Time) {
	i, _, _ := n.recorded()
	if i == n.claimed {
		return
	}
	c.release(n, now)
	if n.claimed = i; i == (identity{}) {
		return
	}
	if c.claims[i] == nil {
		c.claims[i] = make(map[string]*network)
	}
	c.claims[i][n.Key()] = n
	c.judgeTwins(n, now)
}

// release forgets which network an AWSCluster names.
func (c *Controller) release(n *network, now time.Time) {
	of := c.claims[n.claimed]
	if of[n.Key()] != n {
		return
	}
	if delete(of, n.Key()); len(of) == 0 {
		delete(c.claims, n.claimed)
	}
	c.judgeTwins(n, now)
}

// judgeTwins judges the others that name the same network.
func (c *Controller) judgeTwins(n *network, now time.Time) {
	for _, o := range c.claims[n.claimed] {
		if o != n {
			c.judge(o, now)
		}
	}
}

// twinOf returns the AWSCluster that keeps the network which another one names, too, or "". A
// copy of an object has the annotation of the original.
func (c *Controller) twinOf(n *network) string {
	keeper := n
	for _, o := range c.claims[n.claimed] {
		if o.before(keeper) {
			keeper = o
		}
	}
	if keeper == n {
		return ""
	}
	return keeper.Key()
}

// before reports whether, of two AWSClusters that name one network, n keeps it: the one whose
// own UID the network has, because the network was made for that one, or else the older one.
func (n *network) before(o *network) bool {
	copied := func(n *network) int {
		if n.UID == n.claimed.uid {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(copied(n), copied(o)), strings.Compare(n.CreationTimestamp, o.CreationTimestamp), strings.Compare(n.Key(), o.Key())) < 0
}
