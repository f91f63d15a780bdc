package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// mostPages is how many bytes of files may stay mapped. A start uses most of the
	// program's file, each part for a short time.
	mostPages = 4 << 20
	// startCheck and pageCheck are the intervals of checks against mostPages during the
	// start and after it. Long work also checks between its parts: during a start, a
	// timer may fire too late, because all processors are busy.
	startCheck = 5 * time.Millisecond
	pageCheck  = time.Second
	// dropGap is the shortest time between two drops after the start, because it takes
	// time to map pages again that are still in use.
	dropGap = 20 * time.Millisecond
	// faultPause is how long no page is dropped after more than fewFaults pages were
	// read from the disk within pageCheck. The host then needs its memory for other
	// things than its cache.
	faultPause = time.Minute
	// fewFaults is more than a start causes on an idle host, where the kernel also
	// counts faults that it retries, for example because of another thread. A host
	// without room for its cache reads many more.
	fewFaults = 16
	// mostMapped is the maximum number of bytes of the program's data that one page
	// fault maps.
	mostMapped = 16 << 10
)

// filePages drops the pages of the program's file from this process's memory. It runs
// often, so it allocates nothing and uses few pages itself.
type filePages struct {
	mappings
	statm, status proc

	mu   sync.Mutex
	pace pace
	text [4096]byte // of a proc file
}

// newFilePages returns the pages of a daemon whose start ends at started.
func newFilePages(started time.Time) *filePages {
	file := fileMappings()
	file.split(os.Getpagesize(), mostMappings())
	return &filePages{
		mappings: file, pace: pace{started: started},
		statm: openProc("/proc/self/statm"), status: openProc("/proc/self/status"),
	}
}

// drop drops the pages, if pace allows it.
func (p *filePages) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropIfAllowed()
}

// limit drops the pages if they are more than mostPages and pace allows it.
func (p *filePages) limit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mapped() > mostPages {
		p.dropIfAllowed()
	}
}

func (p *filePages) dropIfAllowed() {
	if p.pace.allows(time.Now(), faults()) && !p.traced() {
		p.mappings.drop()
	}
}

// keepLimit limits the pages periodically.
func (p *filePages) keepLimit() {
	for {
		p.limit()
		if time.Now().Before(p.pace.started) {
			time.Sleep(startCheck)
		} else {
			time.Sleep(pageCheck)
		}
	}
}

// mapped returns how many bytes of files are mapped, or 0 if that is unknown.
func (p *filePages) mapped() int {
	_, rest, _ := bytes.Cut(p.statm.read(p.text[:]), []byte{' '}) // the size
	_, rest, _ = bytes.Cut(rest, []byte{' '})                     // what is resident
	pages := 0
	for _, digit := range rest {
		if digit < '0' || digit > '9' {
			break
		}
		pages = pages*10 + int(digit-'0')
	}
	return pages * os.Getpagesize()
}

// traced reports whether a debugger may be attached to this process. A debugger's
// breakpoints exist only in the pages.
func (p *filePages) traced() bool {
	return !bytes.Contains(p.status.read(p.text[:]), []byte("\nTracerPid:\t0\n"))
}

// proc is a file of the proc file system that is read often, or -1.
type proc int

func openProc(path string) proc {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return proc(fd)
}

// read reads the file into text. It returns nothing if it fails.
func (p proc) read(text []byte) []byte {
	n, err := unix.Pread(int(p), text, 0)
	if err != nil {
		return nil
	}
	return text[:n]
}

// pace decides when pages may be dropped.
type pace struct {
	started time.Time // the end of the start
	next    time.Time // no page is dropped before this time
	counted time.Time // when faults were last counted
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
		p.next = now.Add(dropGap)
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

// mappings are ranges of addresses.
type mappings []mapping

type mapping struct {
	from, to uintptr
	code     bool
}

// split makes the kernel map less at once. At a fault, the kernel maps all cached pages
// of the 64 KiB around it, but nothing outside the mapping. A garbage collection
// touches a little of many such blocks. The kernel joins adjacent mappings that do not
// differ, so split excludes every second one from core dumps, which do not contain
// pages of a file anyway. It does not split code: recent kernels read no more of it
// from the disk than the mapping has. page is the size of a page; larger ones cannot be
// split. most is the maximum number of mappings of a process. The program needs most of
// them elsewhere, because it gets no memory once it has none left.
func (m mappings) split(page, most int) {
	if page > mostMapped {
		return
	}
	left := most / 8
	for _, r := range m {
		if r.code {
			continue
		}
		for from := r.from + mostMapped; from+mostMapped <= r.to && left >= 2; from += 2 * mostMapped {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, mostMapped, unix.MADV_DONTDUMP)
			left -= 2
		}
	}
}

// mostMappings returns how many mappings a process may have (vm.max_map_count).
func mostMappings() int {
	text, err := os.ReadFile("/proc/sys/vm/max_map_count")
	if err == nil {
		var n int
		if n, err = strconv.Atoi(string(bytes.TrimSpace(text))); err == nil {
			return n
		}
	}
	return 65530 // the kernel's default
}

// drop returns the pages in this process's memory to the kernel's cache: those that
// only the start needed, and the many that the kernel mapped in addition to those in
// use. Pages that are used again come back from the cache. If drop fails, nothing is
// lost.
func (m mappings) drop() {
	for _, r := range m {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.from, r.to-r.from, unix.MADV_DONTNEED)
	}
}

// fileMappings returns where the program's file is mapped, which never changes. It
// omits mappings that a relocation or a debugger has written to.
func fileMappings() (all mappings) {
	program, err := os.Executable()
	if err != nil {
		return nil
	}
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil
	}
	defer f.Close()
	var r mapping
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := bytes.Fields(lines.Bytes())
		switch {
		case len(words) == 6 && words[1][0] == 'r' && words[1][1] == '-' && string(words[5]) == program:
			r.code = words[1][2] == 'x'
			_, _ = fmt.Sscanf(string(words[0]), "%x-%x", &r.from, &r.to)
		case len(words) == 3 && string(words[0]) == "Anonymous:":
			if r.from < r.to && string(words[1]) == "0" {
				all = append(all, r)
			}
			r = mapping{}
		}
	}
	return all
}
