package daemon

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

func TestDropPages(t *testing.T) {
	pages := filePages()
	before := residentFile(t)
	pages.drop()
	if after := residentFile(t); after >= before {
		t.Errorf("%d KiB of the program's file are in memory, as there were %d before", after, before)
	}
}

// A drop is useless, and harmful, while the host is short of memory: what is needed again
// comes from the disk.
func TestPaceOfDrops(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	p := pace{started: at(3)}
	for _, c := range []struct {
		at     float64
		faults int64
		want   bool
	}{
		{0, 5, true}, {0.01, 8, true}, {0.9, 21, true}, // as often as needed in the start
		{1, 21, true}, {2, 37, true}, {2.9, 53, true}, // these few need no disk
		{3, 53, true}, {3.5, 53, false}, {4, 60, true}, {4.9, 60, false}, {5, 70, true},
		{6, 87, false}, {7, 87, false}, {65, 87, false},
		{66, 120, true}, {67, 136, true}, // what came from the disk in the pause was not dropped
		{68, 153, false}, {127, 153, false}, {128, 153, true},
	} {
		if got := p.allows(at(c.at), c.faults); got != c.want {
			t.Errorf("after %v s, with %d faults: %t", c.at, c.faults, got)
		}
	}
}

func TestMapped(t *testing.T) {
	kerneltest.Eventually(t, time.Minute, func() error { // collections of garbage map and drop pages
		if got, want := mapped()>>10, residentFile(t); got < want*3/4 || got > want*4/3 {
			return fmt.Errorf("%d KiB of files are mapped, want %d", got, want)
		}
		return nil
	})
}

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

// residentFile is how many KiB of files this process has in its memory.
func residentFile(t *testing.T) (n int) {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "RssFile:")
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return n
}
