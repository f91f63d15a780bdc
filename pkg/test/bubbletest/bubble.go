// Package bubbletest runs tests in bubbles of testing/synctest.
package bubbletest

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble. The program has one processor meanwhile: with the race detector, Go 1.26
// crashes if two goroutines of a bubble find a timer due at the same time, because timers of a
// bubble share one context of the race detector, without a lock.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	defer useOneProcessor()()
	synctest.Test(t, f)
}

var (
	mu         sync.Mutex
	bubbles    int // tests run in parallel
	processors int // before the first of them
)

// useOneProcessor returns the function that ends it.
func useOneProcessor() (end func()) {
	mu.Lock()
	defer mu.Unlock()
	if bubbles == 0 {
		processors = runtime.GOMAXPROCS(1)
	}
	bubbles++
	return func() {
		mu.Lock()
		defer mu.Unlock()
		if bubbles--; bubbles == 0 {
			runtime.GOMAXPROCS(processors)
		}
	}
}
