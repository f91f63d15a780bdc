package web

import "fmt"

// check is one of the daemon's checks, as shown.
type check struct {
	Name string
	OK   bool
	Text string // why it fails, or what holds
}

// checks returns all checks, in the order in which a starting node passes them.
func (r reading) checks() (all []check) {
	for _, c := range r.Checks {
		all = append(all, check{c.Name, c.OK(), line(c.Why(), longest)})
	}
	return all
}

// holds reports whether the check of that name holds.
func (r reading) holds(name string) bool {
	for _, c := range r.Checks {
		if c.Name == name {
			return c.OK()
		}
	}
	return false
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func either(a, b string) string { return pick(a != "", a, b) }

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%s %ss", grouped(n), what)
}
