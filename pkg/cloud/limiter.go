package cloud

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/retry"
)

const (
	// leastRate is the part of its budget that an action keeps, however often the cloud
	// throttles it.
	leastRate = 1.0 / 16
	// recovery is the part of its budget that an action regains with each success.
	recovery = 1.0 / 20
	// shortHold is how long an action pauses after the cloud has throttled it, unless the
	// cloud asks for more.
	shortHold = time.Second
)

// Budget is a token bucket: it limits how often an action may be requested.
type Budget struct {
	// Burst is the size of the bucket: the number of requests that may be made at once.
	Burst float64
	// Rate is the number of tokens that return each second.
	Rate float64
}

// Limiter paces the requests to one account and region of a cloud, for all controllers
// together. Each action has a bucket. When the cloud throttles an action, the Limiter halves
// its rate; each success restores a part. A Limiter is safe for concurrent use.
type Limiter struct {
	budget func(action string) Budget

	mu      sync.Mutex
	buckets map[string]*bucket
}

// bucket is the token bucket of one action.
type bucket struct {
	budget Budget
	scale  float64   // of the budget, from leastRate to 1
	tokens float64   // when refill was last called
	at     time.Time // of that call
	held   time.Time // until then no request begins
	slowed time.Time // when scale was last reduced
	queue  []*int    // of the waiting requests, the first one first
}

// NewLimiter returns a Limiter with a budget for each action.
func NewLimiter(budget func(action string) Budget) *Limiter {
	return &Limiter{budget: budget, buckets: make(map[string]*bucket)}
}

// Wait waits until the caller may make a request. If the deadline of ctx is earlier, Wait
// returns a Throttled error at once, and the caller must not make the request.
func (l *Limiter) Wait(ctx context.Context, action string) error {
	ticket := new(int)
	l.change(action, func(b *bucket) { b.queue = append(b.queue, ticket) })
	for {
		var pause time.Duration
		l.change(action, func(b *bucket) { pause = b.take(ticket, time.Now()) })
		if pause == 0 {
			return nil
		}
		if end, ends := ctx.Deadline(); ends && time.Until(end) < pause {
			l.leave(action, ticket)
			return &Error{Kind: Throttled, Action: action, After: pause, Text: fmt.Sprintf("the request budget is used up for %s, longer than this request can wait; retrying", pause.Round(time.Millisecond))}
		}
		if err := retry.Sleep(ctx, pause); err != nil {
			l.leave(action, ticket)
			return &Error{Kind: Throttled, Action: action, Text: "the request ended while it waited for the request budget: " + err.Error()}
		}
	}
}

// Slow reduces the rate of an action, because the cloud has throttled a request that began at
// this time. For after, or for shortHold if that is longer, no request of the action begins.
func (l *Limiter) Slow(action string, began time.Time, after time.Duration) {
	l.change(action, func(b *bucket) {
		now := time.Now()
		b.refill(now)
		b.tokens = min(b.tokens, 0)
		if until := now.Add(max(after, shortHold)); until.After(b.held) {
			b.held = until
		}
		// Several throttled requests count once if they were in flight together.
		if began.After(b.slowed) {
			b.scale, b.slowed = max(b.scale/2, leastRate), now
		}
	})
}

// Succeeded restores a part of an action's rate.
func (l *Limiter) Succeeded(action string) {
	l.change(action, func(b *bucket) {
		b.refill(time.Now())
		b.scale = min(b.scale+recovery, 1)
	})
}

// Scale returns the part of its budget that an action may use now, at most 1.
func (l *Limiter) Scale(action string) (part float64) {
	l.change(action, func(b *bucket) { part = b.scale })
	return part
}

// change calls f with the bucket of an action.
func (l *Limiter) change(action string, f func(b *bucket)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b := l.buckets[action]
	if b == nil {
		budget := l.budget(action)
		b = &bucket{budget: budget, scale: 1, tokens: budget.Burst, at: time.Now()}
		l.buckets[action] = b
	}
	f(b)
}

func (l *Limiter) leave(action string, ticket *int) {
	l.change(action, func(b *bucket) { b.remove(ticket) })
}

// refill adds the tokens that have returned since the last call.
func (b *bucket) refill(now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens = min(b.tokens+passed.Seconds()*b.rate(), max(1, b.budget.Burst*b.scale))
		b.at = now
	}
}

func (b *bucket) rate() float64 { return b.budget.Rate * b.scale }

// take takes a token for a waiting request, and returns 0. If there is no token yet, or
// earlier requests need it, take returns how long to wait.
func (b *bucket) take(ticket *int, now time.Time) time.Duration {
	b.refill(now)
	need := float64(slices.Index(b.queue, ticket) + 1)
	hold := max(0, b.held.Sub(now))
	if hold == 0 && b.tokens >= need {
		b.tokens--
		b.remove(ticket)
		return 0
	}
	// Tokens also return during the hold.
	missing := max(0, need-b.tokens)
	return max(hold, time.Duration(missing/b.rate()*float64(time.Second)), time.Millisecond)
}

func (b *bucket) remove(ticket *int) {
	if i := slices.Index(b.queue, ticket); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	}
}
