package cloud

import (
	"regexp"
	"strings"
	"testing"
)

// TestLabelsDropWhatNoLabelCanContain also shows that the log has each value once, and a
// limited number of them.
func TestLabelsDropWhatNoLabelCanContain(t *testing.T) {
	form := regexp.MustCompile(`^[a-z0-9.]{1,63}$`)
	var l Labels
	for fact, want := range map[string]string{"": "", "m5.large": "m5.large", "m5 large": "", "a\nb": "", strings.Repeat("x", 1000): ""} {
		for range 2 {
			if got := l.Check("type", fact, "i-1", form); got != want {
				t.Errorf("%.20q becomes %q, want %q", fact, got, want)
			}
		}
	}
	if len(l.dropped) != 3 {
		t.Errorf("logged %d values, want 3", len(l.dropped))
	}
	for n := range 2 * mostDropped {
		l.Check("type", strings.Repeat("?", n+1), "i-1", form)
	}
	if len(l.dropped) != mostDropped {
		t.Errorf("logged %d values, want %d", len(l.dropped), mostDropped)
	}
}
