package udp

import (
	"net"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOverflowsOutliveTheirSocket: a counter never goes back.
func TestOverflowsOutliveTheirSocket(t *testing.T) {
	f, _, err := openSocket(netip.MustParseAddrPort("127.0.0.1:0"), false)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{queues: []queue{{socket: f, sent: new(counters), received: new(counters)}}}
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var at unix.Sockaddr
	if cerr := raw.Control(func(fd uintptr) { at, err = unix.Getsockname(int(fd)) }); cerr != nil || err != nil {
		t.Fatal(cerr, err)
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
