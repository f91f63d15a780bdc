package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is the kernel's mmsghdr, as recvmmsg and sendmmsg take it.
type message struct {
	unix.Msghdr
	length uint32 // of what was received
}

// control is room for a control message with the size of segments.
type control [4]uint64

// setSegments makes the kernel split m into packets of this size.
func (c *control) setSegments(m *message, size int) {
	h := (*unix.Cmsghdr)(unsafe.Pointer(c))
	h.Level, h.Type = unix.SOL_UDP, unix.UDP_SEGMENT
	h.SetLen(unix.CmsgLen(2))
	*(*uint16)(unsafe.Add(unsafe.Pointer(c), unix.CmsgLen(0))) = uint16(size)
	m.Control = (*byte)(unsafe.Pointer(c))
	m.SetControllen(unix.CmsgSpace(2))
}

// segments returns the size of the packets that the kernel has joined in m, or 0 if m is
// one packet. It is the only control message that the socket asks for.
func (c *control) segments(m *message) int {
	if int(m.Controllen) < unix.CmsgLen(4) {
		return 0
	}
	h := (*unix.Cmsghdr)(unsafe.Pointer(c))
	if h.Level != unix.SOL_UDP || h.Type != unix.UDP_GRO || int(h.Len) < unix.CmsgLen(4) {
		return 0
	}
	return int(*(*int32)(unsafe.Add(unsafe.Pointer(c), unix.CmsgLen(0))))
}

// move sends or receives messages without waiting, as the system call says.
func move(call, fd uintptr, messages []message) (int, unix.Errno) {
	for {
		n, _, errno := unix.Syscall6(call, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}
