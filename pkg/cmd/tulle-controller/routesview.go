package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/page"
)

// routesAnswer is the route tables as the cloud and as the cluster see them.
type routesAnswer struct {
	Nodes    int            `json:"nodes"`
	Routed   int            `json:"routed"`
	Ledger   int            `json:"ledger"`
	Tables   []tableAnswer  `json:"tables"`
	Routes   []routeAnswer  `json:"routes"`
	Problems []string       `json:"problems"`
	Findings []routeFinding `json:"findings"`
}

type tableAnswer struct {
	Table   string `json:"table"`
	Name    string `json:"name"`
	Family  string `json:"family"`
	Used    int    `json:"used"`
	Most    int    `json:"most"`
	Assumed string `json:"assumed,omitempty"`
	Waiting int    `json:"waiting"`
}

type routeAnswer struct {
	Table       string `json:"table"`
	Destination string `json:"destination"`
	Target      string `json:"target,omitempty"`
	Node        string `json:"node,omitempty"`
	Code        string `json:"code"`
	Ours        bool   `json:"ours"`
	Text        string `json:"text"`
}

type routeFinding struct {
	Node string `json:"node"`
	Code string `json:"code"`
	Text string `json:"text"`
}

func newTableAnswers(r route.Report) []tableAnswer {
	all := []tableAnswer{}
	for _, u := range r.Tables {
		all = append(all, tableAnswer{u.Table, u.Name, u.Family.String(), u.Used, u.Most, u.Assumed, u.Waiting})
	}
	return all
}

func newRoutesAnswer(r route.Report) routesAnswer {
	a := routesAnswer{
		Nodes: r.Nodes, Routed: r.Counts[cloudroute.Routed], Ledger: r.Ledger, Tables: newTableAnswers(r),
		Routes: []routeAnswer{}, Problems: []string{}, Findings: []routeFinding{},
	}
	for _, v := range r.Routes {
		a.Routes = append(a.Routes, routeAnswer{v.Table, v.Destination, v.Target, v.Node, string(v.Code), v.Ours, v.Text})
	}
	a.Problems = append(a.Problems, r.Problems...)
	for _, f := range r.Findings {
		a.Findings = append(a.Findings, routeFinding{f.Node, string(f.Code), f.Text})
	}
	return a
}

// routes shows the route tables as the cloud and as the cluster see them.
func (s settings) routes(out io.Writer) error {
	return s.read(func(ctx context.Context, p *process) error {
		if err := p.engine.Await(ctx); err != nil {
			return err
		}
		var r route.Report
		if !p.engine.Do(ctx, func() { r = p.routes.Report() }) {
			return ctx.Err()
		}
		a := newRoutesAnswer(r)
		return answer.Write(s.output, out, "routes", a, func() error { return a.write(out) })
	})
}

func (a routesAnswer) write(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TABLE\tDESTINATION\tTARGET\tNODE\tSTATE\tOURS")
	for _, r := range a.Routes {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", r.Table, r.Destination, cmp.Or(r.Target, "–"), cmp.Or(r.Node, "–"), r.Code, pick(r.Ours, "yes", "no"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, u := range a.Tables {
		fmt.Fprintln(out, u)
	}
	fmt.Fprintf(out, "%d of %d Nodes are routed; the ledger has %d destinations\n", a.Routed, a.Nodes, a.Ledger)
	for _, p := range a.Problems {
		fmt.Fprintln(out, p)
	}
	for _, f := range a.Findings {
		fmt.Fprintf(out, "%s: %s\n", f.Node, f.Text)
	}
	return nil
}

// String describes how full a table is.
func (u tableAnswer) String() string {
	text := fmt.Sprintf("%s, %s: %s", u.Table, u.Family, cloudroute.Usage{Used: u.Used, Most: u.Most, Waiting: u.Waiting})
	if u.Assumed != "" {
		text += " (" + u.Assumed + ")"
	}
	return text
}

// routeReasons returns what is wrong with routes.
func (r reading) routeReasons(add func(class, what, text string)) {
	if r.routes == nil {
		return
	}
	for _, p := range r.routes.Problems {
		add(page.Warn, "ledger", p)
	}
	for _, u := range r.routes.Tables {
		switch {
		case u.Waiting > 0:
			add(page.Warn, "routes", page.Line(u.Table, 60)+": "+u.String())
		case u.Most > 0 && u.Used*10 >= u.Most*9:
			add(page.Warn, "routes", page.Line(u.Table, 60)+" is almost full: "+u.String())
		}
	}
	if n := len(r.routes.Findings); n > 0 {
		add(page.Warn, "routes", page.Count(n, "Node")+" without all routes; the first is "+r.routes.Findings[0].Node+": "+r.routes.Findings[0].Text)
	}
}

// routeFacts returns how many Nodes are routed, and how full each table is.
func (r reading) routeFacts() (s page.Section, ok bool) {
	s = page.Section{Name: "Routes"}
	if r.routes == nil {
		return s, false
	}
	s.Add("Nodes routed", page.Grouped(r.routes.Counts[cloudroute.Routed])+" of "+page.Grouped(r.routes.Nodes))
	s.Add("in the ledger", page.Grouped(r.routes.Ledger))
	if !r.routes.Read.IsZero() {
		s.AddTime("tables read", page.Past(r.at, r.routes.Read))
	}
	for i, u := range r.routes.Tables {
		if i == mostRows {
			s.Add("", page.Count(len(r.routes.Tables)-i, "more table"))
			break
		}
		s.Add(page.Line(u.Table, 60)+", "+u.Family.String(), u.String())
	}
	if len(r.routes.Findings) > 0 {
		s.Class = page.Warn
	}
	return s, true
}

// writeRoutes writes the routes that need attention, and then the others.
func (v view) writeRoutes(d *page.Document) {
	if v.reading.routes == nil || len(v.reading.routes.Routes) == 0 {
		return
	}
	all := make([]cloudroute.Row, 0, len(v.reading.routes.Routes))
	for _, first := range []bool{true, false} {
		for _, r := range v.reading.routes.Routes {
			if (r.Code != cloudroute.Routed && r.Code != cloudroute.Foreign) == first {
				all = append(all, r)
			}
		}
	}
	d.Add(`<section class="card list" id="routes">
<h2>Routes in the cloud's tables</h2>
<table>
<thead><tr><th>Table</th><th>Destination</th><th>Leads to</th><th>Node</th><th>State</th></tr></thead>
<tbody>
`)
	for _, r := range all[:min(mostRows, len(all))] {
		d.Add(`<tr><td><code>{}</code></td><td><code>{}</code></td><td><bdi>{}</bdi></td><td class="node"><bdi>{}</bdi></td><td class="text"><code>{}</code> <bdi>{}</bdi></td></tr>`+"\n",
			page.Line(r.Table, 60), page.Line(r.Destination, 60), page.Line(cmp.Or(r.Target, "–"), 60), page.Line(cmp.Or(r.Node, "–"), page.Longest), string(r.Code),
			page.Line(pick(r.Code == cloudroute.Routed, pick(r.Ours, "ours", "of others"), r.Text), page.Longest))
	}
	d.Add("</tbody>\n</table>\n")
	writeMore(d, len(all), "tulle-controller routes")
	d.Add("</section>\n")
}
