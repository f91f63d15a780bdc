package main

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/httpd"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/page"
)

// style is what this program's page adds to the shared style.
//
//go:embed style.css
var style page.Markup

const (
	// mostRows limits the rows of a list on the page.
	mostRows = 30
	// mostPictures limits the pictures of pools, one a family.
	mostPictures = 24
	// mostParts limits the parts of a picture.
	mostParts = 512
	// fewProblems is how many problems of one kind get a line each.
	fewProblems = 10
	// soon is how far ahead the page warns of a full pool.
	soon = 30 * 24 * time.Hour
)

// servePage serves the page for people.
func (p *process) servePage(w http.ResponseWriter, r *http.Request) {
	now := p.read(r.Context())
	within, cancel := context.WithTimeout(r.Context(), httpd.AnswerLimit)
	defer cancel()
	var layouts []ipam.Layout
	if !now.stuck && now.hasIPAM {
		known := make(chan []ipam.Layout, 1)
		if p.engine.Do(within, func() { known <- p.ipam.Layouts(now.at, mostPictures, mostParts) }) {
			layouts = <-known
		}
	}
	var d page.Document
	newView(now, layouts).write(&d)
	d.Serve(w, p.policy)
}

// view is the content of the page.
type view struct {
	page.Frame
	reading
	pools []poolCard
	facts []page.Section
}

func newView(r reading, layouts []ipam.Layout) view {
	v := view{reading: r, Frame: page.Frame{
		Program: "tulle-controller", Version: r.version, Title: page.Line(r.name, page.Longest), At: r.at, Started: r.started,
		Class: page.Good, Verdict: page.Line(capital(r.verdict()), page.Longest), Reasons: r.reasons(), All: "tulle-controller ipam", Style: style,
	}}
	for _, c := range r.checks() {
		v.Checks = append(v.Checks, page.Check{Name: c.Name, OK: c.OK, Text: page.Line(c.Text, page.Longest)})
	}
	switch {
	case r.stuck || !r.ready():
		v.Class = page.Bad
	case len(v.Reasons) > 0:
		v.Class = page.Warn
	}
	v.pools = r.poolCards(layouts)
	v.facts = []page.Section{r.replicaFacts(), r.nodeFacts(), r.writeFacts(), r.feedFacts()}
	if s, ok := r.routeFacts(); ok {
		v.facts = append(v.facts, s)
	}
	if r.services != nil {
		v.facts = append(v.facts, r.serviceFacts())
	}
	if r.networks != nil {
		v.facts = append(v.facts, r.networkFacts())
	}
	if r.clusters != nil {
		v.facts = append(v.facts, r.clusterFacts())
	}
	if r.life != nil {
		v.facts = append(v.facts, r.lifeFacts())
	}
	return v
}

// capital returns text with a capital letter at its beginning.
func capital(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// addSome adds the first few of these problems, and the text more if there are others.
func addSome(add func(class, what, text string), all []page.Reason, more page.Reason) {
	if len(all) > fewProblems {
		all = append(all[:fewProblems:fewProblems], more)
	}
	for _, p := range all {
		add(page.Warn, p.What, p.Text)
	}
}

// reasons returns everything that is wrong, the worst first.
func (r reading) reasons() (all []page.Reason) {
	add := func(class, what, text string) {
		all = append(all, page.Reason{Class: class, What: what, Text: page.Line(text, page.Longest)})
	}
	for _, c := range r.checks() {
		if !c.OK {
			add(page.Bad, c.Name, c.Text)
		}
	}
	for _, f := range r.state.Feeds {
		if f.Listed && f.Problem != "" {
			add(page.Warn, f.What, "not followed now: "+f.Problem)
		}
	}
	if r.elects && r.leader.Failing != nil {
		add(page.Warn, "leader election", r.leader.Failing.Error())
	}
	if until := r.state.Paused; !until.IsZero() {
		add(page.Warn, "writes", "paused for "+page.Span(until.Sub(r.at))+", because the API server fails or asks for it")
	}
	r.routeReasons(add)
	r.serviceReasons(add)
	r.networkReasons(add)
	var pools []page.Reason
	for _, p := range r.ipam.Problems {
		pools = append(pools, page.Reason{What: "pools", Text: cmp.Or(objectName(p.Object), p.Source) + ": " + p.Text})
	}
	addSome(add, pools, page.Reason{What: "pools", Text: page.Count(len(pools)-fewProblems, "more problem")})
	for _, u := range r.ipam.Pools {
		what := page.Line(u.Pool, 60) + ", " + u.Family.String()
		switch full := u.Forecast.Full; {
		case u.Draining > 0 || u.Total == u.Reserved:
		case u.Free+u.Resting == 0:
			add(page.Warn, "pool", what+": full")
		case !full.IsZero() && full.Sub(r.at) < soon:
			add(page.Warn, "pool", what+": will be full on "+full.UTC().Format(time.DateOnly)+" at its present growth")
		}
	}
	if all := r.findings(); len(all) > 0 {
		add(page.Warn, "Nodes", page.Count(len(all), "finding")+": "+byCode(all))
	}
	if r.life != nil && r.life.Held() > 0 {
		add(page.Warn, "Nodes", page.Count(r.life.Held(), "deletion")+" held back")
	}
	return all
}

// byCode counts findings by code, the most frequent first.
func byCode(findings []ipam.Finding) (text string) {
	n := make(map[ipam.Code]int)
	for _, f := range findings {
		n[f.Code]++
	}
	codes := slices.SortedFunc(maps.Keys(n), func(a, b ipam.Code) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), cmp.Compare(a, b))
	})
	for _, c := range codes {
		text += pick(text == "", "", ", ") + page.Grouped(n[c]) + " " + string(c)
	}
	return text
}

