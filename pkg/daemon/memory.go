package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// saveMemory keeps this process small, because it shares the host with containers.
// Without profiled, it keeps no profile of the memory.
func saveMemory(profiled bool) {
	if !profiled {
		runtime.MemProfileRate = 0
	}
	started := time.Now().Add(startTime)
	pages := dropper{mappings: filePages(), pace: pace{started: started}}
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
	go pages.limit()
	time.AfterFunc(startTime, func() {
		debug.FreeOSMemory() // its collection also ends startGarbage, if none did before
		pages.drop()
	})
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
	// mostPages is how many bytes of files may stay mapped. A start uses most of the
	// program's file, each part for a short time.
	mostPages = 6 << 20
	// startCheck and pageCheck are how often a start, and a daemon after it, compares with
	// mostPages. That costs 10 µs. After the start, the pages are dropped once in pageCheck
	// at most.
	startCheck = 5 * time.Millisecond
	pageCheck  = time.Second
	// faultPause is how long no page is dropped once more than fewFaults came back from
	// the disk within pageCheck: the host needs its memory for other things than its cache.
	faultPause = time.Minute
	// fewFaults is more than a start has on an idle host, where the kernel counts each
	// fault that it had to retry, as beside another thread's. Without its cache, a host
	// reads many more.
	fewFaults = 16
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

// mappings are ranges of addresses.
type mappings []struct{ from, to uintptr }

// drop returns the pages that are in this process to the kernel's cache: those that only
// the start needed, and the many that the kernel mapped beside what was used. Those
// that are used again come back from there. If it fails, nothing is lost.
func (m mappings) drop() {
	if traced() {
		return // a debugger's breakpoints are nowhere else
	}
	for _, r := range m {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.from, r.to-r.from, unix.MADV_DONTNEED)
	}
}

// dropper drops the pages at its pace.
type dropper struct {
	mappings
	mu   sync.Mutex
	pace pace
}

// drop drops the pages, if it may.
func (d *dropper) drop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pace.allows(time.Now(), faults()) {
		d.mappings.drop()
	}
}

// pace decides when pages may be dropped.
type pace struct {
	started time.Time // the end of the start
	next    time.Time // none are dropped before
	counted time.Time // when faults were counted
	faults  int64
}

// allows reports whether the pages may be dropped now. faults are the pages that this
// process has read from the disk.
func (p *pace) allows(now time.Time, faults int64) bool {
	switch {
	case now.Before(p.next):
		return false
	case !p.counted.IsZero() && faults > p.faults+fewFaults:
		p.counted, p.next = time.Time{}, now.Add(faultPause)
		return false
	case now.Sub(p.counted) >= pageCheck:
		p.counted, p.faults = now, faults
	}
	if !now.Before(p.started) {
		p.next = now.Add(pageCheck)
	}
	return true
}

// faults returns how many pages this process has read from the disk, or 0 if that is
// unknown.
func faults() int64 {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return int64(u.Majflt)
}

// limit drops the pages whenever they are more than mostPages.
func (d *dropper) limit() {
	for {
		if mapped() > mostPages {
			d.drop()
		}
		if time.Now().Before(d.pace.started) {
			time.Sleep(startCheck)
		} else {
			time.Sleep(pageCheck)
		}
	}
}

// mapped returns how many bytes of files are mapped, or 0 if that is unknown.
func mapped() int {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	var size, resident, shared int
	_, _ = fmt.Sscan(string(text), &size, &resident, &shared)
	return shared * os.Getpagesize()
}

// traced reports whether a debugger is attached to this process.
func traced() bool {
	status, err := os.ReadFile("/proc/self/status")
	return err != nil || !bytes.Contains(status, []byte("\nTracerPid:\t0\n"))
}

// filePages returns where the program's file is mapped, which never changes. It omits
// mappings that a relocation or a debugger has written to.
func filePages() (all mappings) {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer f.Close()
	var from, to uintptr
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := bytes.Fields(lines.Bytes())
		switch {
		case len(words) == 6 && words[1][0] == 'r' && words[1][1] == '-' && string(words[5]) == program:
			_, _ = fmt.Sscanf(string(words[0]), "%x-%x", &from, &to)
		case len(words) == 3 && string(words[0]) == "Anonymous:":
			if from < to && string(words[1]) == "0" {
				all = append(all, struct{ from, to uintptr }{from, to})
			}
			from, to = 0, 0
		}
	}
	return all
}
