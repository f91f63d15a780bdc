package web

import "github.com/tulle-net/tulle/pkg/page"

// checks returns all checks, in the order in which a starting node passes them.
func (r reading) checks() (all []page.Check) {
	for _, c := range r.Checks {
		all = append(all, page.Check{Name: c.Name, OK: c.OK(), Text: page.Line(c.Why(), page.Longest)})
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
