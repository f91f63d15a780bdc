package page

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Span returns how long d is, in words.
func Span(d time.Duration) string {
	switch {
	case d < time.Second:
		return "less than 1 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	}
}

// Ago returns how long ago t was, in words.
func Ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case d < time.Second:
		return "just now"
	default:
		return Span(d) + " ago"
	}
}

// For returns for how long something has held since t, in words.
func For(now, t time.Time) string { return "for " + Span(now.Sub(t)) }

// Grouped returns n with its digits in groups of three.
func Grouped[N int | uint64](n N) string {
	digits := strconv.FormatUint(uint64(n), 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// Count returns n with a noun.
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Grouped(n) + " " + what + "s"
}

// Join returns values as a list in words.
func Join[T fmt.Stringer](all []T) string {
	var words []string
	for _, v := range all {
		words = append(words, v.String())
	}
	return strings.Join(words, ", ")
}

// Longest limits how much of a text from elsewhere is shown, in runes.
const Longest = 500

// Line returns a text on one line of at most most runes. It removes characters that
// could imitate or reorder others.
func Line(text string, most int) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\ufffd"))
	text = strings.TrimSpace(text)
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
