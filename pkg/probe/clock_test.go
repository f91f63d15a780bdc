package probe

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestClocks(t *testing.T) {
	for _, c := range []struct {
		ahead []time.Duration
		want  string // the reports, separated by |
	}{
		{nil, ""},
		{[]time.Duration{time.Second}, ""},
		{[]time.Duration{-time.Hour}, "the clocks of this node and of n0 differ by 1h0m0s"},
		{[]time.Duration{0, time.Second, -time.Second}, ""},
		{[]time.Duration{time.Hour, time.Hour}, "this node's clock is 1h0m0s behind"},
		{[]time.Duration{-time.Minute, -time.Minute, -time.Minute}, "this node's clock is 1m0s ahead of"},
		{[]time.Duration{time.Minute, 0}, "the clock of n0 is 1m0s ahead of"},
		{[]time.Duration{0, 0, -time.Minute, time.Hour}, "the clock of n2 is 1m0s behind|the clock of n3 is 1h0m0s ahead of"},
		{[]time.Duration{time.Hour, time.Hour, time.Hour, 0}, "this node's clock is 1h0m0s behind|the clock of n3 is 1h0m0s behind"},
	} {
		var all []clock
		for i, d := range c.ahead {
			name := fmt.Sprintf("n%d", i)
			all = append(all, clock{name, name, d})
		}
		got := wrongClocks(all)
		want := strings.Split(c.want, "|")
		if c.want == "" {
			want = nil
		}
		if len(got) != len(want) {
			t.Errorf("%v: %q", c.ahead, got)
			continue
		}
		for i := range want {
			if !strings.HasPrefix(got[i], want[i]) {
				t.Errorf("%v: %q", c.ahead, got)
			}
		}
	}
}

// TestClocksAreFew checks that a few lines report any number of wrong clocks.
func TestClocksAreFew(t *testing.T) {
	var all []clock
	for i := range clocks {
		all = append(all, clock{fmt.Sprint(i), fmt.Sprint(i), time.Duration(i) * time.Hour})
	}
	if n := len(wrongClocks(all)); n == 0 || n > 7 {
		t.Errorf("%d lines", n)
	}
}
