package bubbletest

import (
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestManyTimersAtOnce: with the race detector and two processors, this crashes within
// milliseconds in a bubble of testing/synctest alone.
func TestManyTimersAtOnce(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	for range 5 {
		Test(t, func(t *testing.T) {
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for range 30 {
						var timers []*time.Timer
						for range 100 {
							timers = append(timers, time.NewTimer(1))
						}
						<-time.After(2)
						for _, timer := range timers {
							select {
							case <-timer.C:
							default:
								t.Error("a timer is not due")
							}
						}
					}
				})
			}
			all.Wait()
		})
	}
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("%d processors before, %d after", before, now)
	}
}

// TestBubblesInParallel: the last one that ends gives the processors back.
func TestBubblesInParallel(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	first, second := useOneProcessor(), useOneProcessor()
	first()
	during := runtime.GOMAXPROCS(0)
	second()
	if after := runtime.GOMAXPROCS(0); during != 1 || after != before {
		t.Errorf("%d processors before, %d during the second bubble, %d after", before, during, after)
	}
}
