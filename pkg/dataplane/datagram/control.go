package datagram

import (
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Source is the address of this host, and the interface, that a datagram came to, or that one
// leaves from. The zero Source leaves the choice to the kernel.
type Source struct {
	Addr netip.Addr
	Link int32
}

// Control is room for the control messages of a Message.
type Control struct {
	room [controlRoom / 8]uint64
}

// controlRoom is enough for the size of segments and a Source of IPv6.
const controlRoom = 64

// Receive gives m the room, so that the kernel fills it.
func (c *Control) Receive(m *Message) {
	m.Control = (*byte)(unsafe.Pointer(c))
	m.SetControllen(controlRoom)
}

// Send makes the kernel send m from a Source, and split it into datagrams of a size. Either
// may be zero.
func (c *Control) Send(m *Message, size int, from Source) {
	used := 0
	if size > 0 {
		*(*uint16)(c.add(&used, unix.SOL_UDP, unix.UDP_SEGMENT, 2)) = uint16(size)
	}
	switch {
	case from.Addr.Is4():
		info := (*unix.Inet4Pktinfo)(c.add(&used, unix.IPPROTO_IP, unix.IP_PKTINFO, unix.SizeofInet4Pktinfo))
		*info = unix.Inet4Pktinfo{Ifindex: from.Link, Spec_dst: from.Addr.As4()}
	case from.Addr.Is6():
		info := (*unix.Inet6Pktinfo)(c.add(&used, unix.IPPROTO_IPV6, unix.IPV6_PKTINFO, unix.SizeofInet6Pktinfo))
		*info = unix.Inet6Pktinfo{Ifindex: uint32(from.Link), Addr: from.Addr.As16()}
	}
	m.Control = nil
	if used > 0 {
		m.Control = (*byte)(unsafe.Pointer(c))
	}
	m.SetControllen(used)
}

// add adds the header of a control message, and returns where its data belongs.
func (c *Control) add(used *int, level, kind int32, size int) unsafe.Pointer {
	h := (*unix.Cmsghdr)(unsafe.Add(unsafe.Pointer(c), *used))
	h.Level, h.Type = level, kind
	h.SetLen(unix.CmsgLen(size))
	*used += unix.CmsgSpace(size)
	return unsafe.Add(unsafe.Pointer(h), unix.CmsgLen(0))
}

// Received returns what the kernel has said of m: the size of the datagrams that it has joined,
// or 0 if m is a single one, and where it came to, if the socket asks for that.
func (c *Control) Received(m *Message) (size int, to Source) {
	for at, end := 0, min(int(m.Controllen), controlRoom); end-at >= unix.CmsgLen(0); {
		h := (*unix.Cmsghdr)(unsafe.Add(unsafe.Pointer(c), at))
		length, data := int(h.Len)-unix.CmsgLen(0), unsafe.Add(unsafe.Pointer(h), unix.CmsgLen(0))
		if length < 0 || length > end-at-unix.CmsgLen(0) {
			break
		}
		switch {
		case h.Level == unix.SOL_UDP && h.Type == unix.UDP_GRO && length >= 4:
			size = int(*(*int32)(data))
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && length >= unix.SizeofInet4Pktinfo:
			info := (*unix.Inet4Pktinfo)(data)
			to = Source{netip.AddrFrom4(info.Spec_dst), info.Ifindex}
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && length >= unix.SizeofInet6Pktinfo:
			info := (*unix.Inet6Pktinfo)(data)
			to = Source{netip.AddrFrom16(info.Addr), int32(info.Ifindex)}
		}
		at += unix.CmsgSpace(length)
	}
	return size, to
}
