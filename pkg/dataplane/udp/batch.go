package udp

import (
	"cmp"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

const (
	maxMessages = 64
	maxVectors  = 1024
	maxSegments = 64       // of a message, which is the limit of most kernels
	maxMessage  = 65000    // bytes, less than IPv4 and IPv6 allow
	headerRoom  = 64 << 10 // for the headers of split packets
)

// batch collects packets to send. Packets to one endpoint that have one size, the last
// perhaps less, become one message, which the kernel splits.
type batch struct {
	socket   *socket
	counters *counters
	gso      bool
	flushing func(set uintptr) bool // transmit, which is allocated once

	messages [maxMessages]datagram.Message
	controls [maxMessages]datagram.Control
	parts    [maxMessages]part
	n        int  // messages
	sent     int  // of them, while they are sent
	waits    bool // for room
	failed   error
	vectors  [maxVectors]unix.Iovec
	used     int // vectors
	headers  [headerRoom]byte
	written  int // of headers

	singles [maxSegments]datagram.Message
	left    []datagram.Message // of singles, which are not sent yet
	pieces  [2 * maxSegments]unix.Iovec
}

// part is what a message consists of.
type part struct {
	to             *endpoint
	first, vectors int // where its vectors are
	packets, bytes int
	size           int  // of each packet but the last
	closed         bool // the last packet was smaller
}

func newBatch(socket *socket, c *counters, gso bool) *batch {
	b := &batch{socket: socket, counters: c, gso: gso}
	b.flushing = b.transmit
	return b
}

// room makes room for one more packet, and returns that for its headers.
func (b *batch) room(headers int) []byte {
	if b.n == maxMessages || b.used+2 > maxVectors || headerRoom-b.written < headers {
		b.flush()
	}
	space := b.headers[b.written : b.written+headers]
	b.written += headers
	return space
}

// add adds a packet, for which there is room. Both of its parts must stay as they are
// until flush. The second may be empty.
func (b *batch) add(to *endpoint, head, tail []byte) {
	size := len(head) + len(tail)
	var p *part
	if b.n > 0 {
		p = &b.parts[b.n-1]
	}
	if p == nil || p.to != to || !b.gso || p.closed || size > p.size || p.packets == maxSegments || p.bytes+size > maxMessage {
		p = &b.parts[b.n]
		*p = part{to: to, first: b.used, size: size}
		b.n++
	}
	b.put(p, head)
	b.put(p, tail)
	p.packets++
	p.bytes += size
	p.closed = size < p.size
}

// put adds bytes to a message. Those that follow the last ones in memory need no vector
// of their own.
func (b *batch) put(p *part, data []byte) {
	if len(data) == 0 {
		return
	}
	if p.vectors > 0 {
		last := &b.vectors[b.used-1]
		if unsafe.Add(unsafe.Pointer(last.Base), last.Len) == unsafe.Pointer(&data[0]) {
			last.SetLen(int(last.Len) + len(data))
			return
		}
	}
	v := &b.vectors[b.used]
	v.Base = &data[0]
	v.SetLen(len(data))
	b.used++
	p.vectors++
}

// flush sends everything.
func (b *batch) flush() error {
	if b.n == 0 {
		b.written = 0
		return nil
	}
	for i := range b.n {
		p, m := &b.parts[i], &b.messages[i]
		m.SetName(&p.to.name)
		m.SetVectors(b.vectors[p.first : p.first+p.vectors])
		size := 0
		if p.packets > 1 {
			size = p.size
		}
		b.controls[i].Send(m, size, datagram.Source{})
	}
	b.sent, b.failed = 0, nil
	err := b.socket.room.until(b.flushing)
	b.n, b.used, b.written, b.left = 0, 0, 0, nil
	return cmp.Or(err, b.failed)
}

// transmit sends everything, and reports whether that is done. If not, room's set reports when
// to go on.
func (b *batch) transmit(set uintptr) bool {
	done := b.transmitSome()
	if done && !b.waits {
		return true
	}
	b.waits = !done
	b.failed = b.socket.watchRoom(set, b.waits)
	return done || b.failed != nil
}

// transmitSome sends as much as the socket takes, and reports whether that is all.
func (b *batch) transmitSome() bool {
	for b.sent < b.n || len(b.left) > 0 {
		if len(b.left) > 0 {
			if !b.transmitSingles() {
				return false
			}
			continue
		}
		n, errno := datagram.Move(unix.SYS_SENDMMSG, uintptr(b.socket.fd), b.messages[b.sent:b.n])
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno == 0:
			for i := range n {
				p := &b.parts[b.sent+i]
				b.counters.moved(p.packets, p.bytes)
			}
			b.sent += n
		default:
			// It is the first message that the kernel refused.
			b.refused(&b.parts[b.sent], errno)
			b.sent++
		}
	}
	return true
}

// refused prepares to send the packets of a message one by one if the kernel can do so: it
// splits none that are larger than the path allows, but fragments each, and it splits none
// for a device that computes no checksums.
func (b *batch) refused(p *part, errno unix.Errno) {
	if errno == unix.EIO {
		b.gso = false
	}
	if p.packets == 1 || errno != unix.EIO && errno != unix.EINVAL && errno != unix.EMSGSIZE {
		b.counters.drop(Refused, p.packets)
		return
	}
	b.left = b.single(p)
}

// transmitSingles sends as many single packets as the socket takes, and reports whether
// that is all.
func (b *batch) transmitSingles() bool {
	for len(b.left) > 0 {
		n, errno := datagram.Move(unix.SYS_SENDMMSG, uintptr(b.socket.fd), b.left)
		switch {
		case errno == unix.EAGAIN:
			return false
		case errno != 0:
			b.counters.drop(Refused, 1)
			n = 1
		default:
			for i := range n {
				b.counters.moved(1, int(b.left[i].Length))
			}
		}
		b.left = b.left[n:]
	}
	return true
}

// single returns the packets of a message as messages.
func (b *batch) single(p *part) []datagram.Message {
	vectors := b.vectors[p.first : p.first+p.vectors]
	taken, used := 0, 0 // of the first vector, of pieces
	for i := range p.packets {
		left := min(p.size, p.bytes-i*p.size)
		m := &b.singles[i]
		*m = datagram.Message{}
		m.SetName(&p.to.name)
		begin := used
		for left > 0 {
			v := &vectors[0]
			n := min(left, int(v.Len)-taken)
			piece := &b.pieces[used]
			piece.Base = (*byte)(unsafe.Add(unsafe.Pointer(v.Base), taken))
			piece.SetLen(n)
			used++
			left -= n
			if taken += n; taken == int(v.Len) {
				vectors, taken = vectors[1:], 0
			}
		}
		m.SetVectors(b.pieces[begin:used])
	}
	return b.singles[:p.packets]
}
