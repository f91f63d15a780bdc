package kernel

import (
	"testing"
	"time"
)

// TestPaceOfWakeUps checks that a few events are read at once, and that many events a
// second are mostly read together.
func TestPaceOfWakeUps(t *testing.T) {
	for _, c := range []struct {
		every   time.Duration
		most    int // wake-ups per second
		waiting time.Duration
	}{
		{50 * time.Millisecond, 21, 0},
		{10 * time.Millisecond, 101, 0},
		{time.Millisecond, 201, paceWindow},
		{10 * time.Microsecond, 201, paceWindow},
	} {
		var p pace
		begin := time.Now()
		now, wakes, longest := begin, 0, time.Duration(0)
		for now.Sub(begin) < time.Second {
			wakes++
			d := p.woken(now)
			longest = max(longest, d)
			now = now.Add(max(d, c.every))
		}
		if wakes > c.most || longest > c.waiting {
			t.Errorf("an event every %v: %d wake-ups, slept for %v", c.every, wakes, longest)
		}
	}
}
