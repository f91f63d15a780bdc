package datagram

import (
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// buffer is how much a socket holds in each direction, at most: what arrives while the
// program waits for a processor. Memory is used only when it is needed.
const buffer = 8 << 20

// Option is an option of a socket to turn on.
type Option struct{ Level, Name int }

// Open opens a socket at an address. splits reports whether the kernel splits what is sent.
func Open(at netip.AddrPort, options ...Option) (f *os.File, splits bool, err error) {
	fd, splits, err := Socket(at, options...)
	if err != nil {
		return nil, false, err
	}
	return os.NewFile(uintptr(fd), "udp"), splits, nil
}

// Socket is Open for a caller that waits in its own way: Go's runtime knows nothing of the
// socket.
func Socket(at netip.AddrPort, options ...Option) (fd int, splits bool, err error) {
	family := unix.AF_INET6
	if at.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err = unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, false, os.NewSyscallError("socket", err)
	}
	if splits, err = setUp(fd, at, options); err != nil {
		unix.Close(fd)
		return -1, false, err
	}
	return fd, splits, nil
}

func setUp(fd int, at netip.AddrPort, options []Option) (splits bool, err error) {
	for _, o := range options {
		if err := unix.SetsockoptInt(fd, o.Level, o.Name, 1); err != nil {
			return false, os.NewSyscallError("setsockopt", err)
		}
	}
	for _, o := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[0], buffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[1], buffer) // up to what the host allows every program
		}
	}
	// Without these, which are younger than Linux 4.18 and 5.0, it is slower.
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	splits = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0) == nil
	name := NameOf(at)
	return splits, os.NewSyscallError("bind", name.bind(fd))
}
