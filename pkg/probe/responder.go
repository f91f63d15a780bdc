package probe

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"
)

// Responder answers the probes of peers, at addresses in the overlay only.
//
// The kernel drops packets that are no request, or come from an address that no peer
// can have; both cost this process nothing. Packets that pass and come from no peer
// get no answer. Requests with the node's tag have a socket of their own at each
// address: a flood without it, under forged sources, fills only the other socket.
// Each socket limits its rate, so any flood costs a few percent of a core at most.
type Responder struct {
	Port uint16

	mu     sync.Mutex
	at     []netip.Addr
	tag    Tag
	conns  []*net.UDPConn
	covers [2]cover // of all sources since Set, IPv4 and IPv6
	closed bool
	ended  chan struct{} // closed with conns
	wg     sync.WaitGroup

	sourcesMu sync.RWMutex
	sources   map[[16]byte]struct{} // the peers' addresses
}

// Set makes r answer at these addresses and no others, and prefer requests with
// the tag. An address need not exist yet.
func (r *Responder) Set(at []netip.Addr, tag Tag) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || slices.Equal(r.at, at) && r.tag == tag {
		return
	}
	r.close()
	ended := make(chan struct{})
	r.at, r.tag, r.ended = slices.Clone(at), tag, ended
	for _, ip := range at {
		conns, err := r.listen(ip)
		if err != nil {
			klog.ErrorS(err, "Failed to listen for probes; those of other nodes get no answer", "address", ip, "port", r.Port)
			r.at = nil // the next Set tries again
		}
		r.conns = append(r.conns, conns...)
		for _, conn := range conns {
			r.wg.Go(func() { r.answerAll(conn, ip, ended) })
		}
	}
}

// listen returns the sockets at an address: the one for requests with the tag, if
// there is a tag, and then the one for others.
func (r *Responder) listen(ip netip.Addr) (conns []*net.UDPConn, err error) {
	sockets := 1
	if r.tag != (Tag{}) {
		sockets = 2
	}
	for range sockets {
		conn, err := listen(ip, r.Port, func(fd uintptr) error {
			if err := requestFilter(r.covers[family(ip)], r.Port).attach(fd, unix.SO_ATTACH_FILTER); err != nil || sockets == 1 {
				return err
			}
			return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
	}
	if sockets == 1 {
		return conns, nil
	}
	return conns, withFD(conns[0], func(fd uintptr) error {
		return tagSelector(r.tag).attach(fd, unix.SO_ATTACH_REUSEPORT_CBPF)
	})
}

// family returns 0 for IPv4 and 1 for IPv6.
func family(ip netip.Addr) int {
	if ip.Is4() {
		return 0
	}
	return 1
}

// Admit makes r answer the peers with these addresses, too.
func (r *Responder) Admit(all []netip.Addr) {
	if r == nil || len(all) == 0 {
		return
	}
	r.sourcesMu.Lock()
	if r.sources == nil {
		r.sources = make(map[[16]byte]struct{}, len(all))
	}
	for _, ip := range all {
		r.sources[ip.As16()] = struct{}{}
	}
	r.sourcesMu.Unlock()

	r.mu.Lock()
	defer r.mu.Unlock()
	var grew [2]bool
	for _, ip := range all {
		f := family(ip)
		grew[f] = r.covers[f].add(ip) || grew[f]
	}
	for _, conn := range r.conns {
		f := family(conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap())
		if !grew[f] {
			continue
		}
		if err := withFD(conn, func(fd uintptr) error {
			return requestFilter(r.covers[f], r.Port).attach(fd, unix.SO_ATTACH_FILTER)
		}); err != nil {
			klog.ErrorS(err, "Failed to admit new peers' probes", "address", conn.LocalAddr())
		}
	}
}

// Dismiss makes r no longer answer the peers with these addresses.
func (r *Responder) Dismiss(all []netip.Addr) {
	if r == nil {
		return
	}
	r.sourcesMu.Lock()
	defer r.sourcesMu.Unlock()
	for _, ip := range all {
		delete(r.sources, ip.As16())
	}
}

// admits reports whether a peer has this address.
func (r *Responder) admits(ip netip.Addr) bool {
	r.sourcesMu.RLock()
	defer r.sourcesMu.RUnlock()
	_, is := r.sources[ip.As16()]
	return is
}

// Close ends all answers. A nil Responder has none.
func (r *Responder) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.closed = true
	r.close()
	r.mu.Unlock()
	r.wg.Wait()
}

func (r *Responder) close() {
	if r.ended != nil {
		close(r.ended)
		r.ended = nil
	}
	for _, c := range r.conns {
		_ = c.Close() // nothing is buffered
	}
	r.conns = nil
}

// listen returns a socket at an address that need not exist yet. Prepare is called
// before the socket has the address.
func listen(ip netip.Addr, port uint16, prepare func(fd uintptr) error) (*net.UDPConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			level, free := unix.IPPROTO_IP, unix.IP_FREEBIND
			if !ip.Is4() {
				level, free = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
			}
			err = errors.Join(unix.SetsockoptInt(int(fd), level, free, 1), setOptions(int(fd), ip, false, true), prepare(fd))
		}); e != nil {
			return e
		}
		return err
	}}
	conn, err := config.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(ip, port).String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.UDPConn), nil
}

// withFD calls f with a socket's file descriptor.
func withFD(conn *net.UDPConn, f func(fd uintptr) error) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	e := raw.Control(func(fd uintptr) { err = f(fd) })
	return errors.Join(e, err)
}

// answerAll answers until conn is closed.
func (r *Responder) answerAll(conn *net.UDPConn, ip netip.Addr, ended <-chan struct{}) {
	readAll(conn, 1<<16, ended, func(b []byte, from netip.AddrPort, at time.Time) {
		if !r.admits(from.Addr()) {
			return
		}
		bare, ok := toAnswer(b, at)
		if !ok {
			return
		}
		if bare {
			setBare(conn, ip, 1)
			defer setBare(conn, ip, 0)
		}
		_, _ = conn.WriteToUDPAddrPort(b, from) // the asker repeats a lost probe
	})
}

// setBare turns the checksums of the following packets off, or on again.
func setBare(conn *net.UDPConn, ip netip.Addr, on int) {
	_ = withFD(conn, func(fd uintptr) error { // on failure the answer has a checksum as usual
		if ip.Is4() {
			return unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, on)
		}
		return unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, on)
	})
}
