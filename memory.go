package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/subnet"
)

// saveMemory makes this process a small one, which counts on a host that it shares
// with containers.
func saveMemory() {
	if os.Getenv("GOGC") == "" {
		// A daemon that mostly waits can afford to collect its garbage more often.
		debug.SetGCPercent(25)
	}
	dropPages()
}

// leanStore is a store of a daemon that saves memory.
type leanStore struct{ subnet.Store }

// Watch implements subnet.Store. By now the store was found and read, and what
// that needed of the program makes room for the peers.
func (s leanStore) Watch(ctx context.Context, to func(subnet.Update)) error {
	dropPages()
	return s.Store.Watch(ctx, to)
}

// dropPages gives back the pages of the program's file that are in this process.
// They stay in the kernel's cache, from where those that are used again come
// back: by far not all that the initialisation of the embedded etcd's packages
// touched. Where it fails nothing is lost.
func dropPages() {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	var from, to uintptr
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := bytes.Fields(lines.Bytes())
		switch {
		case len(words) == 6 && words[1][0] == 'r' && words[1][1] == '-' && words[5][0] == '/':
			_, _ = fmt.Sscanf(string(words[0]), "%x-%x", &from, &to)
		case len(words) == 3 && string(words[0]) == "Anonymous:":
			// What was written to, by a relocation or a debugger, is nowhere else.
			if from < to && string(words[1]) == "0" {
				_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
			}
			from, to = 0, 0
		}
	}
}
