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

// unreadyTime is how long an initialised Node that is not ready holds its instance.
const unreadyTime = 5 * time.Minute

// holder returns the Node to which the instance of a Node that waits belongs, or nil: one
// that is initialised and was ready not long ago, or an older one that waits.
func (s shares) holder(n *node, now time.Time) (first *node) {
	for other := range s[n.instance.ID] {
		holds := other != n && !other.deleting
		if other.waits {
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

// release makes the Nodes due that wait for a Node's instance, because the Node leaves it.
func (c *Controller) release(n *node, now time.Time) {
	if n.instance == nil {
		return
	}
	for other := range c.shares[n.instance.ID] {
		if other != n && other.waits {
			c.steps.Set(other.name, now)
		}
	}
}

// other returns another Node of a Node's instance, or nil.
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
