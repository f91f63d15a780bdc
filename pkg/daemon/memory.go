package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// saveMemory makes this process a small one, which counts on a host that it shares
// with containers.
func saveMemory() {
	if os.Getenv("GOGC") == "" {
		// A daemon that mostly waits can afford to collect its garbage more often.
		debug.SetGCPercent(20)
	}
	dropPages()
	last := time.Now()
	afterGC(func() {
		if now := time.Now(); now.Sub(last) >= dropPause {
			dropPages()
			last = now
		}
	})
}

// dropPause is the least time between two drops: each costs about a millisecond,
// and a busy start collects its garbage every few.
const dropPause = 40 * time.Millisecond

// afterGC has do called whenever garbage was collected, one call after the other.
func afterGC(do func()) {
	runtime.AddCleanup(new(canary), func(do func()) {
		do()
		afterGC(do)
	}, do)
}

// canary is garbage from the first. It is large enough not to share its place with
// what is not.
type canary [16]byte

// dropPages gives back the pages of the program's file that are in this process:
// those that only its start needed, and the many that the kernel mapped beside
// what was used. They stay in the kernel's cache, from where those that are used
// again come back. Where it fails nothing is lost.
func dropPages() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var from, to uintptr
	found := false
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := bytes.Fields(lines.Bytes())
		switch {
		case len(words) == 6 && words[1][0] == 'r' && words[1][1] == '-' && words[5][0] == '/':
			_, _ = fmt.Sscanf(string(words[0]), "%x-%x", &from, &to)
			found = true
		case found && len(words) == 5 && bytes.Contains(words[0], []byte("-")):
			return // they lie together, and to read on would be to count the heap's pages
		case len(words) == 3 && string(words[0]) == "Anonymous:":
			// What was written to, by a relocation or a debugger, is nowhere else.
			if from < to && string(words[1]) == "0" {
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
			}
			from, to = 0, 0
		}
	}
}
