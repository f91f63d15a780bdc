package iptables

import (
	"os"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// lock tells when a command lets go of the lock that all those of legacy iptables
// take before they write, and some to read.
type lock struct {
	path  string
	file  *os.File // not blocking: to close it ends a read
	free  chan struct{}
	ended chan struct{}
}

func newLock(path string) *lock {
	l := &lock{path: path, free: make(chan struct{}, 1), ended: make(chan struct{})}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		klog.InfoS("Not told of the commands of legacy iptables; reading its tables now and then", "err", os.NewSyscallError("inotify_init1", err))
		close(l.ended)
		return l
	}
	l.file = os.NewFile(uintptr(fd), "inotify")
	go l.listen()
	return l
}

// watch watches the file that is at the path now, which may be another than before,
// or none yet: then it is false.
func (l *lock) watch() bool {
	if l.file == nil {
		return false
	}
	raw, err := l.file.SyscallConn()
	if err != nil {
		return false
	}
	watching := false
	err = raw.Control(func(fd uintptr) {
		_, failed := unix.InotifyAddWatch(int(fd), l.path, unix.IN_CLOSE)
		watching = failed == nil
	})
	return err == nil && watching
}

func (l *lock) listen() {
	defer close(l.ended)
	var events [4096]byte
	for {
		if _, err := l.file.Read(events[:]); err != nil {
			return
		}
		select {
		case l.free <- struct{}{}:
		default:
		}
	}
}

func (l *lock) close() {
	if l.file != nil {
		l.file.Close()
	}
	<-l.ended
}
