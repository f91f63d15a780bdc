// Package tabletest formats the results of benchmarks.
package tabletest

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Markdown returns a table. The first row is its header.
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

// Milliseconds formats d in milliseconds: with two decimals below 10, with one below
// 100, and otherwise with none.
func Milliseconds(d time.Duration) string {
	switch v := d.Seconds() * 1e3; {
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}
