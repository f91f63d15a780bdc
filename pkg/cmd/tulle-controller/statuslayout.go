package main

import (
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/page"
)

// write writes the page.
func (v view) write(d *page.Document) {
	v.Frame.Write(d, v.writeBody, func(d *page.Document) {
		d.Add(`<a href="/readyz?verbose">/readyz?verbose</a> · <a href="/metrics">/metrics</a> · <a href="/configz">/configz</a> · <code>tulle-controller ipam</code> and <code>tulle-controller plan</code> show more`)
	})
}

func (v view) writeBody(d *page.Document) {
	v.writePools(d)
	d.WriteSections(v.facts)
	if v.stuck {
		return
	}
	v.writeGone(d)
	v.writeNetworks(d)
	v.writeFindings(d)
	v.writeRoutes(d)
	if v.state.Mode == controller.ObserveMode {
		v.writePlanned(d)
	} else {
		v.writeRecent(d)
	}
}

// writeMore writes how many rows of a list are left out, and which command lists them.
func writeMore(d *page.Document, all int, command string) {
	if all > mostRows {
		d.Add(`<p class="hint">and {} more; <code>{}</code> lists all</p>`+"\n", page.Grouped(all-mostRows), command)
	}
}

func (v view) writeFindings(d *page.Document) {
	all := v.findings()
	if len(all) == 0 {
		return
	}
	d.Add(`<section class="card list" id="findings">
<h2>Findings on Nodes</h2>
<table>
<thead><tr><th>Node</th><th>Code</th><th>What is wrong</th></tr></thead>
<tbody>
`)
	for _, f := range all[:min(mostRows, len(all))] {
		d.Add(`<tr><td class="node"><bdi>{}</bdi></td><td><code>{}</code></td><td class="text"><bdi>{}</bdi></td></tr>`+"\n",
			page.Line(f.Node, page.Longest), string(f.Code), page.Line(f.Text, page.Longest))
	}
	d.Add("</tbody>\n</table>\n")
	writeMore(d, len(all), "tulle-controller ipam")
	d.Add("</section>\n")
}

func (v view) writePlanned(d *page.Document) {
	d.Add(`<section class="card list" id="planned">
<h2>Writes that would be made</h2>
`)
	all := v.planned()
	if len(all) == 0 {
		d.Add("<p>None.</p>\n</section>\n")
		return
	}
	d.Add(`<table>
<thead><tr><th>Object</th><th>Verb</th><th>Change</th></tr></thead>
<tbody>
`)
	for _, w := range all[:min(mostRows, len(all))] {
		d.Add(`<tr><td class="node"><bdi>{}</bdi></td><td>{}</td><td class="text"><bdi>{}</bdi></td></tr>`+"\n",
			page.Line(w.Object.String(), page.Longest), w.Verb, page.Line(w.Summary, page.Longest))
	}
	d.Add("</tbody>\n</table>\n")
	writeMore(d, len(all), "tulle-controller plan")
	d.Add("</section>\n")
}

func (v view) writeRecent(d *page.Document) {
	all := v.state.Recent
	if len(all) == 0 {
		return
	}
	d.Add(`<section class="card list" id="recent">
<h2>Last writes</h2>
<table>
<thead><tr><th>Time</th><th>Object</th><th>Change</th><th>Outcome</th></tr></thead>
<tbody>
`)
	for i := len(all) - 1; i >= 0; i-- {
		m := all[i]
		d.Add(`<tr class="{}"><td class="at">{}</td><td class="node"><bdi>{}</bdi></td><td class="text"><bdi>{}</bdi></td><td class="outcome">{}`,
			string(m.Outcome), m.At.UTC().Format(time.TimeOnly), page.Line(m.Object, page.Longest), page.Line(m.Change, page.Longest), string(m.Outcome))
		if m.Why != "" {
			d.Add(`: <bdi>{}</bdi>`, page.Line(m.Why, page.Longest))
		}
		d.Add("</td></tr>\n")
	}
	d.Add("</tbody>\n</table>\n</section>\n")
}
