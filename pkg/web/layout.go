package web

import "strconv"

// write writes the page.
func (v view) write(d *document) {
	d.add(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}: {} – tulle</title>
<link rel="icon" href="{}">
<style>`, v.Title, v.Verdict, icon(v.Class))
	d.add(style)
	d.add(`</style>
</head>
<body>
`)
	v.writeHead(d)
	d.add("<main>\n")
	v.writeReasons(d)
	v.writeChecks(d)
	d.add(`<div class="columns">
<section class="card network">
<h2>Peers as this node sees them</h2>
`)
	if v.Known {
		v.writePicture(d)
	} else {
		d.add("<p>Unknown: the daemon's main loop does not answer.</p>\n")
	}
	d.add("</section>\n")
	v.writeFacts(d)
	d.add("</div>\n")
	if v.Known {
		v.writeRows(d)
	}
	d.add(`</main>
<footer><code>{}</code> · <a href="/readyz?verbose">/readyz?verbose</a> · <a href="/metrics">/metrics</a> · <code>tulled status</code> and <code>tulled explain IP</code> on the host show more</footer>
</body>
</html>
`, v.ID)
}

func (v view) writeHead(d *document) {
	d.add(`<header class="{}">
<p class="mark" aria-hidden="true"><svg viewBox="0 0 24 24">`, v.Class)
	d.add(mark(v.Class))
	d.add(`</svg></p>
<div>
<h1>{}</h1>
<p class="who"><bdi>{}</bdi> · tulled {}, started `, v.Verdict, v.Title, v.Version)
	v.Started.write(d)
	d.add(`</p>
</div>
<p class="as-of">as of {} <a href="/statusz">Reload</a></p>
</header>
`, v.At)
}

func (v view) writeReasons(d *document) {
	if len(v.Reasons) == 0 {
		return
	}
	d.add(`<section class="reasons" aria-label="What is wrong">
<ul>`)
	for _, r := range v.Reasons {
		d.add("\n"+`<li class="{}"><b>{}</b> <bdi>{}</bdi></li>`, r.Class, r.What, r.Text)
	}
	if v.MoreReasons > 0 {
		d.add("\n"+`<li class="more">and {} more; <code>tulled status</code> lists all</li>`, grouped(v.MoreReasons))
	}
	d.add("\n</ul>\n</section>\n")
}

func (v view) writeChecks(d *document) {
	d.add(`<ul class="checks" aria-label="Checks">`)
	for _, c := range v.Checks {
		class := pick(c.OK, "good", "bad")
		d.add("\n"+`<li class="{}" title="{}"><svg viewBox="0 0 24 24" aria-hidden="true">`, class, c.Text)
		d.add(mark(class))
		d.add(`</svg>{}`, c.Name)
		if !c.OK {
			d.add(` <span class="only">fails</span>`)
		}
		d.add("</li>")
	}
	d.add("\n</ul>\n")
}

func (v view) writePicture(d *document) {
	v.Picture.write(d)
	d.add(`<ul class="legend">`)
	for _, c := range v.Counts {
		d.add("\n"+`<li class="{}"><svg viewBox="-8 -8 16 16" aria-hidden="true">`, c.Condition.Class()+pick(c.N == 0, " none", ""))
		shape(d, c.Condition.Class())
		d.add(`</svg><b>{}</b> {}</li>`, grouped(c.N), c.Condition.String())
	}
	d.add("\n</ul>\n")
	if len(v.Picture.Shades) > 0 {
		d.add(`<ul class="legend shades"><li>round trip</li>`)
		for _, s := range v.Picture.Shades {
			d.add("\n" + `<li><svg viewBox="-8 -8 16 16" aria-hidden="true">`)
			if v.Picture.Each > 0 {
				d.add(`<rect class="cells {}" x="-6" y="-6" width="12" height="12"/>`, s.Class())
			} else {
				shape(d, s.Class())
			}
			d.add(`</svg>{}</li>`, s.String())
		}
		d.add("\n</ul>\n")
	}
	if v.Picture.Mixed {
		d.add(`<p class="hint">Dashed lines go through the tunnel, solid ones directly.</p>` + "\n")
	}
	if n := v.Picture.Each; n > 0 {
		d.add(`<p class="hint">Each cell is {}, in the order of subnets; the fill shows how many have problems{}.</p>`+"\n",
			pick(n > 1, strconv.Itoa(n)+" peers", "a peer"), pick(len(v.Picture.Shades) > 0, ", the shade the longest round trip of the others", ""))
	}
	if v.Trouble {
		d.add(`<p class="hint"><a href="#peers">Peers with problems</a></p>` + "\n")
	}
}

func (p picture) write(d *document) {
	d.add(`<svg class="map" viewBox="0 0 {} {}" role="img" aria-label="{}">`+"\n", strconv.Itoa(p.Side), strconv.Itoa(p.Side), p.Summary)
	for _, s := range p.Spokes {
		d.add(`<line class="{}" x1="180" y1="180" x2="{}" y2="{}"/>`, s.Class, s.X, s.Y)
	}
	for s, path := range p.Well {
		if path != "" {
			d.add(`<path class="cells s{}" d="{}"/>`, pick(len(p.Shades) > 0, strconv.Itoa(s), "1"), path)
		}
	}
	for _, b := range p.Cells {
		d.add(`<rect class="{}" x="{}" y="{}" width="15.1" height="{}"><title>{}</title></rect>`, b.Class(), b.X, b.Y, b.Height, b.Title)
	}
	for _, c := range p.Parts {
		if c.Path != "" {
			d.add(`<path class="cells {}" d="{}"/>`, c.Condition.Class(), c.Path)
		}
	}
	d.add("\n")
	for _, at := range p.Dots {
		at.write(d)
	}
	d.add(`<g class="self {}"><circle cx="180" cy="176" r="17"/><text class="t" x="180" y="180">tulle</text><text x="180" y="208">{}</text></g>
</svg>
`, p.Class, p.Name)
}

func (at dot) write(d *document) {
	if at.Took != "" {
		d.add(`<text class="took" x="{}" y="{}">{}</text>`, at.TookX, at.TookY, at.Took)
	}
	d.add(`<g transform="translate({} {})"><title>{}</title>`, at.X, at.Y, at.Title)
	shape(d, at.Class)
	d.add("</g>")
	if at.Label != "" {
		d.add(`<text class="label" x="{}" y="{}">{}</text>`, at.X, at.LabelY, at.Label)
	}
	d.add("\n")
}

func (v view) writeFacts(d *document) {
	d.add(`<div class="facts">`)
	for _, s := range v.Facts {
		d.add("\n"+`<section class="card {}">
<h2>{}</h2>
<dl>`, s.Class, s.Name)
		for _, f := range s.Lines {
			d.add("\n<div>")
			if f.Name != "" {
				d.add("<dt>{}</dt>", f.Name)
			}
			d.add("<dd>")
			switch {
			case f.Time != nil:
				f.Time.write(d)
			case f.Code:
				d.add("<code>{}</code>", f.Text)
			default:
				d.add("{}", f.Text)
			}
			d.add("</dd></div>")
		}
		d.add("\n</dl>\n</section>")
	}
	d.add("\n</div>\n")
}

func (v view) writeRows(d *document) {
	d.add(`<section class="card peers" id="peers">
<h2>Peers{}{}</h2>
`, pick(len(v.Rows) > 0, ", problems first", ""), pick(len(v.Rows) > 0 && v.Slowest, ", then the slowest", ""))
	if len(v.Rows) == 0 {
		d.add("<p>None.</p>\n</section>\n")
		return
	}
	d.add(`<table>
<thead><tr><th>State</th><th>Node</th><th>Subnets</th><th>Addresses</th><th>Path</th><th class="took">Round trip</th></tr></thead>
`)
	for _, r := range v.Rows {
		r.write(d)
	}
	d.add("</table>\n")
	if v.Left != "" {
		d.add(`<p class="hint">Left out: {}. <code>tulled peers</code> lists all.</p>`+"\n", v.Left)
	}
	d.add("</section>\n")
}

func (r peerRow) write(d *document) {
	d.add(`<tbody class="{}">
<tr><td class="state"><svg viewBox="-8 -8 16 16" aria-hidden="true">`, r.Class)
	shape(d, r.Class)
	d.add(`</svg>{}</td><td class="node"><bdi>{}</bdi></td><td class="subnets"><code>{}</code></td><td class="addresses"><code>{}</code></td>`, r.State, r.Name, r.Subnets, r.Address)
	d.add(`<td class="way">{}</td><td class="took" title="{}">{}</td></tr>`+"\n", r.By, r.Tried, r.RoundTrip)
	for _, w := range r.Whys {
		d.add(`<tr class="why"><td colspan="6"><bdi>{}</bdi> <span class="since">{}</span></td></tr>`+"\n", w.Text, w.Since)
	}
	d.add("</tbody>\n")
}

func (m moments) write(d *document) {
	d.add(`<time datetime="{}" title="{}">{}</time>`, m.Exact, m.Exact, m.Ago)
}

// mark returns the drawing for a verdict, in a square of 24.
func mark(class string) markup {
	switch class {
	case "good":
		return `<circle class="fill" cx="12" cy="12" r="11"/><path class="stroke" d="M7 12.5l3.5 3.5L17 9"/>`
	case "warn":
		return `<path class="fill" d="M12 1.5L23.5 22H.5z"/><path class="stroke" d="M12 9v6M12 18v.6"/>`
	}
	return `<rect class="fill" x="1.5" y="1.5" width="21" height="21" rx="3"/><path class="stroke" d="M7.5 7.5l9 9M16.5 7.5l-9 9"/>`
}

// shape draws a peer's symbol around the origin. Each class has a shape, so that
// colour alone distinguishes none.
func shape(d *document, class string) {
	switch class {
	case "bad":
		d.add(`<path class="bad" d="M-5 -5L5 5M5 -5L-5 5"/>`)
	case "fail":
		d.add(`<path class="fail" d="M0 -7L7 0L0 7L-7 0z"/>`)
	case "warn":
		d.add(`<path class="warn" d="M0 -6.5L7 5.5H-7z"/>`)
	default:
		d.add(`<circle class="{}" r="5"/>`, class)
	}
}