func (r reading) replicaFacts() page.Section {
	s := page.Section{Name: "This replica"}
	s.Add("mode", string(r.state.Mode))
	switch l := r.leader; {
	case !r.elects && r.state.Mode == controller.ObserveMode:
		s.Add("leader", "none: it only observes")
	case !r.elects:
		s.Add("leader", "this one; without an election")
	case l.Leader == "":
		s.Add("leader", pick(l.Known, "none", "not known yet"))
	default:
		s.Add("leader", pick(l.Leading, "this replica", l.Leader))
		s.AddTime("leading for", page.Since(r.at, l.Since))
		if l.Leading && !l.Renewed.IsZero() {
			s.AddTime("renewed", page.Past(r.at, l.Renewed))
		}
		s.Add("changes", strconv.FormatInt(l.Transitions, 10))
	}
	if r.elects {
		s.AddCode("identity", r.leader.Identity)
		if r.leader.Failing != nil {
			s.Class = page.Warn
		}
	}
	return s
}

func (r reading) nodeFacts() page.Section {
	s := page.Section{Name: "Nodes"}
	if r.stuck {
		s.Add("", "unknown")
		return s
	}
	s.Add("all", page.Grouped(r.nodesInAll()))
	if r.nodes != nil {
		s.Add("without an instance", page.Grouped(r.nodes.Waiting))
	}
	all := len(r.findings())
	if all > 0 {
		s.Class = page.Warn
	}
	if !r.hasIPAM {
		s.Add("findings", page.Grouped(all))
		return s
	}
	s.Add("without podCIDRs", page.Grouped(r.ipam.Waiting))
	s.Add("retrying", page.Grouped(r.ipam.Retrying))
	if r.ipam.Fences > 0 {
		s.Add("to fence", page.Grouped(r.ipam.Fences))
	}
	s.Add("findings", page.Grouped(all))
	return s
}

func (r reading) writeFacts() page.Section {
	s := page.Section{Name: "Writes"}
	if r.stuck {
		s.Add("", "unknown")
		return s
	}
	if r.state.Mode == controller.ObserveMode {
		s.Add("planned", page.Grouped(len(r.planned())))
		return s
	}
	s.Add("in flight", page.Grouped(r.state.InFlight))
	if !r.state.Paused.IsZero() {
		s.Class = page.Warn
		s.Add("paused", "until "+r.state.Paused.UTC().Format(time.TimeOnly)+" UTC")
	}
	n := make(map[controller.Outcome]int)
	for c, of := range r.state.Counts {
		n[c.Outcome] += of
	}
	for _, o := range controller.Outcomes() {
		s.Add(string(o), page.Grouped(n[o]))
	}
	if t := r.state.Took; t.Count > 0 {
		s.Add("mean duration", fmt.Sprintf("%.1f ms", t.Sum/float64(t.Count)*1000))
	}
	e := r.state.Events
	s.Add("events", fmt.Sprintf("%s sent, %s failed, %s suppressed", page.Grouped(e.Sent), page.Grouped(e.Failed), page.Grouped(e.Suppressed)))
	return s
}

func (r reading) feedFacts() page.Section {
	s := page.Section{Name: "What it reads"}
	for _, f := range r.state.Feeds {
		switch {
		case f.Problem != "":
			s.Class = page.Warn
			s.Add(f.What, pick(f.Listed, "listed, failing", "failing")+": "+f.Problem)
		case f.Listed && f.Revision == 0:
			s.Add(f.What, "looked up")
		case f.Listed:
			s.Add(f.What, "followed up to "+strconv.FormatInt(f.Revision, 10))
		default:
			s.Add(f.What, "not listed yet")
		}
	}
	return s
}

// planned returns the writes that the mode observe would make.
func (r reading) planned() (all []controller.Write) {
	for _, name := range slices.Sorted(maps.Keys(r.state.Planned)) {
		all = append(all, r.state.Planned[name]...)
	}
	return all
}
