package web

import (
	"strconv"

	"github.com/tulle-net/tulle/pkg/page"
)

// write writes the page.
func (v view) write(d *page.Document) {
	v.Frame.Write(d, v.writeBody, func(d *page.Document) {
		d.Add(`<code>{}</code> · <a href="/readyz?verbose">/readyz?verbose</a> · <a href="/metrics">/metrics</a> · <code>{} status</code> and <code>{} explain IP</code> on the host show more`,
			v.ID, v.Program, v.Program)
	})
}

func (v view) writeBody(d *page.Document) {
	d.Add(`<div class="columns">
<section class="card network">
<h2>Peers as this node sees them</h2>
`)
	if v.Known {
		v.writePicture(d)
	} else {
		d.Add("<p>Unknown: the daemon's main loop does not answer.</p>\n")
	}
	d.Add("</section>\n")
	d.WriteSections(v.Facts)
	d.Add("</div>\n")
	if v.Known {
		v.writeRows(d)
	}
}

func (v view) writePicture(d *page.Document) {
	v.Picture.write(d)
	d.Add(`<ul class="legend">`)
	for _, c := range v.Counts {
		d.Add("\n"+`<li class="{}"><svg viewBox="-8 -8 16 16" aria-hidden="true">`, c.Condition.Class()+pick(c.N == 0, " none", ""))
		shape(d, c.Condition.Class())
		d.Add(`</svg><b>{}</b> {}</li>`, page.Grouped(c.N), c.Condition.String())
	}
	d.Add("\n</ul>\n")
	if len(v.Picture.Shades) > 0 {
		d.Add(`<ul class="legend shades"><li>round trip</li>`)
		for _, s := range v.Picture.Shades {
			d.Add("\n" + `<li><svg viewBox="-8 -8 16 16" aria-hidden="true">`)
			if v.Picture.Each > 0 {
				d.Add(`<rect class="cells {}" x="-6" y="-6" width="12" height="12"/>`, s.Class())
			} else {
				shape(d, s.Class())
			}
			d.Add(`</svg>{}</li>`, s.String())
		}
		d.Add("\n</ul>\n")
	}
	if v.Picture.Mixed {
		d.Add(`<p class="hint">Dashed lines go through the tunnel, solid ones directly.</p>` + "\n")
	}
	if n := v.Picture.Each; n > 0 {
		d.Add(`<p class="hint">Each cell is {}, in the order of subnets; the fill shows how many have problems{}.</p>`+"\n",
			pick(n > 1, strconv.Itoa(n)+" peers", "a peer"), pick(len(v.Picture.Shades) > 0, ", the shade the longest round trip of the others", ""))
	}
	if v.Trouble {
		d.Add(`<p class="hint"><a href="#peers">Peers with problems</a></p>` + "\n")
	}
}

func (p picture) write(d *page.Document) {
	d.Add(`<svg class="map" viewBox="0 0 {} {}" role="img" aria-label="{}">`+"\n", strconv.Itoa(p.Side), strconv.Itoa(p.Side), p.Summary)
	for _, s := range p.Spokes {
		d.Add(`<line class="{}" x1="180" y1="180" x2="{}" y2="{}"/>`, s.Class, s.X, s.Y)
	}
	for s, path := range p.Well {
		if path != "" {
			d.Add(`<path class="cells s{}" d="{}"/>`, pick(len(p.Shades) > 0, strconv.Itoa(s), "1"), path)
		}
	}
	for _, b := range p.Cells {
		d.Add(`<rect class="{}" x="{}" y="{}" width="15.1" height="{}"><title>{}</title></rect>`, b.Class(), b.X, b.Y, b.Height, b.Title)
	}
	for _, c := range p.Parts {
		if c.Path != "" {
			d.Add(`<path class="cells {}" d="{}"/>`, c.Condition.Class(), c.Path)
		}
	}
	d.Add("\n")
	for _, at := range p.Dots {
		at.write(d)
	}
	d.Add(`<g class="self {}"><circle cx="180" cy="176" r="17"/><text class="t" x="180" y="180">tulle</text><text x="180" y="208">{}</text></g>
</svg>
`, p.Class, p.Name)
}

func (at dot) write(d *page.Document) {
	if at.Took != "" {
		d.Add(`<text class="took" x="{}" y="{}">{}</text>`, at.TookX, at.TookY, at.Took)
	}
	d.Add(`<g transform="translate({} {})"><title>{}</title>`, at.X, at.Y, at.Title)
	shape(d, at.Class)
	d.Add("</g>")
	if at.Label != "" {
		d.Add(`<text class="label" x="{}" y="{}">{}</text>`, at.X, at.LabelY, at.Label)
	}
	d.Add("\n")
}

func (v view) writeRows(d *page.Document) {
	d.Add(`<section class="card peers" id="peers">
<h2>Peers{}{}</h2>
`, pick(len(v.Rows) > 0, ", problems first", ""), pick(len(v.Rows) > 0 && v.Slowest, ", then the slowest", ""))
	if len(v.Rows) == 0 {
		d.Add("<p>None.</p>\n</section>\n")
		return
	}
	d.Add(`<table>
<thead><tr><th>State</th><th>Node</th><th>Subnets</th><th>Addresses</th><th>Path</th><th class="took">Round trip</th></tr></thead>
`)
	for _, r := range v.Rows {
		r.write(d)
	}
	d.Add("</table>\n")
	if v.Left != "" {
		d.Add(`<p class="hint">Left out: {}. <code>{} peers</code> lists all.</p>`+"\n", v.Left, v.Program)
	}
	d.Add("</section>\n")
}

func (r peerRow) write(d *page.Document) {
	d.Add(`<tbody class="{}">
<tr><td class="state"><svg viewBox="-8 -8 16 16" aria-hidden="true">`, r.Class)
	shape(d, r.Class)
	d.Add(`</svg>{}</td><td class="node"><bdi>{}</bdi></td><td class="subnets"><code>{}</code></td><td class="addresses"><code>{}</code></td>`, r.State, r.Name, r.Subnets, r.Address)
	d.Add(`<td class="way">{}</td><td class="took" title="{}">{}</td></tr>`+"\n", r.By, r.Tried, r.RoundTrip)
	for _, w := range r.Whys {
		d.Add(`<tr class="why"><td colspan="6"><bdi>{}</bdi> <span class="since">{}</span></td></tr>`+"\n", w.Text, w.Since)
	}
	d.Add("</tbody>\n")
}

// shape draws a peer's symbol around the origin. Each class has a shape, so that
// colour alone distinguishes none.
func shape(d *page.Document, class string) {
	switch class {
	case "bad":
		d.Add(`<path class="bad" d="M-5 -5L5 5M5 -5L-5 5"/>`)
	case "fail":
		d.Add(`<path class="fail" d="M0 -7L7 0L0 7L-7 0z"/>`)
	case "warn":
		d.Add(`<path class="warn" d="M0 -6.5L7 5.5H-7z"/>`)
	default:
		d.Add(`<circle class="{}" r="5"/>`, class)
	}
}
