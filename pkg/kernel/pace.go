package kernel

import "time"

const (
	// paceWindow and paceWaits bound how often a stream of events wakes us up: after
	// so many times in a window, the rest of it is slept through, and what comes
	// meanwhile is read at once. To wake up costs more than to read an event.
	paceWindow = 20 * time.Millisecond
	paceWaits  = 4
)

// pace counts wake-ups.
type pace struct {
	begin time.Time // of the window
	waits int
}

// woken books a wake-up. It returns how long to sleep before the next.
func (p *pace) woken(now time.Time) time.Duration {
	if now.Sub(p.begin) >= paceWindow {
		p.begin, p.waits = now, 0
	}
	if p.waits++; p.waits < paceWaits {
		return 0
	}
	return p.begin.Add(paceWindow).Sub(now)
}
