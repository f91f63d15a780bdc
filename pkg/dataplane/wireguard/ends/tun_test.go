package ends

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

// offset is where packets begin in a device's buffers.
const offset = 16

// pipe is a device whose packets come from a test, and go to it.
type pipe struct {
	tun.Device
	near, far *os.File
}

func (p pipe) File() *os.File { return p.near }

// newPipe returns a device and its other end. What is written to one can be read from the other, in
// whole packets.
func newPipe(t testing.TB) (*tunDevice, *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20); err != nil {
			t.Fatal(err)
		}
	}
	p := pipe{near: os.NewFile(uintptr(fds[0]), "near"), far: os.NewFile(uintptr(fds[1]), "far")}
	t.Cleanup(func() { p.near.Close(); p.far.Close() })
	d, err := newTUN(p, newFlow(func() {}), newFlow(func() {}))
	if err != nil {
		t.Fatal(err)
	}
	return d, p.far
}

// large returns a packet that stands for many, with a header of the device before it.
func large(v6, udp bool, options, size, payload int, random *rand.Rand) []byte {
	ip, transport, v := make([]byte, 20), make([]byte, 20+4*options), packet.VNet{NeedsChecksum: true, Kind: packet.TCP4, ChecksumAt: 16}
	if v6 {
		ip, v.Kind = make([]byte, 40), packet.TCP6
	}
	protocol := byte(6)
	if udp {
		transport, v.Kind, v.ChecksumAt, protocol = make([]byte, 8), packet.UDP, 6, 17
	} else {
		transport[12] = byte(5+options) << 4
		transport[13] = 16
	}
	v.ChecksumStart, v.SegmentSize = uint16(len(ip)), uint16(size)
	length := len(ip) + len(transport) + payload
	if v6 {
		ip[0], ip[6] = 0x60, protocol
		binary.BigEndian.PutUint16(ip[4:], uint16(length-40))
	} else {
		ip[0], ip[9] = 0x45, protocol
		binary.BigEndian.PutUint16(ip[2:], uint16(length))
	}
	if payload <= size {
		v.Kind, v.SegmentSize = packet.Whole, 0
	}
	var head [packet.VNetSize]byte
	v.Write(&head)
	data := make([]byte, payload)
	for i, first := 0, byte(random.Uint32()); i < len(data); i++ {
		data[i] = first + byte(i*7)
	}
	return slices.Concat(head[:], ip, transport, data)
}

// expected returns the packets that a device makes of one that a kernel hands over.
func expected(handed []byte) (all [][]byte) {
	if len(handed) <= packet.VNetSize {
		return nil
	}
	v, p := packet.ReadVNet((*[packet.VNetSize]byte)(handed)), bytes.Clone(handed[packet.VNetSize:])
	ip, ok := packet.Parse(p)
	var s packet.Splitter
	switch {
	case !ok || len(p) > maxPacket-offset && v.Kind == packet.Whole:
	case v.Kind == packet.Whole && v.Complete(p, ip):
		all = append(all, p)
	case v.Kind != packet.Whole && s.Begin(p, ip, v):
		for s.More() {
			headers, payload := s.Next(make([]byte, s.HeaderSize()))
			all = append(all, slices.Concat(headers, payload))
		}
	}
	return all
}

// reader reads as a WireGuard device does.
type reader struct {
	bufs  [][]byte
	sizes []int
}

func newReader(n int) *reader {
	r := &reader{sizes: make([]int, n)}
	for range n {
		r.bufs = append(r.bufs, make([]byte, maxPacket))
	}
	return r
}

// read reads n packets.
func (r *reader) read(t *testing.T, d *tunDevice, n int) (all [][]byte) {
	t.Helper()
	if err := d.File().SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	for len(all) < n {
		got, err := d.Read(r.bufs, r.sizes, offset)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			all = append(all, bytes.Clone(r.bufs[i][offset:][:r.sizes[i]]))
		}
	}
	return all
}

func same(t *testing.T, got, want [][]byte) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !bytes.Equal(got[i], want[i]) {
			t.Fatalf("packet %d of %d and %d differs", i, len(got), len(want))
		}
	}
}

