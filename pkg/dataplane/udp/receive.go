package udp

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

// maxReceived is how many messages are received at once. Each may have many packets.
const maxReceived = 8

// receiver moves packets from a socket to a queue of the TUN device.
type receiver struct {
	link      *link
	socket    *socket
	tun       syscall.RawConn
	counters  *counters
	merger    *packet.Merger
	receiving func(uintptr) bool // receive, which is allocated once
	writing   func(fd uintptr) bool

	messages [maxReceived]datagram.Message
	names    [maxReceived]datagram.Name
	controls [maxReceived]datagram.Control
	vectors  [maxReceived]unix.Iovec
	buffers  [maxReceived][maxPacket]byte
	n        int // messages
	err      error
	last     origin

	vnet    [packet.VNetSize]byte
	out     [1 + packet.MaxMerged]unix.Iovec // of a packet to write
	parts   int                              // of it
	refused unix.Errno                       // why the device did not take it
	failed  error                            // why it takes no more
}

// origin is where a packet came from, as a table allows it.
type origin struct {
	table        *table
	host, source packet.Addr
}

func newReceiver(l *link, socket *socket, tun syscall.RawConn, udp bool, c *counters) *receiver {
	r := &receiver{link: l, socket: socket, tun: tun, counters: c}
	r.merger = packet.NewMerger(udp, r.deliver)
	r.receiving, r.writing = r.receive, r.write
	for i := range r.messages {
		r.vectors[i].Base = &r.buffers[i][0]
		r.vectors[i].SetLen(maxPacket)
		r.messages[i].SetVectors(r.vectors[i : i+1])
	}
	return r
}

// run moves packets until the device or the socket fails or is closed.
func (r *receiver) run() error {
	for {
		r.err = nil
		if err := r.socket.arrivals.until(r.receiving); err != nil {
			return err
		}
		if r.err != nil {
			return r.err
		}
		for i := range r.n {
			r.accept(i)
		}
		r.merger.Flush()
		if r.failed != nil {
			return r.failed
		}
	}
}

// receive receives all messages that are there and fit. It reports whether there are any.
func (r *receiver) receive(uintptr) bool {
	for i := range r.messages {
		m := &r.messages[i]
		m.SetRoomForName(&r.names[i])
		r.controls[i].Receive(m)
	}
	n, errno := datagram.Move(unix.SYS_RECVMMSG, uintptr(r.socket.fd), r.messages[:])
	if errno == unix.EAGAIN {
		return false
	}
	r.n = n
	if errno != 0 {
		r.n = 0
		r.err = os.NewSyscallError("recvmmsg", errno)
	}
	return true
}

// accept moves the packets of a message.
func (r *receiver) accept(i int) {
	m := &r.messages[i]
	data := r.buffers[i][:m.Length]
	size, _ := r.controls[i].Received(m)
	if size <= 0 {
		size = max(len(data), 1)
	}
	packets := max((len(data)+size-1)/size, 1) // an empty datagram is one as well
	from := origin{table: r.link.table.Load(), host: hostOf(&r.names[i])}
	switch {
	case m.Flags&unix.MSG_TRUNC != 0:
		r.counters.drop(Malformed, packets)
		return
	case !from.table.knows(from.host):
		r.counters.drop(Stranger, packets)
		return
	}
	for range packets {
		p := data[:min(size, len(data))]
		data = data[len(p):]
		r.forward(p, from)
	}
}

// forward moves one packet. Its source is set in from.
func (r *receiver) forward(p []byte, from origin) {
	ip, ok := packet.Parse(p)
	if !ok || ip.V6 != r.link.v6 {
		r.counters.drop(Malformed, 1)
		return
	}
	source, destination := ip.Addresses(p)
	from.source = source
	if !r.link.network.contains(destination) || !r.allowed(from) {
		r.counters.drop(Foreign, 1)
		return
	}
	if !ip.Age(p) {
		r.counters.drop(Expired, 1)
		return
	}
	r.merger.Add(p, ip)
}

// allowed reports whether a host may send packets with this source: any but those of other
// hosts' subnets. A host also sends from its other addresses, and forwards what comes from
// outside the network. Most packets have the origin of the one before.
func (r *receiver) allowed(from origin) bool {
	if from == r.last {
		return true
	}
	if !routable(from.source, r.link.v6) {
		return false
	}
	if from.source != r.link.complains && (r.link.isOwn(from.source) || from.table.elsewhere(from.host, from.source)) {
		return false
	}
	r.last = from
	return true
}

// deliver writes a packet to the device.
func (r *receiver) deliver(v packet.VNet, parts [][]byte) {
	v.Write(&r.vnet)
	r.out[0].Base = &r.vnet[0]
	r.out[0].SetLen(len(r.vnet))
	bytes := (len(parts) - 1) * int(v.HeaderLength) // all parts but the first came with headers of their own
	for i, p := range parts {
		r.out[1+i].Base = &p[0]
		r.out[1+i].SetLen(len(p))
		bytes += len(p)
	}
	r.parts = 1 + len(parts)
	if err := r.tun.Write(r.writing); err != nil {
		r.failed = err
		return
	}
	if r.refused == 0 {
		r.counters.moved(len(parts), bytes)
		return
	}
	r.counters.drop(Unwanted, len(parts))
	if r.refused == unix.EBADFD {
		r.failed = os.NewSyscallError("write", r.refused) // the device is gone
	}
}

// write writes the packet that is in out, as datagram.Move does: a TUN device takes or
// refuses it at once.
func (r *receiver) write(fd uintptr) bool {
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&r.out)), uintptr(r.parts))
		if errno != unix.EINTR {
			r.refused = errno
			return true
		}
	}
}
