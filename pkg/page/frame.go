package page

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"net/http"
	"strconv"
	"time"
)

// style is what all pages look like.
//
//go:embed style.css
var style Markup

// mostReasons limits the reasons that a page shows.
const mostReasons = 20

// Frame is what every page has around its body. Its texts are shown as they are: pass
// those from elsewhere through Line.
type Frame struct {
	Program, Version string
	// Title is what the page is about: a node, or a replica.
	Title string
	At    time.Time
	// Started is when the program started.
	Started time.Time
	// Class and Verdict are the program's state: a class of the style sheet, and a line.
	Class, Verdict string
	// Reasons are what is wrong, the worst first. All shows all of them.
	Reasons []Reason
	All     string // a command line
	Checks  []Check
	// Style is what only this program's pages look like.
	Style Markup
}

// Write writes a page. body and foot write what lies in it.
func (f Frame) Write(d *Document, body, foot func(*Document)) {
	d.Add(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{}: {} – tulle</title>
<link rel="icon" href="{}">
<style>`, f.Title, f.Verdict, icon(f.Class))
	d.Add(style + f.Style)
	d.Add(`</style>
</head>
<body>
`)
	f.writeHead(d)
	d.Add("<main>\n")
	f.writeReasons(d)
	f.writeChecks(d)
	body(d)
	d.Add("</main>\n<footer>")
	foot(d)
	d.Add("</footer>\n</body>\n</html>\n")
}

func (f Frame) writeHead(d *Document) {
	d.Add(`<header class="{}">
<p class="mark" aria-hidden="true"><svg viewBox="0 0 24 24">`, f.Class)
	d.Add(mark(f.Class))
	d.Add(`</svg></p>
<div>
<h1>{}</h1>
<p class="who"><bdi>{}</bdi> · {} {}, started `, f.Verdict, f.Title, f.Program, f.Version)
	d.WriteMoment(Past(f.At, f.Started))
	d.Add(`</p>
</div>
<p class="as-of">as of {} <a href="/statusz">Reload</a></p>
</header>
`, f.At.UTC().Format("2006-01-02 15:04:05 UTC"))
}

func (f Frame) writeReasons(d *Document) {
	if len(f.Reasons) == 0 {
		return
	}
	d.Add(`<section class="reasons" aria-label="What is wrong">
<ul>`)
	for _, r := range f.Reasons[:min(mostReasons, len(f.Reasons))] {
		d.Add("\n"+`<li class="{}"><b>{}</b> <bdi>{}</bdi></li>`, r.Class, r.What, r.Text)
	}
	if more := len(f.Reasons) - mostReasons; more > 0 {
		d.Add("\n"+`<li class="more">and {} more; <code>{}</code> lists all</li>`, Grouped(more), f.All)
	}
	d.Add("\n</ul>\n</section>\n")
}

func (f Frame) writeChecks(d *Document) {
	d.Add(`<ul class="checks" aria-label="Checks">`)
	for _, c := range f.Checks {
		class := Good
		if !c.OK {
			class = Bad
		}
		d.Add("\n"+`<li class="{}" title="{}"><svg viewBox="0 0 24 24" aria-hidden="true">`, class, c.Text)
		d.Add(mark(class))
		d.Add(`</svg>{}`, c.Name)
		if !c.OK {
			d.Add(` <span class="only">fails</span>`)
		}
		d.Add("</li>")
	}
	d.Add("\n</ul>\n")
}

// mark returns the drawing for a verdict, in a square of 24.
func mark(class string) Markup {
	switch class {
	case Good:
		return `<circle class="fill" cx="12" cy="12" r="11"/><path class="stroke" d="M7 12.5l3.5 3.5L17 9"/>`
	case Warn:
		return `<path class="fill" d="M12 1.5L23.5 22H.5z"/><path class="stroke" d="M12 9v6M12 18v.6"/>`
	}
	return `<rect class="fill" x="1.5" y="1.5" width="21" height="21" rx="3"/><path class="stroke" d="M7.5 7.5l9 9M16.5 7.5l-9 9"/>`
}

// icon returns the page's icon as a URL. It contains no text from elsewhere.
func icon(class string) string {
	colour := map[string]string{Good: "2da44e", Warn: "d29922", Bad: "cf222e"}[class]
	return "data:image/svg+xml,%3Csvg%20xmlns=%27http://www.w3.org/2000/svg%27%20viewBox=%270%200%208%208%27%3E%3Ccircle%20cx=%274%27%20cy=%274%27%20r=%274%27%20fill=%27%23" + colour + "%27/%3E%3C/svg%3E"
}

// Policy lets a browser load nothing from outside a page with this style of its own.
func Policy(own Markup) string {
	sum := sha256.Sum256([]byte(style + own))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// Serve answers a request with a page.
func (d *Document) Serve(w http.ResponseWriter, policy string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Length", strconv.Itoa(d.Len()))
	_, _ = w.Write(d.Bytes()) // a client that is gone needs no answer
}
