package awstest

import (
	"strconv"
	"strings"
	"time"
)

// answer is the XML of an answer. Appending to it is ten times faster than reflection, which
// matters at 1,000 instances a page.
type answer struct{ b []byte }

var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;", "'", "&#39;", "\n", "&#xA;", "\r", "&#xD;", "\t", "&#x9;")

func (x *answer) open(name string) { x.b = append(append(append(x.b, '<'), name...), '>') }

func (x *answer) close(name string) { x.b = append(append(append(x.b, '<', '/'), name...), '>') }

// text writes an element, unless the value is empty.
func (x *answer) text(name, value string) {
	if value != "" {
		x.always(name, value)
	}
}

// always writes an element, also an empty one.
func (x *answer) always(name, value string) {
	x.open(name)
	if strings.ContainsAny(value, "&<>\"'\n\r\t") {
		value = escapes.Replace(value)
	}
	x.b = append(x.b, strings.ToValidUTF8(value, "\uFFFD")...)
	x.close(name)
}

func (x *answer) flag(name string, v bool) { x.always(name, strconv.FormatBool(v)) }

func (x *answer) number(name string, n int) { x.always(name, strconv.Itoa(n)) }

func (x *answer) moment(name string, t time.Time) {
	if !t.IsZero() {
		x.always(name, t.UTC().Format("2006-01-02T15:04:05.000Z"))
	}
}

func (x *answer) within(name string, f func()) {
	x.open(name)
	f()
	x.close(name)
}

// items writes a list.
func items[T any](x *answer, name string, all []T, write func(T)) {
	x.open(name)
	for _, one := range all {
		x.open("item")
		write(one)
		x.close("item")
	}
	x.close(name)
}
