package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

// socket is a UDP socket and what waits for it. What moves packets holds the descriptor until it
// has ended.
type socket struct {
	fd       int
	arrivals watch // of packets
	room     watch // for packets, while watchRoom has turned it on
	closed   bool
}

// openSocket opens a socket at an address. If shared, other sockets of this program may
// have the same. gso reports whether the kernel splits what is sent.
func openSocket(at netip.AddrPort, shared bool) (s *socket, gso bool, err error) {
	var options []datagram.Option
	if shared {
		options = append(options, datagram.Option{Level: unix.SOL_SOCKET, Name: unix.SO_REUSEPORT})
	}
	fd, gso, err := datagram.Socket(at, options...)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, false, fmt.Errorf("%s: %w: find the program with «ss -lunp sport = %d», then stop it or give this network another Port", at, err, at.Port())
	case err != nil:
		return nil, false, fmt.Errorf("%s: %w", at, err)
	}
	s = &socket{fd: fd}
	if s.arrivals, err = newWatch(fd, unix.EPOLLIN|unix.EPOLLET); err == nil {
		s.room, err = newWatch(fd, 0)
	}
	if err != nil {
		s.close()
		return nil, false, err
	}
	return s, gso, nil
}

// watchRoom lets room's set, of which it gets the descriptor, report when there is room, or not.
// While it does, each datagram that leaves wakes what polls.
func (s *socket) watchRoom(set uintptr, on bool) error {
	var events uint32
	if on {
		events = unix.EPOLLOUT
	}
	return control(int(set), unix.EPOLL_CTL_MOD, s.fd, events)
}

// stop ends what waits, now and later.
func (s *socket) stop() {
	s.arrivals.close()
	s.room.close()
}

func (s *socket) close() {
	s.stop()
	if !s.closed {
		s.closed = true
		unix.Close(s.fd)
	}
}

// checkFree returns why no socket can be opened at an address. Sockets that are shared
// would open beside those of another process of this user, and each gets a part of the
// packets.
func checkFree(at netip.AddrPort) error {
	s, _, err := openSocket(at, false)
	if err != nil {
		return err
	}
	s.close()
	return nil
}

// overflows returns how many packets a socket had no room for; 0 for a closed one.
func (s *socket) overflows() uint64 {
	if s.closed {
		return 0
	}
	const drops = 8 // of the numbers of SO_MEMINFO, from linux/sock_diag.h
	var numbers [drops + 1]uint32
	size := uint32(unsafe.Sizeof(numbers))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(s.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&numbers)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return 0
	}
	return uint64(numbers[drops])
}
