package gce

import (
	"context"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// interval is the mean time between two requests. A project's smallest default quota
	// is 1,500 a minute, which it shares with others.
	interval = 100 * time.Millisecond
	// burst is how many requests may be sent at once.
	burst = 20
)

// limiter spaces requests.
type limiter struct {
	mu   sync.Mutex
	next time.Time // when the next request may be sent, if burst were 1
}

// wait waits until a request may be sent.
func (l *limiter) wait(ctx context.Context) error {
	l.mu.Lock()
	now := time.Now()
	if free := now.Add(-(burst - 1) * interval); l.next.Before(free) {
		l.next = free
	}
	at := l.next
	l.next = at.Add(interval)
	l.mu.Unlock()
	if !at.After(now) {
		return ctx.Err()
	}
	return retry.Sleep(ctx, at.Sub(now))
}

// pause lets no request through for d.
func (l *limiter) pause(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at := time.Now().Add(d); l.next.Before(at) {
		l.next = at
	}
}
