package retry

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestAfterIsWithinItsBounds tries many back-offs: whatever their values, a wait
// is at least half of the doubled one and at most all of it, and never above Last.
func TestAfterIsWithinItsBounds(t *testing.T) {
	for range 10_000 {
		first := 1 + rand.N(time.Hour)
		b := Backoff{First: first, Last: first + rand.N(time.Hour)}
		if rand.IntN(10) == 0 {
			b.Last = math.MaxInt64
		}
		want := b.First
		for failures := 1; failures <= 80; failures++ {
			if d := b.After(failures); d < want/2 || d > want {
				t.Fatalf("%+v after %d failures: %s, not from %s to %s", b, failures, d, want/2, want)
			}
			if want > b.Last/2 {
				want = b.Last
			} else {
				want *= 2
			}
		}
	}
}

func TestAfterBeginsAgainWithTheCount(t *testing.T) {
	b := Backoff{First: time.Second, Last: time.Hour}
	for _, failures := range []int{1, 0, -1, math.MinInt} {
		if d := b.After(failures); d < b.First/2 || d > b.First {
			t.Errorf("after %d failures: %s", failures, d)
		}
	}
	if d := b.After(math.MaxInt); d < b.Last/2 || d > b.Last {
		t.Errorf("after very many failures: %s", d)
	}
}

// TestAfterSpreads has a thousand programs that fail at the same moment: no
// tenth of the random half gets far more of them than another.
func TestAfterSpreads(t *testing.T) {
	const programs, parts = 1000, 10
	b := Backoff{First: time.Minute, Last: time.Minute}
	var counts [parts]int
	for range programs {
		counts[min(int((b.After(1)-b.First/2)*parts/(b.First/2)), parts-1)]++
	}
	for part, n := range counts {
		if n < programs/parts/2 || n > programs/parts*2 {
			t.Errorf("part %d of the spread has %d of %d: %v", part, n, programs, counts)
		}
	}
}

// TestSleep checks that Sleep ends after its time or with its context.
func TestSleep(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Sleep(t.Context(), time.Hour); err != nil || time.Since(began) != time.Hour {
			t.Errorf("slept %s, %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began = time.Now()
		if err := Sleep(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("slept %s, %v", time.Since(began), err)
		}
		for _, d := range []time.Duration{-1, 0, time.Hour} {
			if err := (Backoff{d, d}).Sleep(ctx, 1); err == nil {
				t.Errorf("slept %s although its context had ended", d)
			}
		}
		if err := Sleep(t.Context(), 0); err != nil || time.Since(began) != time.Minute {
			t.Errorf("slept %s, %v", time.Since(began), err)
		}
	})
}

func TestWakeupHoldsOne(t *testing.T) {
	w := NewWakeup()
	for range 3 {
		w.Wake()
	}
	<-w
	select {
	case <-w:
		t.Error("it holds a second wake-up")
	default:
	}
	w.Wake()
	w.Clear()
	w.Clear()
	if len(w) != 0 {
		t.Error("it is not empty after Clear")
	}
}
