package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// saveMemory keeps this process small, because it shares the host with containers.
// Without profiled, it keeps no profile of the memory. It returns the pages of the
// program's file, which it limits periodically. Work that uses much of the program
// limits them between its parts, too.
func saveMemory(profiled bool) *filePages {
	if !profiled {
		runtime.MemProfileRate = 0
	}
	started := time.Now().Add(startTime)
	pages := newFilePages(started)
	pages.drop()
	collect := func(int) {}
	if os.Getenv("GOGC") == "" {
		collect = func(percent int) { debug.SetGCPercent(percent) }
	}
	collect(startGarbage)
	afterGC(func() {
		collect(garbageAt(time.Now().Before(started), live()))
		pages.drop()
	})
	go pages.keepLimit()
	time.AfterFunc(startTime, func() {
		debug.FreeOSMemory() // its collection also ends startGarbage, if none did before
		pages.drop()
	})
	return pages
}

// garbageAt returns the GOGC after a garbage collection that left so many bytes in use.
func garbageAt(starting bool, live uint64) int {
	if starting || live >= smallHeap {
		return listGarbage
	}
	return garbage
}

// live returns how many bytes the last garbage collection left in use.
func live() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

const (
	// startGarbage is the GOGC until the first garbage collection. It comes when the heap
	// has three times the runtime's minimum, 12 MiB: a start with few peers needs none.
	startGarbage = 300
	// listGarbage is the GOGC from then on, while a long list is read and applied. It
	// stays so for a large heap, which a later list would collect too often.
	listGarbage = 40
	// garbage is the GOGC after the start while less than smallHeap is in use. To collect
	// that costs little.
	garbage   = 20
	smallHeap = 16 << 20
	// startTime is some time after the start. What only the start needed goes back to
	// the kernel then.
	startTime = 3 * time.Second
)

// afterGC calls do after each garbage collection, one call after the other.
func afterGC(do func()) {
	runtime.AddCleanup(new(canary), func(do func()) {
		do()
		afterGC(do)
	}, do)
}

// canary is garbage from the beginning. It is large enough not to share its memory
// block with living objects.
type canary [16]byte
