package udp

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/tunfile"
)

const tunFile = "/dev/net/tun"

// Offloads of a TUN device, from linux/if_tun.h: what may be left out of the packets that
// it hands over.
const (
	offloadChecksum = 0x01
	offloadTCP4     = 0x02
	offloadTCP6     = 0x04
	offloadUDP      = 0x20 | 0x40 // IPv4 and IPv6; since Linux 6.2

	offloads = offloadChecksum | offloadTCP4 | offloadTCP6
)

// openTUN opens a queue of an existing device. udp reports whether the device splits large
// packets of UDP.
func openTUN(name string) (f *os.File, udp bool, err error) {
	fd, err := unix.Open(tunFile, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, &os.PathError{Op: "open", Path: tunFile, Err: err}
	}
	if udp, err = attach(fd, name); err != nil {
		unix.Close(fd)
		return nil, false, fmt.Errorf("link %s: %w", name, err)
	}
	return os.NewFile(uintptr(fd), tunFile), udp, nil
}

func attach(fd int, name string) (udp bool, err error) {
	request, err := unix.NewIfreq(name)
	if err != nil {
		return false, err
	}
	request.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE)
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		return false, os.NewSyscallError("TUNSETIFF", err)
	}
	switch err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads|offloadUDP); {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EINVAL):
		err = unix.IoctlSetInt(fd, unix.TUNSETOFFLOAD, offloads)
	}
	return false, os.NewSyscallError("TUNSETOFFLOAD", err)
}

// isOn reports whether a queue is one of the device with this name in the network namespace
// where it was opened.
func isOn(f *os.File, name string) bool {
	raw, err := f.SyscallConn()
	return err == nil && tunfile.IsOn(raw, name)
}
