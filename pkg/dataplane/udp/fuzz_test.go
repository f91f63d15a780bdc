package udp

import (
	"net"
	"net/netip"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

// fuzzLink returns a link between this host and two others.
func fuzzLink(v6 bool) *link {
	l := &link{network: spanOf(netip.MustParsePrefix("10.5.0.0/16")), own: spanOf(netip.MustParsePrefix("10.5.1.0/24"))}
	peers := map[netip.Prefix]netip.AddrPort{
		netip.MustParsePrefix("10.5.2.0/24"): netip.MustParseAddrPort("127.0.0.1:9"),
		netip.MustParsePrefix("10.5.3.0/24"): netip.MustParseAddrPort("127.0.0.2:9"),
	}
	l.source = netip.MustParseAddr("10.5.0.0")
	if v6 {
		l.v6 = true
		l.network, l.own = spanOf(netip.MustParsePrefix("fd00:5::/48")), spanOf(netip.MustParsePrefix("fd00:5:0:1::/64"))
		peers = map[netip.Prefix]netip.AddrPort{
			netip.MustParsePrefix("fd00:5:0:2::/64"): netip.MustParseAddrPort("127.0.0.1:9"),
			netip.MustParsePrefix("fd00:5:0:3::/64"): netip.MustParseAddrPort("127.0.0.2:9"),
		}
		l.source = netip.MustParseAddr("fd00:5::")
	}
	l.complains = addrOf(l.source)
	l.table.Store(newTable(peers))
	return l
}

// fuzzDevice returns two ends of a device: what is written to one can be read from the
// other, in whole packets.
func fuzzDevice(t testing.TB) (near, far *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		// A receiver writes all packets of its messages before one is read here.
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20); err != nil {
			t.Fatal(err)
		}
	}
	near, far = os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	t.Cleanup(func() { near.Close(); far.Close() })
	return near, far
}

// fuzzSeeds are datagrams of one packet and of many.
func fuzzSeeds() (all [][]byte) {
	v4 := []byte{0x45, 0, 0, 28, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 5, 2, 9, 10, 5, 1, 2, 0, 7, 0, 9, 0, 8, 0, 0}
	v6 := append([]byte{0x60, 0, 0, 0, 0, 8, 17, 64}, make([]byte, 40)...)
	copy(v6[8:], netip.MustParseAddr("fd00:5:0:2::9").AsSlice())
	copy(v6[24:], netip.MustParseAddr("fd00:5:0:1::2").AsSlice())
	copy(v6[40:], v4[20:])
	for _, p := range [][]byte{v4, v6} {
		all = append(all, p, append(append([]byte{}, p...), p...), p[:len(p)-1], nil)
	}
	return all
}

// FuzzReceive gives a receiver a datagram, and checks what it hands to the device: whole
// packets to the network, with a source that their sender may have.
func FuzzReceive(f *testing.F) {
	for _, p := range fuzzSeeds() {
		f.Add(p, uint16(28), byte(1))
		f.Add(p, uint16(48), byte(2))
		f.Add(p, uint16(0), byte(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, segment uint16, sender byte) {
		if len(data) > maxPacket {
			return
		}
		near, far := fuzzDevice(t)
		tun, err := near.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for _, v6 := range []bool{false, true} {
			l, c := fuzzLink(v6), new(counters)
			r := newReceiver(l, nil, tun, true, c)
			from := newEndpoint(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, sender}), 9))
			r.names[0] = from.name
			m := &r.messages[0]
			m.Length = uint32(copy(r.buffers[0][:], data))
			m.SetControllen(0)
			if segment > 0 {
				h := (*unix.Cmsghdr)(unsafe.Pointer(&r.controls[0]))
				h.Level, h.Type = unix.SOL_UDP, unix.UDP_GRO
				h.SetLen(unix.CmsgLen(4))
				*(*int32)(unsafe.Add(unsafe.Pointer(&r.controls[0]), unix.CmsgLen(0))) = int32(segment)
				m.SetControllen(unix.CmsgSpace(4))
			}
			r.accept(0)
			r.merger.Flush()
			handed := readAll(t, far)
			for _, b := range handed {
				checkHanded(t, l, from.host, b)
			}
			pieces := 1
			if segment > 0 {
				pieces = max((len(data)+int(segment)-1)/int(segment), 1)
			}
			var dropped uint64
			for why := range c.dropped {
				dropped += c.dropped[why].Load()
			}
			if all := c.packets.Load() + dropped; all != uint64(pieces) {
				t.Errorf("of %d packets, %d are counted", pieces, all)
			}
			if n := len(handed); uint64(n) > c.packets.Load() {
				t.Errorf("%d packets are handed over, %d counted", n, c.packets.Load())
			}
		}
	})
}

