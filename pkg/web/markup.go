package web

import (
	"bytes"
	"html"
	"strings"
)

// markup is HTML from this package's source. A literal converts to markup; a string
// from elsewhere does not compile in its place.
type markup string

// document is a page while it is written. It replaces html/template. With that, the
// linker keeps every exported method of the program: a fifth of its size.
type document struct{ bytes.Buffer }

// add writes text, with a value in place of each {}. Values are escaped for text and
// quoted attributes, so {} may be used only there.
func (d *document) add(text markup, values ...string) {
	for _, v := range values {
		before, after, _ := strings.Cut(string(text), "{}")
		d.WriteString(before)
		d.WriteString(html.EscapeString(v))
		text = markup(after)
	}
	d.WriteString(string(text))
}
