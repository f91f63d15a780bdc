package udp

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

// buffer is how much a socket holds in each direction, at most: what arrives while the
// program waits for a processor. Memory is used only when it is needed.
const buffer = 8 << 20

// openSocket opens a socket at an address. If shared, other sockets of this program may
// have the same. gso reports whether the kernel splits what is sent.
func openSocket(at netip.AddrPort, shared bool) (f *os.File, gso bool, err error) {
	family := unix.AF_INET6
	if at.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, false, os.NewSyscallError("socket", err)
	}
	if gso, err = setUp(fd, at, shared); err != nil {
		unix.Close(fd)
		return nil, false, err
	}
	return os.NewFile(uintptr(fd), "udp"), gso, nil
}

// checkFree returns why no socket can be opened at an address. Sockets that are shared
// would open beside those of another process of this user, and each gets a part of the
// packets.
func checkFree(at netip.AddrPort) error {
	f, _, err := openSocket(at, false)
	if err != nil {
		return err
	}
	return f.Close()
}

func setUp(fd int, at netip.AddrPort, shared bool) (gso bool, err error) {
	if shared {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
			return false, os.NewSyscallError("setsockopt", err)
		}
	}
	for _, o := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[0], buffer) != nil {
			// Up to what the host allows every program.
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[1], buffer); err != nil {
				return false, os.NewSyscallError("setsockopt", err)
			}
		}
	}
	// Without these, which are younger than Linux 4.18 and 5.0, it is slower.
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	gso = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0) == nil
	name := datagram.NameOf(at)
	switch err := name.Bind(fd); {
	case err == nil:
		return gso, nil
	case errors.Is(err, unix.EADDRINUSE):
		return false, fmt.Errorf("bind %s: %w: find the program with «ss -lunp sport = %d», then stop it or give this network another Port", at, err, at.Port())
	default:
		return false, fmt.Errorf("bind %s: %w", at, err)
	}
}

// overflows returns how many packets a socket had no room for; 0 for a closed one.
func overflows(f *os.File) uint64 {
	raw, err := f.SyscallConn()
	if err != nil {
		return 0
	}
	const drops = 8 // of the numbers of SO_MEMINFO, from linux/sock_diag.h
	var numbers [drops + 1]uint32
	size := uint32(unsafe.Sizeof(numbers))
	err = raw.Control(func(fd uintptr) {
		_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&numbers)), uintptr(unsafe.Pointer(&size)), 0)
		if errno != 0 {
			numbers[drops] = 0
		}
	})
	if err != nil {
		return 0
	}
	return uint64(numbers[drops])
}
