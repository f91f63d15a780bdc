package datagram

import (
	"bytes"
	"net/netip"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestNames: a name has the address and port that it was made of.
func TestNames(t *testing.T) {
	for _, text := range []string{"192.0.2.1:8285", "[2001:db8::1]:1", "0.0.0.0:0", "[::ffff:192.0.2.1]:65535"} {
		at := netip.MustParseAddrPort(text)
		n := NameOf(at)
		if got := n.AddrPort(); got != at || n.Is4() != at.Addr().Is4() {
			t.Errorf("%s is %s", text, got)
		}
	}
}

// TestControls: the kernel splits a message that leaves from a source, joins its pieces, and says
// where they came to.
func TestControls(t *testing.T) {
	for _, c := range []struct {
		from, to string
		options  [][2]int
	}{
		{"127.0.0.3", "127.0.0.2", [][2]int{{unix.IPPROTO_IP, unix.IP_PKTINFO}, {unix.SOL_UDP, unix.UDP_GRO}}},
		{"::1", "::1", [][2]int{{unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO}, {unix.SOL_UDP, unix.UDP_GRO}}},
	} {
		any := netip.IPv4Unspecified()
		to := netip.MustParseAddr(c.to)
		if to.Is6() {
			any = netip.IPv6Unspecified()
		}
		near, far := open(t, any), open(t, to)
		for _, o := range c.options {
			if err := unix.SetsockoptInt(far, o[0], o[1], 1); err != nil {
				t.Fatal(err)
			}
		}
		name := NameOf(netip.AddrPortFrom(to, port(t, far)))
		from := Source{netip.MustParseAddr(c.from), 1} // lo
		data := bytes.Repeat([]byte("0123456789"), 45)
		for _, size := range []int{100, 0} { // 450 bytes in five pieces, and in one
			var out, in [1]Message
			var outRoom, inRoom Control
			out[0].SetName(&name)
			out[0].SetVectors(vectors(data))
			outRoom.Send(&out[0], size, from)
			if n, errno := Move(unix.SYS_SENDMMSG, uintptr(near), out[:]); n != 1 || errno != 0 {
				t.Fatal(n, errno)
			}
			got := make([]byte, 65535)
			var sender Name
			in[0].SetRoomForName(&sender)
			in[0].SetVectors(vectors(got))
			inRoom.Receive(&in[0])
			wait(t, far)
			if n, errno := Move(unix.SYS_RECVMMSG, uintptr(far), in[:]); n != 1 || errno != 0 {
				t.Fatal(n, errno)
			}
			in[0].TakeName(&sender)
			pieces, at := inRoom.Received(&in[0])
			if pieces != size || at != (Source{to, 1}) || !bytes.Equal(got[:in[0].Length], data) {
				t.Errorf("%d bytes in pieces of %d came to %v; want %d in pieces of %d to %s", in[0].Length, pieces, at, len(data), size, to)
			}
			if is := sender.AddrPort(); is != netip.AddrPortFrom(from.Addr, port(t, near)) {
				t.Errorf("they came from %s, want %s", is, from.Addr)
			}
		}
	}
}

// FuzzReceived: no control message is believed.
func FuzzReceived(f *testing.F) {
	var c Control
	var m Message
	for _, from := range []Source{{netip.MustParseAddr("192.0.2.1"), 3}, {netip.MustParseAddr("2001:db8::1"), 3}} {
		c.Send(&m, 1400, from)
		f.Add(unsafe.Slice((*byte)(unsafe.Pointer(&c)), controlRoom), int(m.Controllen))
	}
	f.Fuzz(func(_ *testing.T, data []byte, length int) {
		var c Control
		var m Message
		copy(unsafe.Slice((*byte)(unsafe.Pointer(&c)), controlRoom), data)
		c.Receive(&m)
		m.SetControllen(length)
		c.Received(&m)
	})
}

func vectors(b []byte) []unix.Iovec {
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	return []unix.Iovec{v}
}

// open opens a socket at an address, with a port that is free.
func open(t *testing.T, at netip.Addr) int {
	t.Helper()
	family := unix.AF_INET6
	if at.Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	name := NameOf(netip.AddrPortFrom(at, 0))
	if err := name.bind(fd); err != nil {
		t.Fatal(err)
	}
	return fd
}

func port(t *testing.T, fd int) uint16 {
	t.Helper()
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	switch is := name.(type) {
	case *unix.SockaddrInet4:
		return uint16(is.Port)
	case *unix.SockaddrInet6:
		return uint16(is.Port)
	}
	t.Fatalf("a socket at %v", name)
	return 0
}

// wait waits until something has come to a socket.
func wait(t *testing.T, fd int) {
	t.Helper()
	all := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if n, err := unix.Poll(all, 1000); err == nil && n == 1 {
			return
		}
	}
	t.Fatal("nothing came")
}
