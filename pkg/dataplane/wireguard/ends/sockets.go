package ends

import (
	"errors"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"

	"github.com/tulle-net/tulle/pkg/dataplane/datagram"
)

// mostPorts is how many ports are tried that are free for one family, and not for the other.
const mostPorts = 100

// sockets are the UDP sockets of a device. They implement conn.Bind.
type sockets struct {
	out, in *flow
	routes  *routes
	sending sync.Pool // of *outgoing

	mu   sync.Mutex                // for changes of what follows
	open [2]atomic.Pointer[socket] // for IPv4 and IPv6
}

// socket is a UDP socket of one family.
type socket struct {
	file *os.File
	raw  syscall.RawConn
	port uint16
	gso  atomic.Bool // whether the kernel splits what is sent
}

func newSockets(out, in *flow, r *routes) *sockets {
	return &sockets{out: out, in: in, routes: r, sending: sync.Pool{New: func() any { return newOutgoing() }}}
}

// BatchSize implements conn.Bind.
func (s *sockets) BatchSize() int { return conn.IdealBatchSize }

// ParseEndpoint implements conn.Bind.
func (s *sockets) ParseEndpoint(text string) (conn.Endpoint, error) {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return nil, err
	}
	return &endpoint{name: datagram.NameOf(netip.AddrPortFrom(at.Addr().Unmap(), at.Port()))}, nil
}

// Open implements conn.Bind. It opens a socket of each family that the host has.
func (s *sockets) Open(port uint16) ([]conn.ReceiveFunc, uint16, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[0].Load() != nil || s.open[1].Load() != nil {
		return nil, 0, conn.ErrBindAlreadyOpen
	}
	s.routes.mark.Store(0)
	pair, err := openPair(port)
	for tries := 1; port == 0 && errors.Is(err, unix.EADDRINUSE) && tries < mostPorts; tries++ {
		pair, err = openPair(port)
	}
	if err != nil {
		return nil, 0, err
	}
	var receive []conn.ReceiveFunc
	for i, k := range pair {
		if k != nil {
			s.open[i].Store(k)
			port = k.port
			receive = append(receive, newIncoming(k, s.in, s.routes).receive)
		}
	}
	return receive, port, nil
}

// openPair opens sockets of both families with the same port.
func openPair(port uint16) (pair [2]*socket, err error) {
	for i, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		pair[i], err = openSocket(netip.AddrPortFrom(all, port))
		switch {
		case errors.Is(err, unix.EAFNOSUPPORT): // the host has no such family
			continue
		case err != nil:
			if pair[0] != nil {
				pair[0].file.Close()
			}
			return pair, err
		}
		port = pair[i].port
	}
	if pair[0] == nil && pair[1] == nil {
		return pair, unix.EAFNOSUPPORT
	}
	return pair, nil
}

func openSocket(at netip.AddrPort) (*socket, error) {
	options := []datagram.Option{{Level: unix.IPPROTO_IP, Name: unix.IP_PKTINFO}}
	if at.Addr().Is6() {
		options = []datagram.Option{{Level: unix.IPPROTO_IPV6, Name: unix.IPV6_V6ONLY}, {Level: unix.IPPROTO_IPV6, Name: unix.IPV6_RECVPKTINFO}}
	}
	f, gso, err := datagram.Open(at, options...)
	if err != nil {
		return nil, err
	}
	s := &socket{file: f}
	s.gso.Store(gso)
	if err := s.learn(); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// learn reads the port, which the kernel has chosen if it was 0.
func (s *socket) learn() (err error) {
	if s.raw, err = s.file.SyscallConn(); err != nil {
		return err
	}
	var at unix.Sockaddr
	if failed := s.raw.Control(func(fd uintptr) { at, err = unix.Getsockname(int(fd)) }); failed != nil || err != nil {
		return errors.Join(failed, os.NewSyscallError("getsockname", err))
	}
	switch is := at.(type) {
	case *unix.SockaddrInet4:
		s.port = uint16(is.Port)
	case *unix.SockaddrInet6:
		s.port = uint16(is.Port)
	}
	return nil
}

// Close implements conn.Bind.
func (s *sockets) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed []error
	for i := range s.open {
		if k := s.open[i].Swap(nil); k != nil {
			failed = append(failed, k.file.Close())
		}
	}
	return errors.Join(failed...)
}

// SetMark implements conn.Bind.
func (s *sockets) SetMark(mark uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.routes.mark.Store(mark)
	s.routes.generation.Add(1)
	for i := range s.open {
		k := s.open[i].Load()
		if k == nil {
			continue
		}
		var failed error
		if err := k.raw.Control(func(fd uintptr) {
			failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(mark))
		}); err != nil || failed != nil {
			return errors.Join(err, failed)
		}
	}
	return nil
}

// Send implements conn.Bind.
func (s *sockets) Send(bufs [][]byte, to conn.Endpoint) error {
	defer release(bufs)
	s.out.leave(bufs)
	defer s.out.done(bufs)
	e := to.(*endpoint)
	family := 0
	if !e.name.Is4() {
		family = 1
	}
	k := s.open[family].Load()
	if k == nil {
		return unix.EAFNOSUPPORT
	}
	o := s.sending.Get().(*outgoing)
	defer s.sending.Put(o)
	for len(bufs) > 0 {
		n := min(len(bufs), conn.IdealBatchSize)
		if err := o.send(k, bufs[:n], e, s.routes.source(e)); err != nil {
			return err
		}
		bufs = bufs[n:]
	}
	return nil
}
