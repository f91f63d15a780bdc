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

// Responder answers the probes of other nodes, at addresses in the overlay alone.
type Responder struct {
	Port uint16

	mu     sync.Mutex
	at     []netip.Addr
	conns  []net.PacketConn
	closed bool
	wg     sync.WaitGroup
}

// Set has the probes to these addresses answered from now on, and no others. An
// address need not be there yet.
func (r *Responder) Set(at []netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || slices.Equal(r.at, at) {
		return
	}
	r.close()
	r.at = slices.Clone(at)
	for _, ip := range at {
		conn, err := listen(ip, r.Port)
		if err != nil {
			klog.ErrorS(err, "Failed to listen for probes; those of other nodes get no answer", "address", ip, "port", r.Port)
			r.at = nil // the next Set tries again
			continue
		}
		r.conns = append(r.conns, conn)
		r.wg.Go(func() { answerAll(conn, ip) })
	}
}

// Close ends all answers. There are none of no Responder.
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
	for _, c := range r.conns {
		_ = c.Close() // it holds nothing
	}
	r.conns = nil
}

// listen returns a socket at an address that need not be there yet.
func listen(ip netip.Addr, port uint16) (net.PacketConn, error) {
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			level, free := unix.IPPROTO_IP, unix.IP_FREEBIND
			if !ip.Is4() {
				level, free = unix.IPPROTO_IPV6, unix.IPV6_FREEBIND
			}
			err = errors.Join(unix.SetsockoptInt(int(fd), level, free, 1), setOptions(int(fd), ip, false, true))
		}); e != nil {
			return e
		}
		return err
	}}
	return config.ListenPacket(context.Background(), "udp", netip.AddrPortFrom(ip, port).String())
}

// maxAnswers is how many answers there are in a second: far more than there are nodes
// that ask, and little for who floods.
const maxAnswers = 1000

// answerAll answers until conn is closed.
func answerAll(conn net.PacketConn, ip netip.Addr) {
	b := make([]byte, 1<<16)
	var second time.Time
	count := 0
	for {
		n, from, err := conn.ReadFrom(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			continue // what became of an answer
		}
		now := time.Now()
		if now.Sub(second) >= time.Second {
			second, count = now, 0
		}
		if count++; count > maxAnswers {
			continue
		}
		bare, ok := toAnswer(b[:n], now)
		if !ok {
			continue
		}
		if bare {
			setBare(conn, ip, 1)
		}
		_, _ = conn.WriteTo(b[:n], from) // who asked will see
		if bare {
			setBare(conn, ip, 0)
		}
	}
}

// setBare has what follows go without a checksum, or with one again.
func setBare(conn net.PacketConn, ip netip.Addr, on int) {
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) { // without it the answer is like any other
		if ip.Is4() {
			_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NO_CHECK, on)
		} else {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_TX, on)
		}
	})
}
