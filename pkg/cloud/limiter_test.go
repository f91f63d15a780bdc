package cloud

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// small is a budget of two at once and two a second.
func small(string) Budget { return Budget{Burst: 2, Rate: 2} }

// take waits for n requests of an action, one after another. It returns when each could begin,
// counted from the first call.
func take(t *testing.T, l *Limiter, action string, n int) (waited []time.Duration) {
	t.Helper()
	began := time.Now()
	for range n {
		if err := l.Wait(t.Context(), action); err != nil {
			t.Fatal(err)
		}
		waited = append(waited, time.Since(began).Round(time.Millisecond))
	}
	return waited
}

func TestLimiterPacesEachAction(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := NewLimiter(small)
		half := 500 * time.Millisecond
		for _, action := range []string{"CreateRoute", "DescribeInstances"} {
			for i, got := range take(t, l, action, 5) {
				if want := time.Duration(max(0, i-1)) * half; got != want {
					t.Errorf("%s %d waited %s, want %s", action, i, got, want)
				}
			}
		}
		<-time.After(time.Hour)
		if got := take(t, l, "CreateRoute", 3); got[1] != 0 || got[2] != half {
			t.Errorf("an hour filled the bucket beyond its size: %v", got)
		}
	})
}

// TestLimiterRefusesLateRequestsAtOnce: a request that cannot be made in time does not wait,
// and takes no token.
func TestLimiterRefusesLateRequestsAtOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := NewLimiter(small)
		take(t, l, "CreateRoute", 2)
		ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
		defer cancel()
		began := time.Now()
		err := l.Wait(ctx, "CreateRoute")
		e, ok := errors.AsType[*Error](err)
		if !ok || e.Kind != Throttled || !e.Kind.IsFinal() || e.After != 500*time.Millisecond || time.Since(began) > 0 {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		if got := take(t, l, "CreateRoute", 1); got[0] != 500*time.Millisecond {
			t.Errorf("the next one waited %v", got)
		}
	})
}

// TestLimiterKeepsTheOrder: requests proceed in their order. One that gives up leaves its
// place to the next one.
func TestLimiterKeepsTheOrder(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := NewLimiter(small)
		take(t, l, "CreateRoute", 2)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var order []int
		var running sync.WaitGroup
		for i := range 4 {
			running.Go(func() {
				within := t.Context()
				if i == 1 {
					within = ctx
				}
				if l.Wait(within, "CreateRoute") == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, i)
				}
			})
			synctest.Wait()
		}
		cancel()
		began := time.Now()
		running.Wait()
		if len(order) != 3 || order[0] != 0 || order[1] != 2 || order[2] != 3 || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %s", order, time.Since(began))
		}
	})
}

func TestLimiterSlowsDownAndRecovers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := NewLimiter(small)
		began := time.Now()
		<-time.After(time.Millisecond)
		l.Slow("CreateRoute", began, 0)
		l.Slow("CreateRoute", began, 0) // was in flight together with the first
		if got := l.Scale("CreateRoute"); got != 0.5 {
			t.Errorf("%v of the budget", got)
		}
		if got := take(t, l, "CreateRoute", 2); got[0] != time.Second || got[1] != 2*time.Second {
			t.Errorf("waited %v", got)
		}
		if got := take(t, l, "DeleteRoute", 2); got[1] != 0 {
			t.Errorf("another action waited %v", got)
		}
		l.Slow("CreateRoute", time.Now(), 30*time.Second)
		if got := take(t, l, "CreateRoute", 1); got[0] != 30*time.Second {
			t.Errorf("the cloud asked for 30 s, and it waited %v", got)
		}
		for range 100 {
			<-time.After(time.Millisecond)
			l.Slow("CreateRoute", time.Now(), 0)
		}
		if got := l.Scale("CreateRoute"); got != leastRate {
			t.Errorf("%v of the budget, want %v", got, leastRate)
		}
		for range 20 {
			l.Succeeded("CreateRoute")
		}
		if got := l.Scale("CreateRoute"); math.Abs(got-1) > 1e-9 {
			t.Errorf("%v of the budget after 20 successes", got)
		}
	})
}

// TestLimiterPacesRequestsAfterAPause: requests that waited while the cloud throttled an
// action do not all begin at once afterwards.
func TestLimiterPacesRequestsAfterAPause(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		l := NewLimiter(small)
		take(t, l, "CreateRoute", 2)
		began := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		var running sync.WaitGroup
		for range 6 {
			running.Go(func() {
				if err := l.Wait(t.Context(), "CreateRoute"); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				at = append(at, time.Since(began))
			})
		}
		synctest.Wait()
		l.Slow("CreateRoute", began.Add(time.Nanosecond), 10*time.Second)
		running.Wait()
		early := 0
		for _, d := range at {
			if d < 10*time.Second {
				t.Errorf("a request began after %s", d)
			} else if d < 10*time.Second+50*time.Millisecond {
				early++
			}
		}
		if early > 2 {
			t.Errorf("%d requests began when the pause ended: %v", early, at)
		}
	})
}
