package ends

import (
	"sync"
	"time"
)

const (
	// mostInside is how many packets of one direction are between its ends when it reads no more
	// for a moment. Each takes a buffer of 64 KiB. More packets wait in the kernel, for less.
	mostInside = 256
	// lostTime is the shortest time for which a packet counts. It stops counting after at most
	// twice that: it may have been dropped, as one to a peer without a session is.
	lostTime = 2 * time.Millisecond
)

// flow counts the packets of one direction that are between its ends.
type flow struct {
	mu     sync.Mutex
	inside int
	// The packets that came in since a time, and in the lostTime before it. Others no longer
	// count, unless some wait to leave.
	since         time.Time
	recent, older int
	leaving       int // batches that wait for the socket
	freed         chan struct{}
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
		timer := time.NewTimer(left)
		select {
		case <-f.freed:
		case <-timer.C:
		}
		timer.Stop()
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
	switch {
	case f.leaving > 0:
		f.since = now
		return
	case age < lostTime:
		return
	}
	f.older, f.recent, f.since = f.recent, 0, now
	if age >= 2*lostTime {
		f.older = 0
	}
	f.inside = min(f.inside, f.older)
}

// in is called when packets have come in.
func (f *flow) in(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget(time.Now())
	f.inside += n
	f.recent += n
}

// leave is called before packets go out in a way that may block, and left after it.
func (f *flow) leave() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leaving++
}

// left is like out, after leave.
func (f *flow) left(n int) {
	f.mu.Lock()
	f.leaving--
	f.mu.Unlock()
	f.out(n)
}

// out is called when packets have gone out, or were dropped. Handshakes and keepalives go out
// without having come in.
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
