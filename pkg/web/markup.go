package web

import (
	"bytes"
	"html"
	"strings"
)

// markup is HTML in this package's source. A literal becomes markup by itself, a
// string from elsewhere does not compile in its place.
type markup string

// document is a page while it is written. It stands in for html/template, with which
// the linker has to keep every exported method of the program: a fifth of its size.
type document struct{ bytes.Buffer }

// add writes text, with a value in the place of each {}. Values are escaped for text
// and for quoted attributes, so a {} may stand nowhere else.
func (d *document) add(text markup, values ...string) {
	for _, v := range values {
		before, after, _ := strings.Cut(string(text), "{}")
		d.WriteString(before)
		d.WriteString(html.EscapeString(v))
		text = markup(after)
	}
	d.WriteString(string(text))
}
