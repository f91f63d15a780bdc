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

// openSocket opens a socket at an address. If shared, other sockets of this program may
// have the same. gso reports whether the kernel splits what is sent.
func openSocket(at netip.AddrPort, shared bool) (f *os.File, gso bool, err error) {
	var options []datagram.Option
	if shared {
		options = append(options, datagram.Option{Level: unix.SOL_SOCKET, Name: unix.SO_REUSEPORT})
	}
	f, gso, err = datagram.Open(at, options...)
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		err = fmt.Errorf("%s: %w: find the program with «ss -lunp sport = %d», then stop it or give this network another Port", at, err, at.Port())
	case err != nil:
		err = fmt.Errorf("%s: %w", at, err)
	}
	return f, gso, err
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
