package page

import (
	"fmt"
	"strings"
	"time"
)

// The classes of a verdict, a reason or a fact, in the style sheet.
const (
	Good = "good"
	Warn = "warn"
	Bad  = "bad"
)

// Reason is something that is wrong.
type Reason struct{ Class, What, Text string }

// Check is a condition of readiness.
type Check struct {
	Name string
	OK   bool
	Text string // why it fails, or what holds
}

// Lines returns checks as an answer to a probe, one a line, as Kubernetes writes them. A
// check that holds has its text only if verbose.
func Lines(checks []Check, verbose bool) string {
	var b strings.Builder
	for _, c := range checks {
		switch {
		case !c.OK:
			fmt.Fprintf(&b, "[-]%s failed: %s\n", c.Name, c.Text)
		case verbose:
			fmt.Fprintf(&b, "[+]%s ok: %s\n", c.Name, c.Text)
		default:
			fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
		}
	}
	return b.String()
}

// Moment is a time in words, and the exact time.
type Moment struct{ Words, Exact string }

// Past returns when something happened.
func Past(now, t time.Time) Moment { return Moment{Ago(now, t), t.UTC().Format(time.RFC3339)} }

// Since returns how long something has lasted that began at t.
func Since(now, t time.Time) Moment {
	if t.IsZero() {
		return Moment{Words: "an unknown time"}
	}
	return Moment{Span(now.Sub(t)), t.UTC().Format(time.RFC3339)}
}

// Section is a card of facts.
type Section struct {
	Name  string
	Class string // Warn or Bad, if a fact is no good one
	Lines []Fact
}

// Fact has either a text or a time.
type Fact struct {
	Name string
	Text string
	Time *Moment
	Code bool // the text is for machines, too
}

// Add adds a fact with a text from elsewhere.
func (s *Section) Add(name, text string) {
	s.Lines = append(s.Lines, Fact{Name: name, Text: Line(text, Longest)})
}

// AddCode adds a fact like Add, whose text is for machines, too.
func (s *Section) AddCode(name, text string) {
	s.Lines = append(s.Lines, Fact{Name: name, Text: Line(text, Longest), Code: true})
}

// AddTime adds a fact with a time.
func (s *Section) AddTime(name string, m Moment) {
	s.Lines = append(s.Lines, Fact{Name: name, Time: &m})
}

// WriteSections writes sections as cards.
func (d *Document) WriteSections(all []Section) {
	d.Add(`<div class="facts">`)
	for _, s := range all {
		d.Add("\n"+`<section class="card {}">
<h2>{}</h2>
<dl>`, s.Class, s.Name)
		for _, f := range s.Lines {
			d.Add("\n<div>")
			if f.Name != "" {
				d.Add("<dt>{}</dt>", f.Name)
			}
			d.Add("<dd>")
			switch {
			case f.Time != nil:
				d.WriteMoment(*f.Time)
			case f.Code:
				d.Add("<code>{}</code>", f.Text)
			default:
				d.Add("{}", f.Text)
			}
			d.Add("</dd></div>")
		}
		d.Add("\n</dl>\n</section>")
	}
	d.Add("\n</div>\n")
}

// WriteMoment writes a time.
func (d *Document) WriteMoment(m Moment) {
	d.Add(`<time datetime="{}" title="{}">{}</time>`, m.Exact, m.Exact, m.Words)
}
