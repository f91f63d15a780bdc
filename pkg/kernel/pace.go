package kernel

import "time"

const (
	// paceWindow and paceWaits bound how often a stream of events wakes us up. After so
	// many wake-ups in a window, we sleep through the rest of it, and then read
	// everything that came. A wake-up costs more than reading an event.
	paceWindow = 20 * time.Millisecond
	paceWaits  = 4
)

// pace counts wake-ups.
type pace struct {
	begin time.Time // of the window
	waits int
}

// woken counts a wake-up. It returns how long to sleep before the next.
func (p *pace) woken(now time.Time) time.Duration {
	if now.Sub(p.begin) >= paceWindow {
		p.begin, p.waits = now, 0
	}
	if p.waits++; p.waits < paceWaits {
		return 0
	}
	return p.begin.Add(paceWindow).Sub(now)
}
