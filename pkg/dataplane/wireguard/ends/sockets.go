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

const (
	// buffer is how much a socket holds in each direction, at most. Memory is used only when it
	// is needed.
	buffer = 8 << 20
	// mostPorts is how many ports are tried that are free for one family, and not for the other.
	mostPorts = 100
)

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
	family := unix.AF_INET6
	if at.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	s := &socket{file: os.NewFile(uintptr(fd), "udp")}
	if err := s.setUp(fd, at); err != nil {
		s.file.Close()
		return nil, err
	}
	return s, nil
}

func (s *socket) setUp(fd int, at netip.AddrPort) (err error) {
	for _, o := range [][2]int{{unix.SO_RCVBUFFORCE, unix.SO_RCVBUF}, {unix.SO_SNDBUFFORCE, unix.SO_SNDBUF}} {
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[0], buffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, o[1], buffer) // up to what the host allows every program
		}
	}
	needed := [][2]int{{unix.IPPROTO_IP, unix.IP_PKTINFO}}
	if at.Addr().Is6() {
		needed = [][2]int{{unix.IPPROTO_IPV6, unix.IPV6_V6ONLY}, {unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO}}
	}
	for _, o := range needed {
		if err := unix.SetsockoptInt(fd, o[0], o[1], 1); err != nil {
			return os.NewSyscallError("setsockopt", err)
		}
	}
	// Without these, which are younger than Linux 4.18 and 5.0, it is slower.
	_ = unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_GRO, 1)
	s.gso.Store(unix.SetsockoptInt(fd, unix.SOL_UDP, unix.UDP_SEGMENT, 0) == nil)
	name := datagram.NameOf(at)
	if err := name.Bind(fd); err != nil {
		return os.NewSyscallError("bind", err)
	}
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	switch is := bound.(type) {
	case *unix.SockaddrInet4:
		s.port = uint16(is.Port)
	case *unix.SockaddrInet6:
		s.port = uint16(is.Port)
	}
	s.raw, err = s.file.SyscallConn()
	return err
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
	s.out.leave()
	defer s.out.left(len(bufs))
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