// TestTUNReadsAllSizes: whatever it expects, a packet is split as packet.Splitter does.
func TestTUNReadsAllSizes(t *testing.T) {
	for _, buffers := range []int{conn.IdealBatchSize, 7} {
		random := rand.New(rand.NewPCG(3, uint64(buffers)))
		d, far := newPipe(t)
		r := newReader(buffers)
		for range 100 {
			v6, udp, options := random.IntN(2) == 0, random.IntN(3) == 0, random.IntN(11)
			size := 1 + random.IntN(1500)
			if random.IntN(8) == 0 {
				size = 1 + random.IntN(65500)
			}
			var want [][]byte
			for range 1 + random.IntN(12) { // some of a kind, and some others
				payload := min(65400, 1+random.IntN(size*(1+random.IntN(80))))
				handed := large(v6, udp, options, size, payload, random)
				if _, err := far.Write(handed); err != nil {
					t.Fatal(err)
				}
				want = append(want, expected(handed)...)
			}
			same(t, r.read(t, d, len(want)), want)
		}
	}
}

// TestTUNReadsInPlace: the segments of a packet like the one before are not copied.
func TestTUNReadsInPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	d, far := newPipe(t)
	r := newReader(conn.IdealBatchSize)
	for i := range 3 {
		handed := large(false, false, 3, 1368, 40*1368-5, random)
		if _, err := far.Write(handed); err != nil {
			t.Fatal(err)
		}
		clear(d.scatter.linear[:])
		same(t, r.read(t, d, 40), expected(handed))
		if copied := !bytes.Equal(d.scatter.linear[:], make([]byte, len(d.scatter.linear))); copied != (i == 0) {
			t.Errorf("packet %d: copied is %t", i, copied)
		}
	}
}

// FuzzTUNRead hands over a packet twice, and a plain one.
func FuzzTUNRead(f *testing.F) {
	random := rand.New(rand.NewPCG(7, 8))
	for _, v6 := range []bool{false, true} {
		for _, udp := range []bool{false, true} {
			f.Add(large(v6, udp, 3, 100, 450, random))
			f.Add(large(v6, udp, 0, 1400, 20000, random))
			f.Add(large(v6, udp, 0, 100, 50, random))
			f.Add(large(v6, udp, 0, 7, 3000, random))
		}
	}
	r := newReader(conn.IdealBatchSize)
	f.Fuzz(func(t *testing.T, handed []byte) {
		if len(handed) == 0 || len(handed) > packet.VNetSize+maxPacket {
			return
		}
		d, far := newPipe(t)
		plain := large(false, true, 0, 1000, 900, random)
		var want [][]byte
		for _, p := range [][]byte{handed, handed, plain} {
			if _, err := far.Write(p); err != nil {
				t.Fatal(err)
			}
			want = append(want, expected(p)...)
		}
		same(t, r.read(t, d, len(want)), want)
	})
}

// TestTUNWritesLargePackets: packets that follow each other become one, and others stay.
func TestTUNWritesLargePackets(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 10))
	d, far := newPipe(t)
	segments := expected(large(true, false, 3, 1348, 30*1348, random))
	single := expected(large(false, true, 0, 1000, 99, random))
	broken := bytes.Clone(single[0])
	broken[0] = 0x15
	var bufs [][]byte
	for _, p := range slices.Concat(segments, single, [][]byte{broken, nil}) {
		bufs = append(bufs, append(make([]byte, offset), p...))
	}
	if n, err := d.Write(slices.Clone(bufs), offset); n != len(bufs) || err != nil {
		t.Fatal(n, err)
	}
	var got [][]byte
	space := make([]byte, packet.VNetSize+maxPacket)
	for range 2 {
		n, err := far.Read(space)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, expected(space[:n])...)
	}
	same(t, got, slices.Concat(segments, single))
	d.File().Close()
	if _, err := d.Write(slices.Clone(bufs), offset); err == nil {
		t.Error("a closed device takes packets")
	}
	if _, err := d.Read(bufs, make([]int, len(bufs)), offset); err != os.ErrClosed {
		t.Errorf("reading a closed device fails with %v", err)
	}
}
