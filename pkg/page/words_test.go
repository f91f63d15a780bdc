package page

import (
	"strings"
	"testing"
	"time"
)

func TestTimesInWords(t *testing.T) {
	now := time.Now()
	for d, want := range map[time.Duration]string{
		-time.Hour:                   "for less than 1 s, just now",
		999 * time.Millisecond:       "for less than 1 s, just now",
		time.Second:                  "for 1 s, 1 s ago",
		2*time.Minute - 1:            "for 119 s, 119 s ago",
		2 * time.Minute:              "for 2 min, 2 min ago",
		119 * time.Minute:            "for 119 min, 119 min ago",
		47 * time.Hour:               "for 47 h, 47 h ago",
		49*time.Hour + 5*time.Minute: "for 2 days, 2 days ago",
	} {
		if got := For(now, now.Add(-d)) + ", " + Ago(now, now.Add(-d)); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	if got := Ago(now, time.Time{}) + ", " + Since(now, time.Time{}).Words; got != "never, an unknown time" {
		t.Error(got)
	}
}

func TestNumbersInWords(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1 << 63: "9,223,372,036,854,775,808"} {
		if got := Grouped(n); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := Count(1, "Node") + ", " + Count(1200, "Node"); got != "1 Node, 1,200 Nodes" {
		t.Error(got)
	}
}

// FuzzLine checks that a line is short, printable and stable.
func FuzzLine(f *testing.F) {
	f.Add("a\nb\u202ec\xff", 3)
	f.Fuzz(func(t *testing.T, text string, most int) {
		if most < 1 || most > 1000 {
			return
		}
		got := Line(text, most)
		if n := len([]rune(got)); n > most || strings.ContainsAny(got, "\n\r\x00\u2028\u202e") {
			t.Errorf("%q", got)
		}
		if again := Line(got, most); again != got {
			t.Errorf("%q becomes %q", got, again)
		}
	})
}
