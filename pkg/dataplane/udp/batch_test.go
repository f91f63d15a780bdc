package udp

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestRefusedMessageIsSentInPieces: without checksums, the kernel splits no message.
func TestRefusedMessageIsSentInPieces(t *testing.T) {
	local := netip.MustParseAddr("127.0.0.1")
	sink, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	socket, _, err := openSocket(netip.AddrPortFrom(local, 0), false)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.close()
	if err := unix.SetsockoptInt(socket.fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
		t.Fatal(err)
	}
	to := newEndpoint(netip.AddrPortFrom(local, sink.LocalAddr().(*net.UDPAddr).AddrPort().Port()))
	c := new(counters)
	b := newBatch(socket, c, true)
	packets := [][]byte{bytes.Repeat([]byte("a"), 1000), bytes.Repeat([]byte("b"), 1000), bytes.Repeat([]byte("c"), 1000), bytes.Repeat([]byte("d"), 500)}
	for range 2 {
		for _, p := range packets {
			space := b.room(40)
			copy(space, p)
			b.add(&to, space, p[len(space):])
		}
		if err := b.flush(); err != nil {
			t.Fatal(err)
		}
	}
	_ = sink.SetReadDeadline(time.Now().Add(time.Minute))
	got := make([]byte, 2000)
	for i := range 2 * len(packets) {
		n, err := sink.Read(got)
		if want := packets[i%len(packets)]; err != nil || !bytes.Equal(got[:n], want) {
			t.Fatalf("datagram %d: %.9q with %d bytes, %v; want %.9q with %d", i, got[:n], n, err, want, len(want))
		}
	}
	if n, size, refused := c.packets.Load(), c.bytes.Load(), c.dropped[Refused].Load(); n != 8 || size != 7000 || refused != 0 {
		t.Errorf("%d packets and %d bytes are counted, %d refused", n, size, refused)
	}
}
