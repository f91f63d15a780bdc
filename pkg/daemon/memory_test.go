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
// start has made much of it.
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
