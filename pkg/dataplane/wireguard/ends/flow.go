package ends

import (
	"sync"
	"time"
)

const (
	// mostInside is how many packets one direction may have between its ends before it reads
	// no more. Each takes a buffer of 64 KiB. More packets wait in the kernel, for less.
	mostInside = 512
	// lostTime is how long packets count at least. Those that do not come out until then may have
	// been dropped, such as those to a peer without a session.
	lostTime = 2 * time.Millisecond
)

// flow counts the packets of one direction that are between its ends.
type flow struct {
	mu     sync.Mutex
	inside int
	// The packets that came in since a time, and in the lostTime before it. Others no longer
	// count.
	since     time.Time
	new, last int
	freed     chan struct{}
}

func newFlow() *flow { return &flow{since: time.Now(), freed: make(chan struct{}, 1)} }

// wait waits until packets may come in.
func (f *flow) wait() {
	for {
		left := f.full()
		if left == 0 {
			f.wake() // another reader, if there is one
			return
		}
		older := time.NewTimer(left)
		select {
		case <-f.freed:
		case <-older.C:
		}
		older.Stop()
	}
}

// full returns 0, or how long no packets may come in if none come out.
func (f *flow) full() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	f.forget(now)
	if f.inside < mostInside {
		return 0
	}
	return max(1, lostTime-now.Sub(f.since))
}

// forget forgets the packets that no longer count.
func (f *flow) forget(now time.Time) {
	age := now.Sub(f.since)
	if age < lostTime {
		return
	}
	f.last, f.new, f.since = f.new, 0, now
	if age >= 2*lostTime {
		f.last = 0
	}
	f.inside = min(f.inside, f.last)
}

// in is called when packets have come in.
func (f *flow) in(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(time.Now())
	f.inside += n
	f.new += n
}

// out is called when packets go out. Handshakes and keepalives go out without having come in.
func (f *flow) out(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	full := f.inside >= mostInside
	if f.inside = max(0, f.inside-n); full && f.inside < mostInside {
		f.wake()
	}
}

func (f *flow) wake() {
	select {
	case f.freed <- struct{}{}:
	default:
	}
}
