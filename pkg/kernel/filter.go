package kernel

import (
	"os"

	"golang.org/x/sys/unix"
)

// leaveOut makes the kernel keep messages that answer to port from the socket fd: the
// events of what Apply did, which are as many as its steps.
func leaveOut(fd int, port uint32) error {
	// The filter reads numbers in network order on every processor.
	var b [4]byte
	native.PutUint32(b[:], port)
	swapped := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	const portOffset = 12 // of nlmsg_pid in the header
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: portOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: swapped},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: ^uint32(0)},
	}
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{
		Len: uint16(len(program)), Filter: &program[0],
	})
	return os.NewSyscallError("setsockopt", err)
}
