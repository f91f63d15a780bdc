package udp

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

// endpoint is an address and port as the kernel takes it.
type endpoint struct {
	name [unix.SizeofSockaddrInet6]byte
	size uint32
	host packet.Addr // the address
}

func newEndpoint(at netip.AddrPort) (e endpoint) {
	e.host = addrOf(at.Addr())
	port := (*[2]byte)(unsafe.Pointer(&(*unix.RawSockaddrInet6)(unsafe.Pointer(&e.name)).Port)) // in the same place for both
	binary.BigEndian.PutUint16(port[:], at.Port())
	if at.Addr().Is4() {
		to := (*unix.RawSockaddrInet4)(unsafe.Pointer(&e.name))
		to.Family, to.Addr, e.size = unix.AF_INET, at.Addr().As4(), unix.SizeofSockaddrInet4
		return e
	}
	to := (*unix.RawSockaddrInet6)(unsafe.Pointer(&e.name))
	to.Family, to.Addr, e.size = unix.AF_INET6, at.Addr().As16(), unix.SizeofSockaddrInet6
	return e
}

// hostOf returns the address in a name that the kernel returned.
func hostOf(name *[unix.SizeofSockaddrInet6]byte) packet.Addr {
	if (*unix.RawSockaddrInet4)(unsafe.Pointer(name)).Family == unix.AF_INET {
		return packet.Addr{Low: uint64(binary.BigEndian.Uint32(name[4:]))}
	}
	return packet.Addr{High: binary.BigEndian.Uint64(name[8:]), Low: binary.BigEndian.Uint64(name[16:])}
}
