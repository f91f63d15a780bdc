package datagram

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Name is an address and port as the kernel takes it.
type Name struct {
	bytes [unix.SizeofSockaddrInet6]byte
	size  uint32
}

// NameOf returns the name of an address and port.
func NameOf(at netip.AddrPort) (n Name) {
	binary.BigEndian.PutUint16(n.bytes[2:], at.Port()) // in the same place for both
	if at.Addr().Is4() {
		to := (*unix.RawSockaddrInet4)(unsafe.Pointer(&n.bytes))
		to.Family, to.Addr, n.size = unix.AF_INET, at.Addr().As4(), unix.SizeofSockaddrInet4
		return n
	}
	to := (*unix.RawSockaddrInet6)(unsafe.Pointer(&n.bytes))
	to.Family, to.Addr, n.size = unix.AF_INET6, at.Addr().As16(), unix.SizeofSockaddrInet6
	return n
}

// bind binds a socket to the address and port.
func (n *Name) bind(fd int) error {
	_, _, errno := unix.Syscall(unix.SYS_BIND, uintptr(fd), uintptr(unsafe.Pointer(&n.bytes)), uintptr(n.size))
	if errno != 0 {
		return errno
	}
	return nil
}

// Is4 reports whether the address is one of IPv4.
func (n *Name) Is4() bool { return binary.NativeEndian.Uint16(n.bytes[:]) == unix.AF_INET }

// Addr4 and Addr6 are where the address is, according to Is4.
func (n *Name) Addr4() []byte { return n.bytes[4:8] }

// Addr6 is like Addr4.
func (n *Name) Addr6() []byte { return n.bytes[8:24] }

// AddrPort returns the address and port, without the zone.
func (n *Name) AddrPort() netip.AddrPort {
	a := netip.AddrFrom16([16]byte(n.Addr6()))
	if n.Is4() {
		a = netip.AddrFrom4([4]byte(n.Addr4()))
	}
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(n.bytes[2:]))
}

// take sets the size of a name that the kernel has written.
func (n *Name) take(size uint32) { n.size = min(size, uint32(len(n.bytes))) }

// TakeName completes the name that the kernel has written for m.
func (m *Message) TakeName(n *Name) { n.take(m.Namelen) }
