package udp

import (
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

const (
	maxPacket = 65535
	// sendBuffer has room for several of the largest packets. The parts of one, with a header
	// each, are a bit more than a message holds: the more of them are sent at once, the fewer
	// small messages are left over.
	sendBuffer = 8 * maxPacket
	// maxRead is how many packets are read before they are sent.
	maxRead = 128
)

// sender moves packets from a queue of the TUN device to a socket.
type sender struct {
	link     *link
	tun      syscall.RawConn
	counters *counters
	batch    *batch
	reading  func(fd uintptr) bool // read, which is allocated once

	buffer  [sendBuffer]byte
	packets [maxRead]held
	n       int // packets
	used    int // of buffer
	err     error
	vectors [2]unix.Iovec
	vnet    [packet.VNetSize]byte

	complaints complaints
}

// held is a packet in the buffer.
type held struct {
	at, size int
	vnet     packet.VNet
}

func newSender(l *link, tun syscall.RawConn, socket *socket, gso bool, c *counters) *sender {
	s := &sender{link: l, tun: tun, counters: c, batch: newBatch(socket, c, gso)}
	s.reading = s.read
	return s
}

// run moves packets until the device or the socket fails or is closed.
func (s *sender) run() error {
	for {
		s.n, s.used, s.err = 0, 0, nil
		if err := s.tun.Read(s.reading); err != nil {
			return err
		}
		if s.err != nil {
			return s.err
		}
		for i := range s.n {
			s.forward(&s.packets[i])
		}
		if err := s.batch.flush(); err != nil {
			return err
		}
	}
}

// read reads all packets that are there and fit, as datagram.Move does. It reports whether
// there are any.
func (s *sender) read(fd uintptr) bool {
	for s.n < maxRead && sendBuffer-s.used >= maxPacket {
		s.vectors[0].Base, s.vectors[1].Base = &s.vnet[0], &s.buffer[s.used]
		s.vectors[0].SetLen(len(s.vnet))
		s.vectors[1].SetLen(maxPacket)
		n, _, errno := unix.RawSyscall(unix.SYS_READV, fd, uintptr(unsafe.Pointer(&s.vectors)), uintptr(len(s.vectors)))
		switch {
		case errno == unix.EAGAIN:
			return s.n > 0
		case errno == unix.EINTR:
			continue
		case errno != 0:
			s.err = os.NewSyscallError("read", errno)
			return true
		case n < packet.VNetSize:
			continue
		}
		size := int(n) - packet.VNetSize
		s.packets[s.n] = held{s.used, size, packet.ReadVNet(&s.vnet)}
		s.n++
		s.used += size
	}
	return true
}

// forward adds a packet to the batch, as one packet or as many.
func (s *sender) forward(h *held) {
	p := s.buffer[h.at : h.at+h.size : h.at+h.size]
	ip, ok := packet.Parse(p)
	if !ok {
		s.counters.drop(Malformed, 1)
		return
	}
	_, destination := ip.Addresses(p)
	switch {
	case multicast(destination, ip.V6): // of either family
		s.counters.drop(Multicast, 1)
		return
	case ip.V6 != s.link.v6:
		s.counters.drop(Malformed, 1)
		return
	}
	to := s.link.table.Load().find(destination)
	if to == nil {
		s.counters.drop(NoRoute, 1)
		s.complain(packet.NoRoute, ip, p)
		return
	}
	if !ip.Age(p) {
		s.counters.drop(Expired, 1)
		s.complain(packet.Expired, ip, p)
		return
	}
	if h.vnet.Kind == packet.Whole {
		if !h.vnet.Complete(p, ip) {
			s.counters.drop(Malformed, 1)
			return
		}
		s.batch.room(0)
		s.batch.add(to, p, nil)
		return
	}
	var split packet.Splitter
	if !split.Begin(p, ip, h.vnet) {
		s.counters.drop(Malformed, 1)
		return
	}
	for split.More() {
		headers, payload := split.Next(s.batch.room(split.HeaderSize()))
		s.batch.add(to, headers, payload)
	}
}

// complain tells the sender of a packet why it is dropped.
func (s *sender) complain(why packet.Complaint, ip packet.Header, p []byte) {
	if !s.complaints.allowed(time.Now()) {
		return
	}
	m := ip.Complain(why, p, s.link.source, s.complaints.space[packet.VNetSize:])
	if m == nil {
		return
	}
	message := s.complaints.space[:packet.VNetSize+len(m)] // the header of the device is zero
	_ = s.tun.Write(func(fd uintptr) bool {
		_, _ = unix.Write(int(fd), message)
		return true
	})
}

// complaints limits the messages about dropped packets, as kernels do.
type complaints struct {
	space [packet.VNetSize + packet.MaxComplaint]byte
	since time.Time
	n     int
}

// maxComplaints is how many messages a sender writes a second.
const maxComplaints = 1000

func (c *complaints) allowed(now time.Time) bool {
	if now.Sub(c.since) >= time.Second {
		c.since, c.n = now, 0
	}
	c.n++
	return c.n <= maxComplaints
}
