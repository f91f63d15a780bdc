package clustertest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/subnet"
)

// echoSocket sends echo requests from a namespace, and receives only their answers.
// Packets must not be fragmented.
type echoSocket struct {
	family subnet.Family
	file   *os.File
}

// An echo request is an ICMP header, a mark that identifies it, and padding.
const (
	icmpHeader = 8
	markSize   = 8
	maxPacket  = 65535
)

var (
	ipHeader    = subnet.Pair[int]{20, 40}
	echoRequest = subnet.Pair[byte]{8, 128}
	echoReply   = subnet.Pair[byte]{0, 129}
)

// smallest returns the size of the smallest packet of a family.
func smallest(f subnet.Family) int { return ipHeader[f] + icmpHeader + markSize }

// newEchoSocket opens a socket in the namespace at path. It stays there, whichever
// thread uses it.
func newEchoSocket(path string, f subnet.Family) (s *echoSocket, err error) {
	err = Inside(path, func() error {
		s, err = openEchoSocket(f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open a socket in %s: %w", path, err)
	}
	return s, nil
}

// Inside runs f on a thread in the network namespace at path. Sockets that f opens
// stay there.
func Inside(path string, f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		done <- func() error {
			ns, err := os.Open(path)
			if err != nil {
				return err
			}
			defer ns.Close()
			if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("enter namespace %s: %w", path, err)
			}
			return f()
		}()
	}()
	return <-done
}

func openEchoSocket(f subnet.Family) (*echoSocket, error) {
	// A ping socket receives only its own answers, but by default no group may open
	// one.
	if err := os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 2147483647"), 0); err != nil {
		return nil, err
	}
	fd, err := unix.Socket([]int{unix.AF_INET, unix.AF_INET6}[f], unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC,
		[]int{unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6}[f])
	if err != nil {
		return nil, err
	}
	s := &echoSocket{family: f, file: os.NewFile(uintptr(fd), "echo")}
	if f == subnet.IPv4 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	} else {
		err = errors.Join(
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
			unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_DONTFRAG, 1))
	}
	// Make room for the answers of some seconds, in case the test has no time to read.
	err = errors.Join(err, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 4<<20),
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1))
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *echoSocket) close() { s.file.Close() }

// send sends a request with a mark, in a packet of size bytes.
func (s *echoSocket) send(to netip.Addr, mark uint64, size int) error {
	b := make([]byte, size-ipHeader[s.family])
	b[0] = echoRequest[s.family]
	binary.BigEndian.PutUint64(b[icmpHeader:], mark)
	fill(b[icmpHeader+markSize:])
	var addr unix.Sockaddr
	if s.family == subnet.IPv4 {
		addr = &unix.SockaddrInet4{Addr: to.As4()}
	} else {
		addr = &unix.SockaddrInet6{Addr: to.As16()}
	}
	conn, err := s.file.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = conn.Write(func(fd uintptr) bool {
		sent = unix.Sendto(int(fd), b, 0, addr)
		return !errors.Is(sent, unix.EAGAIN)
	})
	return errors.Join(err, sent)
}

// receive waits for an answer. It returns its mark, and when the kernel received it. It
// ignores an answer that was changed on its way.
func (s *echoSocket) receive(buffer []byte) (mark uint64, at time.Time, err error) {
	for {
		n, at, err := s.read(buffer)
		if err != nil {
			return 0, time.Time{}, err
		}
		b := buffer[:n]
		if len(b) < icmpHeader+markSize || b[0] != echoReply[s.family] {
			continue
		}
		rest := b[icmpHeader+markSize:]
		want := make([]byte, len(rest))
		fill(want)
		if bytes.Equal(rest, want) {
			return binary.BigEndian.Uint64(b[icmpHeader:]), at, nil
		}
	}
}

// read waits for a packet. at is when the kernel received it: on a busy machine, this
// process may run much later.
func (s *echoSocket) read(buffer []byte) (n int, at time.Time, err error) {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return 0, at, err
	}
	control := make([]byte, unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{}))))
	var given int
	failed := conn.Read(func(fd uintptr) bool {
		n, given, _, _, err = unix.Recvmsg(int(fd), buffer, control, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	now := time.Now()
	if err = errors.Join(failed, err); err != nil {
		return 0, at, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:given])
	if err != nil {
		return 0, at, err
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SCM_TIMESTAMPNS {
			stamp := *(*unix.Timespec)(unsafe.Pointer(&m.Data[0]))
			// Convert to the monotonic clock, which everything here uses.
			return n, now.Add(-max(0, now.Sub(time.Unix(stamp.Unix())))), nil
		}
	}
	return n, now, nil
}

// pending reports whether there are packets to read.
func (s *echoSocket) pending() bool {
	conn, err := s.file.SyscallConn()
	if err != nil {
		return false
	}
	ready := 0
	_ = conn.Control(func(fd uintptr) {
		ready, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
	})
	return ready > 0
}

// fill returns the padding of requests.
func fill(b []byte) {
	for i := range b {
		b[i] = byte(i)
	}
}

func (s *echoSocket) deadline(t time.Time) error { return s.file.SetReadDeadline(t) }
