// Package tabletest formats what benchmarks measure.
package tabletest

import (
	"strings"
	"unicode/utf8"
)

// Markdown returns a table. The first row is its head.
func Markdown(rows ...[]string) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			fill := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				b.WriteString("| " + cell + fill + " |")
			} else {
				b.WriteString(" " + fill + cell + " |")
			}
		}
		b.WriteByte('\n')
		if n > 0 {
			continue
		}
		for i, w := range width {
			if i == 0 {
				b.WriteString("|" + strings.Repeat("-", w+2) + "|")
			} else {
				b.WriteString(strings.Repeat("-", w+1) + ":|")
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
