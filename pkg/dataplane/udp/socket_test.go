package udp

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestOverflowsOutliveTheirSocket: a counter never goes back.
func TestOverflowsOutliveTheirSocket(t *testing.T) {
	socket, _, err := openSocket(netip.MustParseAddrPort("127.0.0.1:0"), false)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{queues: []queue{{socket: socket, sent: new(counters), received: new(counters)}}}
	at, err := unix.Getsockname(socket.fd)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("udp", netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(at.(*unix.SockaddrInet4).Port)).String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data := make([]byte, 60000)
	for sent := 0; l.counts().Dropped[Overflow] == 0; sent += len(data) {
		if sent > 64<<20 {
			t.Fatalf("the socket holds %d bytes", sent)
		}
		if _, err := c.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	before := l.counts().Dropped[Overflow]
	l.close()
	if now := l.counts().Dropped[Overflow]; now != before {
		t.Errorf("the closed link has lost %d packets, the open one %d", now, before)
	}
}

// TestSendingWakesNoReader: the kernel reports each datagram that has left.
func TestSendingWakesNoReader(t *testing.T) {
	socket, _, err := openSocket(netip.MustParseAddrPort("127.0.0.1:0"), false)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.close()
	at, err := unix.Getsockname(socket.fd)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []struct {
		name string
		at   unix.Sockaddr
		want int
	}{
		{"another socket", &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}, 0},
		{"this one", at, 1},
	} {
		if err := unix.Sendto(socket.fd, []byte("hello"), 0, to.at); err != nil {
			t.Fatal(err)
		}
		if n := reported(t, &socket.arrivals); n != to.want {
			t.Errorf("a datagram to %s: %d events, want %d", to.name, n, to.want)
		}
	}
}

// reported returns how many events a watch reports now.
func reported(t *testing.T, w *watch) (n int) {
	t.Helper()
	var err error
	if failed := w.raw.Control(func(set uintptr) { n, err = unix.EpollWait(int(set), make([]unix.EpollEvent, 1), 0) }); failed != nil || err != nil {
		t.Fatal(failed, err)
	}
	return n
}

// fullSocket returns the batch of a socket that has less room than is to be sent, to a host that
// the kernel waits for, and what ends when all is sent.
func fullSocket(t *testing.T) (ns *kerneltest.NS, b *batch, flushed chan error) {
	t.Helper()
	ns, far := kerneltest.NewNS(t, "near"), kerneltest.NewNS(t, "far")
	kerneltest.Join(t, ns, "eth0", far, "eth0")
	ns.IP(t, "addr add 198.18.0.1/24 dev eth0")
	ns.Sysctl(t, "net/ipv4/neigh/eth0/mcast_solicit", "1000") // it does not give up
	ns.Do(t, func() error {
		socket, gso, err := openSocket(netip.MustParseAddrPort("198.18.0.1:0"), false)
		if err != nil {
			return err
		}
		t.Cleanup(socket.close)
		b = newBatch(socket, new(counters), gso)
		return unix.SetsockoptInt(socket.fd, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096)
	})
	to := newEndpoint(netip.MustParseAddrPort("198.18.0.2:9"))
	for size := range maxMessages { // each is larger than the one before, so it is a message
		b.room(0)
		b.add(&to, make([]byte, 1000+size), nil)
	}
	flushed = make(chan error, 1)
	go func() { flushed <- b.flush() }()
	for waiting := false; !waiting; {
		n, err := unix.IoctlGetInt(b.socket.fd, unix.TIOCOUTQ)
		if err != nil {
			t.Fatal(err)
		}
		waiting = n > 4096
	}
	return ns, b, flushed
}

// TestWriterWaitsForRoom: what the socket has no room for is sent later. After that, what leaves
// is reported no more.
func TestWriterWaitsForRoom(t *testing.T) {
	ns, b, flushed := fullSocket(t)
	select {
	case err := <-flushed:
		t.Fatalf("%d datagrams are sent: %v", b.counters.packets.Load(), err)
	default:
	}
	ns.IP(t, "neigh replace 198.18.0.2 lladdr 02:00:00:00:00:02 dev eth0")
	if err := wait(t, flushed); err != nil {
		t.Fatal(err)
	}
	if n := b.counters.packets.Load(); n != maxMessages {
		t.Errorf("%d datagrams are sent, want %d", n, maxMessages)
	}
	if n := reported(t, &b.socket.room); n != 0 {
		t.Errorf("%d events after all is sent", n)
	}
}

func TestClosedSocketEndsAWait(t *testing.T) {
	_, b, flushed := fullSocket(t)
	b.socket.stop()
	if err := wait(t, flushed); err == nil {
		t.Error("flush reports no error")
	}
}

func wait(t *testing.T, flushed chan error) error {
	t.Helper()
	select {
	case err := <-flushed:
		return err
	case <-time.After(time.Minute):
		t.Fatal("flush still waits after a minute")
		return nil
	}
}
