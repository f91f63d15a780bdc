package cloudnode

import "time"

// shares are the Nodes of each instance, by the instance's ID.
type shares map[string]map[*node]bool

func (s shares) add(n *node) {
	if !n.isDescribed() || n.instance.ID == "" {
		return
	}
	if s[n.instance.ID] == nil {
		s[n.instance.ID] = make(map[*node]bool)
	}
	s[n.instance.ID][n] = true
}

func (s shares) remove(n *node) {
	if n.instance == nil {
		return
	}
	of := s[n.instance.ID]
	if delete(of, n); len(of) == 0 {
		delete(s, n.instance.ID)
	}
}

// unreadyTime is the time for which an initialised but unready Node holds its instance.
const unreadyTime = 5 * time.Minute

// holder returns another Node that holds the instance of a waiting Node, or nil. The holder is
// initialised and was ready within unreadyTime, or it is an older Node that also waits.
func (s shares) holder(n *node, now time.Time) (first *node) {
	for other := range s[n.instance.ID] {
		holds := other != n && !other.deleting
		if other.tainted {
			holds = holds && other.isBefore(n)
		} else {
			holds = holds && (other.ready || now.Sub(other.unready) < unreadyTime)
		}
		if holds && (first == nil || other.isBefore(first)) {
			first = other
		}
	}
	return first
}

// release plans the Nodes again that wait for a Node's instance, because the Node no longer
// holds it.
func (c *Controller) release(n *node, now time.Time) {
	if n.instance == nil {
		return
	}
	for other := range c.shares[n.instance.ID] {
		if other != n && other.tainted {
			c.steps.Set(other.name, now)
		}
	}
}

// other returns the oldest other Node with a Node's instance, or nil.
func (s shares) other(n *node) (first *node) {
	if !n.isDescribed() {
		return nil
	}
	for other := range s[n.instance.ID] {
		if other != n && !other.deleting && (first == nil || other.isBefore(first)) {
			first = other
		}
	}
	return first
}

// isBefore reports whether a Node is older than another.
func (n *node) isBefore(other *node) bool {
	return n.created < other.created || n.created == other.created && n.name < other.name
}
