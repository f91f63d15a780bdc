package daemon

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

func TestAfterGC(t *testing.T) {
	var calls atomic.Int32
	afterGC(func() { calls.Add(1) })
	kerneltest.Eventually(t, time.Minute, func() error {
		runtime.GC()
		if n := calls.Load(); n < 3 {
			return fmt.Errorf("called %d times", n)
		}
		return nil
	})
}

// TestFirstCollectionSettlesGarbage checks that garbage is collected often once the
// start has made much of it, and more often after the start while the heap is small.
func TestFirstCollectionSettlesGarbage(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	saveMemory(true)
	percent := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	if metrics.Read(percent); percent[0].Value.Uint64() != startGarbage {
		t.Errorf("GOGC is %d before the first collection, want %d", percent[0].Value.Uint64(), startGarbage)
	}
	for _, want := range []uint64{listGarbage, garbage} {
		kerneltest.Eventually(t, time.Minute, func() error {
			runtime.GC()
			if metrics.Read(percent); percent[0].Value.Uint64() != want {
				return fmt.Errorf("GOGC is %d, want %d", percent[0].Value.Uint64(), want)
			}
			return nil
		})
	}
}

// A large heap, which may be that of a late list, is collected as in the start.
func TestALargeHeapIsCollectedAsInTheStart(t *testing.T) {
	for _, c := range []struct {
		starting bool
		live     uint64
		want     int
	}{
		{true, 0, listGarbage}, {true, smallHeap, listGarbage},
		{false, 0, garbage}, {false, smallHeap - 1, garbage}, {false, smallHeap, listGarbage},
	} {
		if got := garbageAt(c.starting, c.live); got != c.want {
			t.Errorf("starting %t, %d bytes in use: GOGC %d, want %d", c.starting, c.live, got, c.want)
		}
	}
	large := make([]byte, smallHeap)
	runtime.GC()
	if n := live(); n < smallHeap {
		t.Errorf("%d bytes are in use, want %d at least", n, smallHeap)
	}
	runtime.KeepAlive(large)
}
