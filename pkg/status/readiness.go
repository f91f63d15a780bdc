package status

import "strings"

// Checks are all that a node needs to be ready, in the order in which a starting
// node passes them. Whether a node is ready is their word alone: `tulled status`,
// /readyz, the page, systemd and Kubernetes all read it here.
type Checks []Check

// Check is one thing that a node needs to be ready.
type Check struct {
	Name string `json:"name"`
	// Text says what there is, while the check holds.
	Text string `json:"text,omitempty"`
	// Missing is why the check fails. Degraded is, too, but keeps nothing waiting
	// that starts after the daemon: the network works but for that.
	Missing  []string `json:"missing,omitempty"`
	Degraded []string `json:"degraded,omitempty"`
}

// Unknown is why a check fails whose result only the daemon's main loop knows, while
// the loop does not answer.
const Unknown = "unknown: the daemon's main loop does not answer"

// OK reports whether the check holds.
func (c Check) OK() bool { return len(c.Missing)+len(c.Degraded) == 0 }

// Why returns what there is, or all reasons why the check fails.
func (c Check) Why() string {
	if c.OK() {
		return c.Text
	}
	return strings.Join(append(c.Missing[:len(c.Missing):len(c.Missing)], c.Degraded...), "; ")
}

// Ready reports whether all checks hold. Without any nothing is known.
func (c Checks) Ready() bool {
	for _, check := range c {
		if !check.OK() {
			return false
		}
	}
	return len(c) > 0
}

// Started reports whether what starts after the daemon may start: nothing is
// missing, although something may be degraded.
func (c Checks) Started() bool {
	for _, check := range c {
		if len(check.Missing) > 0 {
			return false
		}
	}
	return len(c) > 0
}

// Failing returns the names of the checks that fail.
func (c Checks) Failing() (names []string) {
	for _, check := range c {
		if !check.OK() {
			names = append(names, check.Name)
		}
	}
	return names
}

// Missing returns all reasons why the node is not ready. What is unknown only
// because the main loop does not answer is left out: the loop's own check says so.
func (c Checks) Missing() (all []string) {
	for _, check := range c {
		for _, reasons := range [...][]string{check.Missing, check.Degraded} {
			for _, why := range reasons {
				if why != Unknown {
					all = append(all, why)
				}
			}
		}
	}
	return all
}
