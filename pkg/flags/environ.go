package flags

import (
	"regexp"
	"slices"
	"strings"
)

// addVariables adds the values of variables for flags that the command line does not set.
func (g *Given) addVariables(environ []string) {
	p := g.program
	known := make(map[string]bool)
	for _, f := range p.Flags {
		known[f.Variable()] = true
	}
	found := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if _, again := found[name]; again || value == "" {
			continue // the first one counts, as with getenv
		}
		i := slices.IndexFunc(p.Prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
		if i < 0 {
			continue
		}
		rest := strings.TrimPrefix(name, p.Prefixes[i])
		if serviceLink(rest, value) {
			continue
		}
		found[name] = value
		if known[rest] {
			continue
		}
		refusal := p.unknownVariable(p.Prefixes[i], rest)
		if i > 0 {
			g.Warnings = append(g.Warnings, refusal.Error())
		} else if g.unknown == nil {
			g.unknown = refusal
		}
	}
	for _, f := range p.Flags {
		for _, prefix := range p.Prefixes {
			name := prefix + f.Variable()
			if _, done := g.flags[f.Name]; !done && found[name] != "" {
				g.flags[f.Name] = values{name, []string{found[name]}}
			}
		}
	}
}

func (p Program) unknownVariable(prefix, rest string) error {
	near := ""
	if f, ok := p.nearest(rest); ok {
		near = prefix + f.Variable()
	}
	return &Error{
		Flag: shownName(prefix + rest), Why: "unknown variable",
		Fix: DidYouMean(near, "unset it, or "+p.seeHelp()),
	}
}

// links matches variables that Kubernetes sets in each container for the services of its
// namespace. Those of a service called tulled have the prefix of tulled's own variables.
var links = regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceLink reports whether Kubernetes set a variable. A port from a flag is a number; one
// from Kubernetes is a URL.
func serviceLink(name, value string) bool {
	return links.MatchString(name) ||
		(name == "PORT" || strings.HasSuffix(name, "_PORT")) && strings.Contains(value, "://")
}
