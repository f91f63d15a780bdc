package ends

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/tun"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
	"github.com/tulle-net/tulle/pkg/dataplane/tunfile"
)

// tunDevice is a TUN device whose packets are read and written in batches. The wrapped device does the
// rest. If it no longer follows the device's MTU, that ends nothing: packets are padded for the old one.
type tunDevice struct {
	tun.Device
	raw      syscall.RawConn
	routes   *routes
	losing   sync.Once
	out, in  *flow
	reading  func(fd uintptr) bool // read, which is allocated once
	writing  func(fd uintptr) bool
	scatter  scatter
	split    packet.Splitter // of a packet that had more segments than there were buffers
	template [packet.MaxHeaders]byte

	// What Read was called with, and has read.
	bufs   [][]byte
	sizes  []int
	offset int
	n      int
	err    error

	mu      sync.Mutex // for writes
	merger  *packet.Merger
	vnet    [packet.VNetSize]byte
	vectors [1 + packet.MaxMerged]unix.Iovec
	parts   int
	refused unix.Errno
	failed  error
}

// offloads is what a TUN device may leave to this package, from linux/if_tun.h: checksums, and the
// splitting of TCP and UDP.
const offloads = 0x01 | 0x02 | 0x04 | 0x20 | 0x40

func newTUN(d tun.Device, out, in *flow) (*tunDevice, error) {
	raw, err := d.File().SyscallConn()
	if err != nil {
		return nil, err
	}
	t := &tunDevice{Device: d, raw: raw, out: out, in: in, scatter: newScatter(packet.VNetSize)}
	udp := false
	err = raw.Control(func(fd uintptr) { udp = unix.IoctlSetInt(int(fd), unix.TUNSETOFFLOAD, offloads) == nil })
	if err != nil {
		return nil, err
	}
	t.reading, t.writing = t.read, t.write
	t.merger = packet.NewMerger(udp, t.deliver)
	return t, nil
}

// check closes the file of a device that another program has renamed, deleted or moved to another network
// namespace: the sockets are of this one, and what comes through them must not get there.
func (t *tunDevice) check() {
	name, err := t.Name() // as it was when the file was opened
	if err == nil && tunfile.IsOn(t.raw, name) {
		return
	}
	t.losing.Do(func() {
		klog.ErrorS(err, "Lost the TUN device, which another program deleted, renamed or moved to another network namespace", "link", name)
		t.Device.Close()
	})
}

// Close implements tun.Device.
func (t *tunDevice) Close() error {
	t.routes.close()
	return t.Device.Close()
}

// BatchSize implements tun.Device.
func (t *tunDevice) BatchSize() int { return conn.IdealBatchSize }

// Read implements tun.Device. It reads all packets that are there and fit.
func (t *tunDevice) Read(bufs [][]byte, sizes []int, offset int) (int, error) {
	t.out.back(bufs[:t.n])
	t.out.wait()
	t.bufs, t.sizes, t.offset, t.n, t.err = bufs, sizes, offset, 0, nil
	if t.split.More() {
		t.distribute()
	} else if err := t.raw.Read(t.reading); err != nil {
		return 0, os.ErrClosed
	}
	t.out.in(bufs[:t.n], sizes, offset, always)
	return t.n, t.err
}

func (t *tunDevice) read(fd uintptr) bool {
	for t.n == 0 || len(t.bufs)-t.n >= t.scatter.count && !t.split.More() {
		vectors := t.scatter.lay(t.bufs[t.n:], t.offset)
		n, _, errno := unix.Syscall(unix.SYS_READV, fd, uintptr(unsafe.Pointer(&vectors[0])), uintptr(len(vectors)))
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			return t.n > 0
		case errno == unix.EBADFD:
			t.err = os.ErrClosed // the device is gone
			return true
		case errno != 0:
			t.err = os.NewSyscallError("read", errno)
			return true
		case n > packet.VNetSize:
			t.accept(int(n) - packet.VNetSize)
		}
	}
	return true
}

