package ends

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

// incoming receives from one socket. Only one goroutine uses it.
type incoming struct {
	socket  *socket
	in      *flow
	routes  *routes
	reading func(fd uintptr) bool // read, which is allocated once
	scatter scatter
	message [1]datagram.Message
	name    datagram.Name
	control datagram.Control
	known   map[origin]*endpoint
	last    origin
	sender  *endpoint // of last

	// What receive was called with, and has received.
	bufs  [][]byte
	sizes []int
	eps   []conn.Endpoint
	n     int
	err   error
}

// origin is where a packet came from, and to.
type origin struct {
	name datagram.Name
	to   datagram.Source
}

// mostKnown is how many endpoints are known. With more senders, they are allocated again.
const mostKnown = 4096

func newIncoming(k *socket, in *flow, r *routes) *incoming {
	i := &incoming{socket: k, in: in, routes: r, scatter: newScatter(0), known: make(map[origin]*endpoint)}
	i.reading = i.read
	return i
}

// receive implements conn.ReceiveFunc. It receives all packets that are there and fit.
func (r *incoming) receive(bufs [][]byte, sizes []int, eps []conn.Endpoint) (int, error) {
	r.in.back(bufs[:r.n])
	r.in.wait()
	r.bufs, r.sizes, r.eps, r.n, r.err = bufs, sizes, eps, 0, nil
	if err := r.socket.raw.Read(r.reading); err != nil {
		return 0, net.ErrClosed
	}
	if r.in.in(bufs[:r.n], sizes, 0, transports); r.n > 0 {
		return r.n, nil // an error comes again
	}
	return 0, r.err
}

// transports reports whether a message carries a packet. Handshakes wait in another queue of the device,
// which drops those that do not fit.
func transports(message []byte) bool { return message[0] == device.MessageTransportType }

func (r *incoming) read(fd uintptr) bool {
	m := &r.message[0]
	for r.n == 0 || len(r.bufs)-r.n >= max(mostSegments, r.scatter.count) {
		m.SetRoomForName(&r.name)
		m.SetVectors(r.scatter.lay(r.bufs[r.n:], 0))
		r.control.Receive(m)
		switch _, errno := datagram.Move(unix.SYS_RECVMMSG, fd, r.message[:]); {
		case errno == unix.EAGAIN:
			return r.n > 0
		case errno != 0:
			r.err = os.NewSyscallError("recvmmsg", errno)
			return true
		case m.Flags&unix.MSG_TRUNC == 0 && m.Length > 0:
			m.TakeName(&r.name)
			r.accept(int(m.Length))
		}
	}
	return true
}

// accept takes the packets of the message that was received.
func (r *incoming) accept(length int) {
	bufs, s := r.bufs[r.n:], &r.scatter
	size, to := r.control.Received(&r.message[0])
	if size <= 0 || size > length {
		size = length
	}
	count := (length + size - 1) / size
	if count > len(bufs) {
		return // more than in any message so far
	}
	e := r.endpoint(origin{r.name, to})
	if inPlace := count == 1 && s.isWhole(length) || count > 1 && size == s.size; !inPlace {
		for i, p := 0, s.gather(bufs, 0, length); len(p) > 0; i++ {
			p = p[copy(bufs[i][:min(size, len(bufs[i]))], p):]
		}
	} else {
		for i := range count {
			s.tail(bufs, 0, i, length)
		}
	}
	for i := range count {
		r.sizes[r.n], r.eps[r.n] = min(size, length-i*size), e
		r.n++
	}
	s.expect(0, size, count)
}

// endpoint returns the endpoint of packets. Most have the origin of the one before.
func (r *incoming) endpoint(o origin) *endpoint {
	if r.sender == nil || o != r.last {
		e := r.known[o]
		if e == nil {
			if len(r.known) >= mostKnown {
				clear(r.known)
			}
			e = &endpoint{name: o.name, source: o.to}
			r.known[o] = e
		}
		r.last, r.sender = o, e
	}
	r.sender.learnt()
	return r.sender
}
