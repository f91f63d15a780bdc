package daemon

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

func TestDropPages(t *testing.T) {
	pages := fileMappings()
	// A daemon that another test has started also drops pages.
	kerneltest.Eventually(t, time.Minute, func() error {
		for _, r := range pages { // kernels before 5.14 cannot do this, and have mapped some already
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, r.from, r.to-r.from, unix.MADV_POPULATE_READ)
		}
		before := residentFile(t)
		pages.drop()
		if after := residentFile(t); after >= before {
			return fmt.Errorf("%d KiB of the program's file are in memory, as there were %d before", after, before)
		}
		return nil
	})
}

// A drop is useless, and harmful, while the host is short of memory: pages that are
// needed again come from the disk.
func TestPaceOfDrops(t *testing.T) {
	at := func(s float64) time.Time { return time.Unix(1000, 0).Add(time.Duration(s * float64(time.Second))) }
	p := pace{started: at(3)}
	for _, c := range []struct {
		at     float64
		faults int64
		want   bool
	}{
		{0, 5, true}, {0.01, 8, true}, {0.9, 21, true}, // as often as needed in the start
		{1, 21, true}, {2, 37, true}, {2.9, 53, true}, // so few faults need no disk
		{3, 53, true}, {3.01, 53, false}, {4, 60, true}, {4.01, 60, false}, {5, 70, true},
		{6, 87, false}, {7, 87, false}, {65, 87, false},
		{66, 120, true}, {67, 136, true}, // pages that came from the disk in the pause were not dropped
		{68, 153, false}, {127, 153, false}, {128, 153, true},
	} {
		if got := p.allows(at(c.at), c.faults); got != c.want {
			t.Errorf("after %v s, with %d faults: %t", c.at, c.faults, got)
		}
	}
}

// TestAFaultMapsLittle checks that reading one byte maps no more than mostMapped, or
// one page, even if all of the file is cached.
func TestAFaultMapsLittle(t *testing.T) {
	most, page := mostMappings(), os.Getpagesize()
	for name, c := range map[string]struct {
		code       bool
		page, most int
		splits     bool
	}{
		"data":                {false, page, most, page <= mostMapped},
		"code":                {true, page, most, false},
		"large pages":         {false, 4 * mostMapped, most, false},
		"few mappings at all": {false, page, 8, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, b := mapFile(t)
			m.code = c.code
			all := mappings{m}
			all.split(c.page, c.most)
			if parts := partsOf(t, m); c.splits && parts != len(b)/mostMapped || !c.splits && parts != 1 {
				t.Errorf("the mapping has %d parts", parts)
			}
			for at := mostMapped / 2; at < len(b); at += mostMapped {
				all.drop()
				if b[at] != 7 {
					t.Errorf("byte %d is %d", at, b[at])
				}
				if n := present(t, m); n == 0 || c.splits && n > mostMapped {
					t.Errorf("the fault at %d maps %d bytes", at, n)
				}
			}
		})
	}
}

// TestSplitLeavesMappings checks that a program with few mappings left does not spend
// them here.
func TestSplitLeavesMappings(t *testing.T) {
	m, _ := mapFile(t)
	mappings{m}.split(1, 32)
	if n := partsOf(t, m); n > 5 {
		t.Errorf("it has %d parts, with 32 mappings for the whole program", n)
	}
}

// mapFile maps a file of many parts, whose bytes are all 7.
func mapFile(t *testing.T) (mapping, []byte) {
	t.Helper()
	const size = 16 * mostMapped
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, size), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	from := uintptr(unsafe.Pointer(&b[0]))
	return mapping{from: from, to: from + size}, b
}

// partsOf returns in how many parts the kernel has a mapping.
func partsOf(t *testing.T, m mapping) (n int) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err == nil && from < m.to && to > m.from {
			n++
		}
	}
	return n
}

// present returns how many bytes of a mapping are in this process's memory.
func present(t *testing.T, m mapping) (n int) {
	t.Helper()
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := uintptr(os.Getpagesize())
	entries := make([]byte, 8*(m.to-m.from)/page)
	if _, err := f.ReadAt(entries, int64(8*m.from/page)); err != nil {
		t.Fatal(err)
	}
	for e := range slices.Chunk(entries, 8) {
		if binary.NativeEndian.Uint64(e)>>63 == 1 {
			n += int(page)
		}
	}
	return n
}

func TestMapped(t *testing.T) {
	pages := newFilePages(time.Now())
	kerneltest.Eventually(t, time.Minute, func() error { // garbage collections map and drop pages
		if got, want := pages.mapped()>>10, residentFile(t); got < want*3/4 || got > want*4/3 {
			return fmt.Errorf("%d KiB of files are mapped, want %d", got, want)
		}
		return nil
	})
}

// The pages are limited often, so a check must make no garbage.
func TestALimitAllocatesNothing(t *testing.T) {
	pages := newFilePages(time.Now())
	if n := testing.AllocsPerRun(100, func() { pages.limit(); pages.drop() }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// A file that cannot be read is no reason to drop pages, which may contain a debugger's
// breakpoints.
func TestPagesWithoutProcStay(t *testing.T) {
	pages := &filePages{statm: -1, status: -1}
	if n := pages.mapped(); n != 0 || !pages.traced() {
		t.Errorf("%d bytes are mapped, traced %t", n, pages.traced())
	}
	pages = newFilePages(time.Now())
	if pages.traced() {
		t.Error("a debugger seems to be attached")
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
