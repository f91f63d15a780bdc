package ends

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"

	"github.com/tulle-net/tulle/pkg/kernel"
)

// opened is a device's sockets, and what they receive.
type opened struct {
	*sockets
	port     uint16
	received chan received
	ended    chan error
}

type received struct {
	packet []byte
	from   conn.Endpoint
}

func openSockets(t *testing.T) *opened {
	t.Helper()
	k, err := kernel.New("")
	if err != nil {
		t.Fatal(err)
	}
	r := newRoutes(k, func() {})
	t.Cleanup(r.close)
	o := &opened{sockets: newSockets(newFlow(func() {}), newFlow(func() {}), r), received: make(chan received, 1<<16)}
	receive, port, err := o.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	o.port, o.ended = port, make(chan error, len(receive))
	for _, f := range receive {
		go o.read(f)
	}
	return o
}

// read receives as a device does, which takes the buffers that have packets.
func (o *opened) read(f conn.ReceiveFunc) {
	bufs, sizes, eps := make([][]byte, conn.IdealBatchSize), make([]int, conn.IdealBatchSize), make([]conn.Endpoint, conn.IdealBatchSize)
	for i := range bufs {
		bufs[i] = make([]byte, maxPacket)
	}
	for {
		n, err := f(bufs, sizes, eps)
		if err != nil {
			o.ended <- err
			return
		}
		for i := range n {
			o.received <- received{bytes.Clone(bufs[i][:sizes[i]]), eps[i]}
		}
	}
}

func (o *opened) next(t *testing.T) received {
	t.Helper()
	select {
	case r := <-o.received:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no packet came")
		panic("unreachable")
	}
}

// sameSizes returns packets in runs of one size, the last of some perhaps smaller.
func sameSizes(random *rand.Rand, n int) (all [][]byte) {
	for len(all) < n {
		size := 1 + random.IntN(1500)
		if random.IntN(16) == 0 {
			size = 1 + random.IntN(65000)
		}
		for range 1 + random.IntN(100) {
			all = append(all, make([]byte, size))
		}
		all = append(all, make([]byte, 1+random.IntN(size)))
	}
	all = all[:n]
	for i, p := range all {
		for at := range p {
			p[at] = byte(at*7 + i)
		}
	}
	return all
}

// TestSocketsCarryAllSizes in batches, there and back, with and without the kernel's help.
func TestSocketsCarryAllSizes(t *testing.T) {
	for _, local := range []string{"127.0.0.1", "::1"} {
		for _, splits := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %t", local, splits), func(t *testing.T) {
				a, b := openSockets(t), openSockets(t)
				if !splits {
					a.withoutChecksums(t)
				}
				random := rand.New(rand.NewPCG(1, 2))
				to, err := a.ParseEndpoint(netip.AddrPortFrom(netip.MustParseAddr(local), b.port).String())
				if err != nil {
					t.Fatal(err)
				}
				back := to
				for range 60 {
					packets := sameSizes(random, 1+random.IntN(conn.IdealBatchSize))
					if err := a.Send(slices.Clone(packets), to); err != nil {
						t.Fatal(err)
					}
					for i, want := range packets {
						got := b.next(t)
						if !bytes.Equal(got.packet, want) {
							t.Fatalf("packet %d of %d has %d bytes, want %d", i, len(packets), len(got.packet), len(want))
						}
						back = got.from
					}
				}
				if err := b.Send([][]byte{[]byte("back")}, back); err != nil {
					t.Fatal(err)
				}
				got := a.next(t)
				if string(got.packet) != "back" || got.from.DstToString() != to.DstToString() || got.from.SrcToString() != local || back.SrcToString() != local {
					t.Errorf("%q came back from %s to %s", got.packet, got.from.DstToString(), got.from.SrcToString())
				}
				if !slices.Equal(got.from.DstToBytes(), to.DstToBytes()) || got.from.DstIP() != to.DstIP() {
					t.Errorf("it came from %x, not %x", got.from.DstToBytes(), to.DstToBytes())
				}
				got.from.ClearSrc()
				if src := got.from.SrcIP(); src.IsValid() {
					t.Errorf("the source is still %s", src)
				}
			})
		}
	}
}

// withoutChecksums makes the kernel refuse to split.
func (o *opened) withoutChecksums(t *testing.T) {
	t.Helper()
	for i := range o.open {
		if k := o.open[i].Load(); k != nil {
			var failed error
			if err := k.raw.Control(func(fd uintptr) {
				if i == 0 {
					failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, 1)
				}
			}); err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if i == 1 {
				k.gso.Store(false) // IPv6 always has checksums
			}
		}
	}
}

// TestPacketsShareAnEndpoint: none is allocated for each packet.
func TestPacketsShareAnEndpoint(t *testing.T) {
	a, b := openSockets(t), openSockets(t)
	to, err := a.ParseEndpoint(fmt.Sprintf("127.0.0.1:%d", b.port))
	if err != nil {
		t.Fatal(err)
	}
	var first conn.Endpoint
	for i := range 10 {
		if err := a.Send([][]byte{{byte(i)}}, to); err != nil {
			t.Fatal(err)
		}
		if got := b.next(t); first == nil {
			first = got.from
		} else if got.from != first {
			t.Fatal("a packet has an endpoint of its own")
		}
	}
}

// TestSocketsOpenAndClose as a device needs it.
func TestSocketsOpenAndClose(t *testing.T) {
	o := openSockets(t)
	if _, _, err := o.Open(0); !errors.Is(err, conn.ErrBindAlreadyOpen) {
		t.Errorf("they open twice: %v", err)
	}
	other := newSockets(o.out, o.in, o.routes)
	if _, _, err := other.Open(o.port); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("a port opens twice: %v", err)
	}
	if err := o.SetMark(7); err != nil || o.routes.mark.Load() != 7 {
		t.Errorf("the mark is %d: %v", o.routes.mark.Load(), err)
	}
	n := cap(o.ended)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-o.ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("a closed socket fails with %v", err)
		}
	}
	to, err := o.ParseEndpoint("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Send([][]byte{{1}}, to); err == nil {
		t.Error("closed sockets send")
	}
	if _, port, err := o.Open(o.port); err != nil || port != o.port {
		t.Errorf("port %d does not open again: %d, %v", o.port, port, err)
	}
	for _, text := range []string{"", "127.0.0.1", "host:1", "127.0.0.1:65536"} {
		if _, err := o.ParseEndpoint(text); err == nil {
			t.Errorf("%q is an endpoint", text)
		}
	}
}
