package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// saveMemory keeps this process small, because it shares the host with containers.
// Without profiled, it disables the memory profile. It returns the pages of the
// program's file, which it limits periodically. Work that uses much of the program also
// limits them between its parts.
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
		debug.FreeOSMemory() // its collection also ends startGarbage, unless an earlier one did
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
	// startGarbage is the GOGC until the first garbage collection. That happens when
	// the heap has three times the runtime's minimum, 12 MiB. A start with few peers
	// does not reach that.
	startGarbage = 300
	// listGarbage is the GOGC from then on, while a long list is read and applied. A
	// large heap keeps it, because a later list would otherwise cause too many
	// collections.
	listGarbage = 40
	// garbage is the GOGC after the start while less than smallHeap is in use, because
	// collecting that costs little.
	garbage   = 20
	smallHeap = 16 << 20
	// startTime is when a start is over. Memory that only the start needed then goes
	// back to the kernel.
	startTime = 3 * time.Second
)

// afterGC calls do after each garbage collection. The calls do not overlap.
func afterGC(do func()) {
	runtime.AddCleanup(new(canary), func(do func()) {
		do()
		afterGC(do)
	}, do)
}

// canary is unreachable from the beginning. It is so large that it shares no memory
// block with living objects.
type canary [16]byte