// readAll reads the packets that wait at an end of a device.
func readAll(t *testing.T, f *os.File) (all [][]byte) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1<<18)
	if err := raw.Control(func(fd uintptr) {
		for {
			n, err := unix.Read(int(fd), b)
			if n <= 0 || err != nil {
				return
			}
			all = append(all, append([]byte{}, b[:n]...))
		}
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

func checkHanded(t *testing.T, l *link, host packet.Addr, b []byte) {
	t.Helper()
	if len(b) < packet.VNetSize {
		t.Fatalf("the device gets %d bytes", len(b))
	}
	p := b[packet.VNetSize:]
	ip, ok := packet.Parse(p)
	if !ok || ip.V6 != l.v6 {
		t.Fatalf("the device gets no whole packet: %x", p)
	}
	source, destination := ip.Addresses(p)
	switch {
	case !l.network.contains(destination):
		t.Errorf("a packet goes outside the network: %x", p)
	case source == l.complains:
	case l.isOwn(source), l.table.Load().elsewhere(host, source), !routable(source, l.v6):
		t.Errorf("a packet comes from another host: %x", p)
	}
}

// FuzzSend gives a sender a packet of the device with any header. What it sends are whole
// packets, to peers.
func FuzzSend(f *testing.F) {
	for _, p := range fuzzSeeds() {
		f.Add(append(make([]byte, packet.VNetSize), p...))
		for _, v := range []packet.VNet{
			{NeedsChecksum: true, Kind: packet.UDP, SegmentSize: 1, ChecksumStart: 20, ChecksumAt: 6},
			{NeedsChecksum: true}, // in the IP header
		} {
			var header [packet.VNetSize]byte
			v.Write(&header)
			f.Add(append(header[:], p...))
		}
	}
	sink, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.1:0")))
	if err != nil {
		f.Fatal(err)
	}
	defer sink.Close()
	_ = sink.SetReadBuffer(16 << 20)
	at := sink.LocalAddr().(*net.UDPAddr).AddrPort()
	socket, gso, err := openSocket(netip.MustParseAddrPort("127.0.0.1:0"), false)
	if err != nil {
		f.Fatal(err)
	}
	defer socket.close()
	arrived, err := sink.File()
	if err != nil {
		f.Fatal(err)
	}
	defer arrived.Close()
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) < packet.VNetSize || len(data) > packet.VNetSize+maxPacket {
			return
		}
		near, far := fuzzDevice(t)
		tun, err := near.SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		for _, v6 := range []bool{false, true} {
			l, c := fuzzLink(v6), new(counters)
			l.table.Store(newTable(map[netip.Prefix]netip.AddrPort{l.anyPrefix(): at}))
			s := newSender(l, tun, socket, gso, c)
			copy(s.vnet[:], data)
			size := copy(s.buffer[:], data[packet.VNetSize:])
			s.forward(&held{0, size, packet.ReadVNet(&s.vnet)})
			if err := s.batch.flush(); err != nil {
				t.Fatal(err)
			}
			for _, p := range readAll(t, arrived) {
				if _, ok := packet.Parse(p); !ok { // of either family: it may arrive late
					t.Errorf("a peer gets no whole packet: %x", p)
				}
			}
			for _, b := range readAll(t, far) {
				if ip, ok := packet.Parse(b[packet.VNetSize:]); !ok || ip.V6 != v6 {
					t.Errorf("the device gets no whole packet: %x", b)
				}
			}
		}
	})
}

// anyPrefix returns all addresses of the link's family.
func (l *link) anyPrefix() netip.Prefix {
	if l.v6 {
		return netip.MustParsePrefix("::/0")
	}
	return netip.MustParsePrefix("0.0.0.0/0")
}
