package web

import (
	"cmp"
	"context"
	_ "embed"
	"net/http"
	"time"

	"github.com/tulle-net/tulle/pkg/page"
	"github.com/tulle-net/tulle/pkg/status"
)

// style is what the daemon's page has beside the shared style.
//
//go:embed style.css
var style page.Markup

const (
	pageLimit = 5 * time.Second // time limit of each of the daemon's answers
	// mostRows limits the rows of a list on the page.
	mostRows = 30
	fewRows  = 8  // kept free for each lesser trouble
	mostWell = 12 // limit of rows up to which peers without trouble are added, unless there are few peers
	mostList = 20
	mostName = 100
	// fewRejected is how many rejected leases get a line each.
	fewRejected = 3
)

// statusz serves the page for people.
func (s *site) statusz(w http.ResponseWriter, r *http.Request) {
	var d page.Document
	s.view(r.Context()).write(&d)
	d.Serve(w, s.policy)
}

// view is the content of the page.
type view struct {
	page.Frame
	ID    string
	Facts []page.Section

	Known   bool // the peers are known
	Counts  [conditions]tally
	Picture picture
	Rows    []peerRow
	Left    string
	Slowest bool // the slowest come first among peers without trouble
	Trouble bool // some peer has a problem
}

// tally is the number of peers in a condition.
type tally struct {
	Condition condition
	N         int
}

func (s *site) view(ctx context.Context) view {
	r := read(ctx, s.Source, pageLimit)
	// If the loop did not answer once, do not ask again.
	var peers []status.Peer
	known := r.Stuck == ""
	if known {
		within, cancel := context.WithTimeout(ctx, pageLimit)
		defer cancel()
		var err error
		peers, err = s.Peers(within)
		known = err == nil
	}
	return r.view(s.program, peers, known)
}

// view returns the page of a program's daemon. Without known, the daemon has not
// returned its peers.
func (r reading) view(program string, peers []status.Peer, known bool) view {
	v := view{ID: page.Line(r.NodeID, mostName), Known: known, Frame: page.Frame{
		Program: program, Version: page.Line(r.Version, page.Longest), Title: page.Line(cmp.Or(r.Name, r.NodeID), mostName),
		At: r.at, Started: r.Started, Class: page.Good, Verdict: "Ready",
		Reasons: r.reasons(), All: program + " status", Checks: r.checks(), Style: style,
	}}
	switch {
	case r.Stuck != "":
		v.Class, v.Verdict = page.Bad, "The daemon's main loop does not answer"
	case !r.Ready:
		v.Class, v.Verdict = page.Bad, "Not ready"
	case len(v.Reasons) > 0:
		v.Class, v.Verdict = page.Warn, "Ready, with problems"
	}
	v.Facts = r.facts()
	for i := range v.Counts {
		v.Counts[i].Condition = condition(i)
	}
	for _, p := range peers {
		v.Counts[conditionOf(p)].N++
	}
	if known {
		v.Picture = draw(peers, v.Class, page.Line(v.Title, 14))
		v.Rows, v.Left = r.rows(peers)
		v.Slowest = v.Left != "" && r.Probes != nil
		v.Trouble = v.Counts[wellPeer].N < len(peers)
	}
	return v
}

// reasons returns everything that is wrong, the worst first.
func (r reading) reasons() (all []page.Reason) {
	add := func(class, what, text string) {
		all = append(all, page.Reason{Class: class, What: what, Text: page.Line(text, page.Longest)})
	}
	for _, c := range r.Checks {
		for _, why := range (status.Checks{c}).Missing() {
			add("bad", c.Name, why)
		}
	}
	if r.Remembered != nil {
		add("warn", "store", "unreachable; using the network as saved at "+r.Remembered.UTC().Format(time.RFC3339))
	}
	for _, f := range r.Store.Failing {
		add("warn", "store", f.What+": "+f.Why)
	}
	if c := r.Clone; c != nil {
		add("warn", "clone", c.String())
	}
	if n := r.Peers.Unroutable; n > 0 {
		add("warn", "peers", page.Count(n, "peer")+" unroutable in at least one family")
	}
	for _, text := range r.probeTroubles() {
		add("warn", "probes", text)
	}
	if n, first := r.refused(); n > 0 {
		add("warn", "kernel", "refuses "+page.Count(n, "object")+", first "+first.What+" of "+first.Owner+" "+page.For(r.at, first.Since)+": "+first.Why)
	}
	for i, f := range r.Fights {
		if i == fewRejected && len(r.Fights) > i+1 {
			add("warn", "fights", page.Count(len(r.Fights)-i, "more thing")+" that another program keeps changing")
			break
		}
		add("warn", "fight", f.What+", "+page.For(r.at, f.Since)+": "+f.Why())
	}
	if r.holds("kernel") { // otherwise the check lists them
		for _, p := range r.Kernel.Problems {
			add("warn", "kernel", p)
		}
	}
	shown := r.Rejected
	if r.RejectedCount > fewRejected+1 {
		shown = shown[:min(len(shown), fewRejected)]
	}
	for _, p := range shown {
		add("warn", "lease", page.Line(p.Key, 60)+" rejected: "+p.Why)
	}
	if more := r.RejectedCount - len(shown); more > 0 {
		add("warn", "leases", page.Count(more, "more lease")+" rejected")
	}
	return all
}

// refused returns the number of objects that the kernel refuses, without those of the
// node itself, and the first of them.
func (r reading) refused() (n int, first status.Failing) {
	for _, f := range r.Kernel.Failing {
		if f.Owner != "host" {
			if n == 0 {
				first = f
			}
			n++
		}
	}
	return n, first
}

// since returns how long a reason has held, to follow the reason.
func (r reading) since(t *time.Time) string {
	if t == nil {
		return ""
	}
	return page.For(r.at, *t)
}
