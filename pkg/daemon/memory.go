package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// saveMemory keeps this process small, because it shares the host with containers.
func saveMemory() {
	pages := filePages()
	pages.drop()
	settle := pages.drop
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(startGarbage)
		often := sync.OnceFunc(func() { debug.SetGCPercent(garbage) })
		settle = func() {
			often()
			pages.drop()
		}
	}
	afterGC(settle)
	time.AfterFunc(startTime, settle) // few peers leave no garbage that would be collected before
}

const (
	// startGarbage is the GOGC until the first garbage collection. It comes when the heap
	// has three times the runtime's minimum, 12 MiB: a start with few peers needs none.
	startGarbage = 300
	// garbage is the GOGC from then on. A daemon that mostly waits can afford to collect
	// its garbage more often than the default.
	garbage = 40
	// startTime is some time after the start of a daemon with few peers.
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
