package main

import (
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/flags"
)

// part is a controller that the program can run.
type part struct {
	name string
	// aliases are other names that kube-controller-manager and cloud controller managers
	// have, or had.
	aliases []string
	// named is set if it runs only where it is named: * does not include it.
	named bool
	// idle returns why the controller has no work with these settings, and the fix. It
	// returns nil if the controller has work.
	idle func(s *settings) *flags.Error
	// add adds it to a process.
	add func(p *process) error
}

// parts returns all controllers, in the order in which they are added.
func parts() []part {
	return []part{nodeIPAMPart, cloudNodePart, lifecyclePart, routePart, servicePart, awsClusterPart, clusterPart}
}

// known returns the names of all controllers.
func known() (names []string) {
	for _, p := range parts() {
		names = append(names, p.name)
	}
	return names
}

// nameOf returns the name of a controller that has this name or alias, or "".
func nameOf(text string) string {
	for _, p := range parts() {
		if p.name == text || slices.Contains(p.aliases, text) {
			return p.name
		}
	}
	return ""
}

// selection is which controllers may run.
type selection struct {
	all     bool
	on, off []string
}

// has reports whether a controller may run.
func (s selection) has(p part) bool {
	return slices.Contains(s.on, p.name) || s.all && !p.named && !slices.Contains(s.off, p.name)
}

func readControllers(value string) (s selection, err error) {
	for item := range strings.SplitSeq(value, ",") {
		item = strings.TrimSpace(item)
		text, off := strings.CutPrefix(item, "-")
		name := nameOf(text)
		switch {
		case item == "*":
			s.all = true
		case name == "":
			fix := "use * and " + strings.Join(known(), ", ")
			return s, flags.Refuse(item, "unknown controller", flags.DidYouMean(flags.Nearest(text, known()), fix))
		case off:
			s.off = append(s.off, name)
		default:
			s.on = append(s.on, name)
		}
	}
	return s, nil
}

// idle returns why a controller has no work.
func (s *settings) idle(p part) *flags.Error {
	if s.inEtcd() && p.name != route.Name {
		return &flags.Error{Flag: "etcd-endpoints", Why: p.name + " needs Kubernetes", Fix: "leave it out of --controllers, or leave out --etcd-endpoints"}
	}
	if why := s.lacking(p); why != nil {
		return why
	}
	return p.idle(s)
}

// runs reports whether a controller runs.
func (s *settings) runs(p part) bool { return s.controllers.has(p) && s.idle(p) == nil }

// checkControllers rejects settings that leave a named controller, or all of them, without
// work.
func (s *settings) checkControllers(g *flags.Given) error {
	refuse := func(e *flags.Error) error {
		e.Flag = g.From(e.Flag)
		return e
	}
	var idle *flags.Error
	chosen, running := false, false
	for _, p := range parts() {
		if !s.controllers.has(p) {
			continue
		}
		chosen = true
		why := s.idle(p)
		switch {
		case why == nil:
			running = true
		case slices.Contains(s.controllers.on, p.name):
			return refuse(why)
		case idle == nil || s.inEtcd():
			idle = why
		}
	}
	switch {
	case !chosen:
		return &flags.Error{Flag: g.From("controllers"), Value: g.Last("controllers"), Why: "turns every controller off", Fix: "leave it out, or name one of " + strings.Join(known(), ", ")}
	case !running:
		return refuse(idle)
	}
	return nil
}
