package udp

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// watch waits for certain events of one descriptor. It is a set of epoll with nothing else in it,
// which Go's runtime watches. The runtime would watch the descriptor itself for all events, and
// the kernel reports each datagram that has left a socket: a reader would wake for all that a
// writer sends.
type watch struct {
	file *os.File
	raw  syscall.RawConn
}

func newWatch(fd int, events uint32) (watch, error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return watch{}, os.NewSyscallError("epoll_create1", err)
	}
	if err = control(set, unix.EPOLL_CTL_ADD, fd, events); err == nil {
		err = os.NewSyscallError("fcntl", unix.SetNonblock(set, true)) // so that the runtime watches it
	}
	if err != nil {
		unix.Close(set)
		return watch{}, err
	}
	w := watch{file: os.NewFile(uintptr(set), "epoll")}
	if w.raw, err = w.file.SyscallConn(); err != nil {
		w.close()
	}
	return w, err
}

// until calls done, with the set's descriptor, before and after each wait for an event, until
// it reports true. It fails once the watch is closed.
func (w *watch) until(done func(set uintptr) bool) error { return w.raw.Read(done) }

func (w *watch) close() {
	if w.file != nil {
		w.file.Close()
	}
}

func control(set, operation, fd int, events uint32) error {
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(set, operation, fd, &unix.EpollEvent{Events: events}))
}
