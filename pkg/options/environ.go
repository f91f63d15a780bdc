package options

import (
	"regexp"
	"strings"
)

// Variables of the first count before those of the second.
const (
	ours     = "TULLED_"
	flannels = "FLANNELD_"
)

// variable is what a flag is called in the environment, behind the prefix.
func (f flag) variable() string {
	return strings.ToUpper(strings.ReplaceAll(f.name, "-", "_"))
}

// addVariables adds what no flag has set. An unknown variable of ours is an error;
// of flannel's there may be some that we never had.
func (g givens) addVariables(environ []string) (warnings []string, unknown error) {
	known := make(map[string]flag)
	for _, f := range table {
		known[f.variable()] = f
	}
	found := make(map[string]string)
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		if _, again := found[name]; again || value == "" {
			continue // the first counts, as with getenv
		}
		rest, isOurs := strings.CutPrefix(name, ours)
		if !isOurs {
			var isFlannels bool
			if rest, isFlannels = strings.CutPrefix(name, flannels); !isFlannels {
				continue
			}
		}
		if serviceLink(rest, value) {
			continue
		}
		found[name] = value
		if _, ok := known[rest]; ok {
			continue
		}
		refusal := unknownVariable(strings.TrimSuffix(name, rest), rest)
		if !isOurs {
			warnings = append(warnings, refusal.Error())
		} else if unknown == nil {
			unknown = refusal
		}
	}
	for _, f := range table {
		for _, prefix := range []string{ours, flannels} {
			name := prefix + f.variable()
			if _, done := g[f.name]; !done && found[name] != "" {
				g[f.name] = told{name, []string{found[name]}}
			}
		}
	}
	return warnings, unknown
}

func unknownVariable(prefix, rest string) error {
	near := ""
	if f, ok := find(nearest(rest, names())); ok {
		near = prefix + f.variable()
	}
	return &Error{
		Flag: shownName(prefix + rest), Why: "unknown variable",
		Fix: didYouMean(near, "unset it, or see tulled --help"),
	}
}

// links are variables that Kubernetes sets in each container for the services of
// its namespace. Those of a service called tulled begin as ours do.
var links = regexp.MustCompile(`(^|_)(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// serviceLink reports whether Kubernetes set a variable. A port of ours is a
// number, and theirs a URL.
func serviceLink(name, value string) bool {
	return links.MatchString(name) ||
		(name == "PORT" || strings.HasSuffix(name, "_PORT")) && strings.Contains(value, "://")
}
