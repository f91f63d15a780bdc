// Package tunfile finds out which device an open file of /dev/net/tun moves the packets of.
package tunfile

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// IsOn reports whether a file is on the device with this name in the network namespace where
// the file was opened. A device keeps its files, and may keep its name, in another one.
func IsOn(file syscall.RawConn, name string) bool {
	is := false
	err := file.Control(func(fd uintptr) {
		var request unix.Ifreq
		if unix.IoctlIfreq(int(fd), unix.TUNGETIFF, &request) != nil || request.Name() != name {
			return
		}
		there, here := namespace(fd, unix.TUNGETDEVNETNS), namespace(fd, unix.SIOCGSKNS)
		is = there == here || there == 0 || here == 0
	})
	return err == nil && is
}

// namespace returns the number of the network namespace that a request returns, or 0 if
// it is refused, as that for a device before Linux 5.2.
func namespace(fd uintptr, request uint) uint64 {
	n, err := unix.IoctlRetInt(int(fd), request)
	if err != nil {
		return 0
	}
	defer unix.Close(n)
	var is unix.Stat_t
	if unix.Fstat(n, &is) != nil {
		return 0
	}
	return is.Ino
}
