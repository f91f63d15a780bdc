package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/subnet"
)

const (
	// getInfo is IPT_SO_GET_INFO, and IP6T_SO_GET_INFO; getEntries likewise.
	getInfo, getEntries = 64, 65
	// nameSize is what the name of a table is written in.
	nameSize = 32
	// entriesHeader is how long struct ipt_get_entries is: the name, the size, and
	// what aligns the entries.
	entriesHeader = nameSize + 4 + 4
	// keptBuffer is how much memory is kept to read tables into.
	keptBuffer = 64 << 10
)

// layout is where in an entry of a family, struct ipt_entry or ip6t_entry, stands
// how long the entry is, and where its counters are.
type layout struct{ next, counters, end int }

var layouts = subnet.Pair[layout]{{90, 96, 112}, {142, 152, 168}}

var errEntries = errors.New("the kernel gave entries that are none")

// info is what the kernel tells of a table in short: where the rules of its hooks
// begin and end, how many there are, and their size.
type info struct {
	hooks         [40]byte
	entries, size uint32
}

// socket is one to ask about tables by. It receives nothing.
func socket(f subnet.Family) (fd int, err error) {
	domain := subnet.Pair[int]{unix.AF_INET, unix.AF_INET6}[f]
	if fd, err = unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW); err != nil {
		return 0, fmt.Errorf("open a socket to look at legacy iptables: %w", err)
	}
	return fd, nil
}

// infoOf asks the kernel about a table that is in use; one that is not it would
// make.
func infoOf(fd int, f subnet.Family, table string) (i info, err error) {
	// struct ipt_getinfo: the name, which hooks there are, where each begins and
	// ends, the number of entries, and their size.
	var answer [nameSize + 4 + 40 + 4 + 4]byte
	copy(answer[:nameSize-1], table)
	if err := getsockopt(fd, f, getInfo, answer[:]); err != nil {
		return info{}, err
	}
	rest := answer[nameSize+4+copy(i.hooks[:], answer[nameSize+4:]):]
	i.entries, i.size = binary.NativeEndian.Uint32(rest), binary.NativeEndian.Uint32(rest[4:])
	return i, nil
}

// sum is a number that is another where a table has other rules, or in another
// order; what they count it leaves out.
func (w *watcher) sum(t *watched, size uint32) (uint64, error) {
	need := entriesHeader + int(size)
	if cap(w.buffer) < need {
		w.buffer = make([]byte, need)
	}
	b := w.buffer[:need]
	clear(b) // what is behind a name's end the kernel leaves as it is
	copy(b[:nameSize-1], t.name)
	binary.NativeEndian.PutUint32(b[nameSize:], size)
	if need > keptBuffer {
		w.buffer = nil
	}
	if err := getsockopt(w.sockets[t.family], t.family, getEntries, b); err != nil {
		return 0, err
	}
	entries := b[entriesHeader:]
	if !layouts[t.family].uncount(entries) {
		return 0, errEntries
	}
	return maphash.Bytes(w.seed, entries), nil
}

// uncount clears the counters of all entries; it is false if that is not what they
// are.
func (l layout) uncount(entries []byte) bool {
	for len(entries) > 0 {
		if len(entries) < l.end {
			return false
		}
		next := int(binary.NativeEndian.Uint16(entries[l.next:]))
		if next < l.end || next > len(entries) {
			return false
		}
		clear(entries[l.counters:l.end])
		entries = entries[next:]
	}
	return true
}

// used is how much of a processor the thread that calls has used.
func used() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), os.NewSyscallError("clock_gettime", err)
}

// getsockopt asks about a table of a family.
func getsockopt(fd int, f subnet.Family, option uintptr, answer []byte) error {
	level := subnet.Pair[int]{unix.SOL_IP, unix.SOL_IPV6}[f]
	size := uint32(len(answer))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), option,
		uintptr(unsafe.Pointer(&answer[0])), uintptr(unsafe.Pointer(&size)), 0)
	runtime.KeepAlive(answer)
	if errno != 0 {
		return errno
	}
	return nil
}
