package keepfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/trouble"
)

// What may make a file other than it was. Reading it is none of it.
const changes = unix.IN_MODIFY | unix.IN_CLOSE_WRITE | unix.IN_ATTRIB | unix.IN_CREATE | unix.IN_DELETE |
	unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// inotify is the kernel's watcher. A kernel's watch is on a folder itself and not
// on its path, so that watch asks for every path again each time: it is cheap,
// and another folder at the path shows by another number.
type inotify struct {
	file *os.File // not blocking: to close it ends a read

	mu      sync.Mutex
	numbers map[string]int32 // of the kernel's watch on the folder at a path
	outcome trouble.Outcome
}

func newWatch() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	return &inotify{file: os.NewFile(uintptr(fd), "inotify"), numbers: make(map[string]int32),
		outcome: trouble.Outcome{Failed: "Failed to watch a folder; polling its files"}}, nil
}

func (w *inotify) close() { w.file.Close() }

func (w *inotify) watch(folders []string) (before bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, now := w.numbers, make(map[string]int32)
	before = true
	var failure error
	for _, folder := range folders {
		number, err := w.add(folder)
		if err != nil {
			before = false
			// One that is not there comes with the file.
			if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ENOTDIR) {
				failure = &fs.PathError{Op: "watch", Path: folder, Err: err}
			}
			continue
		}
		now[folder] = number
		if old, ok := was[folder]; !ok || old != number {
			before = false
		}
	}
	w.numbers = now
	for _, number := range was {
		if len(w.paths(number)) == 0 {
			// It fails when the folder is gone, and the watch with it.
			_ = w.control(func(fd int) error { _, err := unix.InotifyRmWatch(fd, uint32(number)); return err })
		}
	}
	w.outcome.Was(failure, "interval", interval)
	return before
}

func (w *inotify) add(folder string) (number int32, err error) {
	err = w.control(func(fd int) error {
		n, err := unix.InotifyAddWatch(fd, folder, changes)
		number = int32(n)
		return err
	})
	return number, err
}

// control calls f with the descriptor, unless that is closed.
func (w *inotify) control(f func(fd int) error) error {
	raw, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var result error
	if err := raw.Control(func(fd uintptr) { result = f(int(fd)) }); err != nil {
		return err
	}
	return result
}

// paths returns those of the folder that a kernel's watch is on: there may be
// several, through links. The caller holds mu.
func (w *inotify) paths(number int32) []string {
	var paths []string
	for path, n := range w.numbers {
		if n == number {
			paths = append(paths, path)
		}
	}
	return paths
}

// read reports changes until the watch is closed.
func (w *inotify) read(changed func(folder, name string, everywhere bool)) {
	buf := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			if !errors.Is(err, fs.ErrClosed) {
				klog.ErrorS(err, "Failed to read file events; polling files", "interval", interval)
			}
			return
		}
		for rest := buf[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			number := int32(binary.NativeEndian.Uint32(rest))
			mask := binary.NativeEndian.Uint32(rest[4:])
			size := int(binary.NativeEndian.Uint32(rest[12:]))
			name, _, _ := bytes.Cut(rest[unix.SizeofInotifyEvent:][:size], []byte{0})
			rest = rest[unix.SizeofInotifyEvent+size:]
			w.event(number, mask, string(name), changed)
		}
	}
}

func (w *inotify) event(number int32, mask uint32, name string, changed func(folder, name string, everywhere bool)) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		changed("", "", true)
		return
	}
	w.mu.Lock()
	paths := w.paths(number)
	if mask&unix.IN_IGNORED != 0 {
		// The kernel may give the number to another folder.
		for _, path := range paths {
			delete(w.numbers, path)
		}
	}
	w.mu.Unlock()
	for _, path := range paths {
		changed(path, name, false)
	}
}