// accept takes the packet that was read. One that is malformed is dropped.
func (t *tunDevice) accept(length int) {
	bufs, s := t.bufs[t.n:], &t.scatter
	v := packet.ReadVNet((*[packet.VNetSize]byte)(bufs[0][t.offset-packet.VNetSize:]))
	start := s.start(bufs, t.offset, length)
	if len(start) < min(length, packet.MaxHeaders) {
		start = s.gather(bufs, t.offset, length)
	}
	ip, ok := packet.ParseStart(start, length)
	if !ok {
		return
	}
	if v.Kind == packet.Whole {
		t.whole(length, ip, v)
		return
	}
	var split packet.Splitter
	begun := split.BeginAt(start, length, ip, v)
	if !begun || split.HeaderSize() != s.headers || int(v.SegmentSize) != s.size || split.Segments() > len(bufs) {
		p := s.gather(bufs, t.offset, length)
		if t.split.Begin(p, ip, v) {
			s.expect(t.split.HeaderSize(), int(v.SegmentSize), t.split.Segments())
			t.distribute()
		}
		return
	}
	copy(t.template[:], start[:s.headers])
	split.Move(t.template[:])
	for i := 0; split.More(); i++ {
		s.tail(bufs, t.offset, i, length)
		size := split.PayloadSize()
		split.Segment(bufs[i][t.offset:], bufs[i][t.offset+s.headers:][:size])
		t.sizes[t.n] = s.headers + size
		t.n++
	}
	s.expect(s.headers, s.size, split.Segments())
}

// whole takes a packet that is not to split.
func (t *tunDevice) whole(length int, ip packet.Header, v packet.VNet) {
	buf, s := t.bufs[t.n], &t.scatter
	if length > len(buf)-t.offset {
		return // larger than any MTU
	}
	if !s.isWhole(length) {
		copy(buf[t.offset:], s.gather(t.bufs[t.n:], t.offset, length))
	}
	s.expect(0, length, 1)
	if v.Complete(buf[t.offset:t.offset+length], ip) {
		t.sizes[t.n] = length
		t.n++
	}
}

// distribute splits a packet into the buffers that are left.
func (t *tunDevice) distribute() {
	for t.split.More() && t.n < len(t.bufs) {
		buf := t.bufs[t.n][t.offset:]
		headers, payload := t.split.Next(buf)
		t.sizes[t.n] = len(headers) + copy(buf[len(headers):], payload)
		t.n++
	}
}

// Write implements tun.Device. It merges packets where it can.
func (t *tunDevice) Write(bufs [][]byte, offset int) (int, error) {
	defer release(bufs)
	t.in.leave(bufs)
	defer t.in.done(bufs)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failed = nil
	for _, b := range bufs {
		if ip, ok := packet.Parse(b[offset:]); ok {
			t.merger.Add(b[offset:], ip)
		}
	}
	t.merger.Flush()
	if errors.Is(t.failed, unix.EBADFD) {
		return 0, os.ErrClosed
	}
	return len(bufs), t.failed
}

// deliver writes a packet.
func (t *tunDevice) deliver(v packet.VNet, parts [][]byte) {
	v.Write(&t.vnet)
	set(&t.vectors[0], t.vnet[:])
	for i, p := range parts {
		set(&t.vectors[1+i], p)
	}
	t.parts = 1 + len(parts)
	switch err := t.raw.Write(t.writing); {
	case err != nil:
		t.failed = os.ErrClosed
	case t.refused != 0:
		t.failed = os.NewSyscallError("write", t.refused)
	}
	clear(t.vectors[:t.parts])
}

// write writes the packet in vectors, which a TUN device takes or refuses at once.
func (t *tunDevice) write(fd uintptr) bool {
	for {
		_, _, errno := unix.Syscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&t.vectors)), uintptr(t.parts))
		if errno != unix.EINTR {
			t.refused = errno
			return true
		}
	}
}
