package datagram

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Message is the kernel's mmsghdr, as recvmmsg and sendmmsg take it.
type Message struct {
	unix.Msghdr
	Length uint32 // of what was received
}

// SetName sets the address that m is sent to.
func (m *Message) SetName(n *Name) { m.Name, m.Namelen = &n.bytes[0], n.size }

// SetRoomForName sets where the kernel writes the address that m came from. Call TakeName
// afterwards.
func (m *Message) SetRoomForName(n *Name) { m.Name, m.Namelen = &n.bytes[0], uint32(len(n.bytes)) }

// SetVectors sets the parts of memory that m consists of.
func (m *Message) SetVectors(v []unix.Iovec) {
	m.Iov = &v[0]
	m.SetIovlen(len(v))
}

// Move sends or receives messages without waiting, as the system call says: SYS_SENDMMSG or
// SYS_RECVMMSG. Since it does not wait, it keeps its processor of Go's: to give that to others
// and to get it back costs more than they would do.
func Move(call, fd uintptr, messages []Message) (int, unix.Errno) {
	for {
		n, _, errno := unix.RawSyscall6(call, fd, uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), unix.MSG_DONTWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}
