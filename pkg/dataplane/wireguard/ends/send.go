package ends

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

const maxMessage = 65000 // bytes, less than IPv4 and IPv6 allow

// outgoing sends packets to one endpoint. Those that have one size, the last perhaps less, become
// one message, which the kernel splits.
type outgoing struct {
	socket   *socket
	to       *endpoint
	from     datagram.Source
	flushing func(fd uintptr) bool // transmit, which is allocated once

	messages [conn.IdealBatchSize]datagram.Message
	controls [conn.IdealBatchSize]datagram.Control
	first    [conn.IdealBatchSize + 1]int // packet of each message
	vectors  [conn.IdealBatchSize]unix.Iovec
	n        int // messages
	sent     int // of them
	err      error
}

func newOutgoing() *outgoing {
	o := new(outgoing)
	o.flushing = o.transmit
	return o
}

func (o *outgoing) send(k *socket, packets [][]byte, to *endpoint, from datagram.Source) error {
	o.socket, o.to, o.from, o.err = k, to, from, nil
	for i, p := range packets {
		set(&o.vectors[i], p)
	}
	o.compose(0, len(packets), k.gso.Load())
	if err := k.raw.Write(o.flushing); err != nil {
		o.err = net.ErrClosed
	}
	clear(o.vectors[:len(packets)])
	return o.err
}

// compose makes messages of the packets in vectors.
func (o *outgoing) compose(from, to int, gso bool) {
	o.n, o.sent = 0, 0
	for from < to {
		size, bytes, end := int(o.vectors[from].Len), 0, from
		for end < to && end-from < mostSegments {
			next := int(o.vectors[end].Len)
			if end > from && (!gso || next > size || bytes+next > maxMessage) {
				break
			}
			bytes += next
			if end++; next < size {
				break
			}
		}
		m := &o.messages[o.n]
		m.SetName(&o.to.name)
		m.SetVectors(o.vectors[from:end])
		segments := 0
		if end-from > 1 {
			segments = size
		}
		o.controls[o.n].Send(m, segments, o.from)
		o.first[o.n] = from
		o.n++
		from = end
	}
	o.first[o.n] = to
}

// transmit sends as much as the socket takes, and reports whether that is all.
func (o *outgoing) transmit(fd uintptr) bool {
	for o.sent < o.n {
		n, errno := datagram.Move(unix.SYS_SENDMMSG, fd, o.messages[o.sent:o.n])
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno == 0:
			o.sent += n
		case o.splits(errno):
			o.compose(o.first[o.sent], o.first[o.n], false)
		case o.leavesElsewhere(errno):
			o.compose(o.first[o.sent], o.first[o.n], o.socket.gso.Load())
		default: // it is the first message that the kernel refused
			o.err = os.NewSyscallError("sendmmsg", errno)
			o.sent++
		}
	}
	return true
}

// splits reports whether the packets of a message that the kernel refused may be sent one by one. The
// kernel does not split a message for a device that computes no checksums (EIO), nor into packets that
// are larger than the path allows (EMSGSIZE; EINVAL from older kernels), but it fragments single ones.
func (o *outgoing) splits(errno unix.Errno) bool {
	if errno == unix.EIO {
		o.socket.gso.Store(false)
	}
	return o.first[o.sent+1]-o.first[o.sent] > 1 && (errno == unix.EIO || errno == unix.EINVAL || errno == unix.EMSGSIZE)
}

// leavesElsewhere reports whether packets that the kernel refused may leave from another address: this
// host may have lost the one that the peer knows.
func (o *outgoing) leavesElsewhere(errno unix.Errno) bool {
	if !o.from.Addr.IsValid() || errno != unix.EINVAL && errno != unix.ENODEV && errno != unix.ENETUNREACH && errno != unix.EHOSTUNREACH {
		return false
	}
	o.to.ClearSrc()
	o.from = datagram.Source{}
	return true
}
