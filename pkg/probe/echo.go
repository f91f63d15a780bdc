package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is a kind of probe.
type Kind int

// The kinds of probes.
const (
	UDP      Kind = iota // answered by another daemon
	Bare                 // the same, without a checksum both ways
	HalfBare             // the same, with a checksum there and none back
	Ping                 // answered by the kernel
)

// Try is one packet that must return.
type Try struct {
	Kind     Kind
	From, To netip.Addr
	Size     int // of the whole packet, which no router may fragment
	Tag      Tag // of the receiver
}

// Answer is what returned.
type Answer struct {
	RTT time.Duration
	// Ahead is by how much the peer's clock is ahead of ours, if Clock reports that the
	// answer contains it.
	Ahead time.Duration
	Clock bool
}

// Echoer sends packets that return. A packet that has not returned when ctx ends is
// an error.
type Echoer interface {
	Echo(ctx context.Context, t Try) (Answer, error)
}

// SystemEchoer is the Echoer of this host. Port is the daemons' port.
type SystemEchoer struct{ Port uint16 }

// Echo implements Echoer.
func (h SystemEchoer) Echo(ctx context.Context, t Try) (Answer, error) {
	number := rand.Uint64()
	if t.Kind == Ping {
		return ping(ctx, t, number)
	}
	return h.udp(ctx, t, number)
}

func (h SystemEchoer) udp(ctx context.Context, t Try, number uint64) (Answer, error) {
	dialer := net.Dialer{
		LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(t.From, 0)),
		Control:   control(t.To, t.Kind == Bare, t.Kind != UDP),
	}
	conn, err := dialer.DialContext(ctx, "udp", netip.AddrPortFrom(t.To, h.Port).String())
	if err != nil {
		return Answer{}, err
	}
	defer conn.Close()
	kind, size := byte(request), t.Size-headers(t.To)
	if t.Kind != UDP {
		kind = bareRequest
	}
	udp := conn.(*net.UDPConn)
	e := exchange{
		conn:    conn,
		read:    func(b []byte) (time.Time, bool) { return readAnswer(b, number, size) },
		refused: func() bool { return refused(udp, number) },
	}
	return e.run(ctx, newRequest(kind, number, size, t.Tag))
}

// control sets the options of a socket for probes to an address. ICMP errors arrive
// with the packet that they quote.
func control(to netip.Addr, bare, takesBare bool) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) {
			level, option := unix.IPPROTO_IP, unix.IP_RECVERR
			if !to.Is4() {
				level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
			}
			err = errors.Join(unix.SetsockoptInt(int(fd), level, option, 1), setOptions(int(fd), to, bare, takesBare))
		}); e != nil {
			return e
		}
		return os.NewSyscallError("setsockopt", err)
	}
}

// setOptions forbids fragmentation, whatever path MTU is known, and turns checksums
// off for bare packets. Every IPv4 host accepts packets without one.
func setOptions(fd int, to netip.Addr, bare, takesBare bool) error {
	if to.Is4() {
		if bare {
			if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_NO_CHECK, 1); err != nil {
				return err
			}
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	}
	for option, on := range map[int]bool{unix.UDP_NO_CHECK6_TX: bare, unix.UDP_NO_CHECK6_RX: takesBare} {
		if !on {
			continue
		}
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_UDP, option, 1); err != nil {
			return err
		}
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
}

// exchange is a request that waits for its answer.
type exchange struct {
	conn net.Conn
	// read returns what the answer's clock shows, and reports whether it is the answer.
	read func([]byte) (time.Time, bool)
	// refused reports whether the peer's kernel rejected the request: no daemon listens
	// there. That is an answer, too.
	refused func() bool
}

// run sends b and waits for the answer.
func (e exchange) run(ctx context.Context, b []byte) (Answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = e.conn.SetDeadline(time.Unix(1, 0)) }) // it fails only if the connection does
	defer stop()
	sent := time.Now()
	// A device that drops a packet is a part of the path, like any other.
	if _, err := e.conn.Write(b); err != nil && !errors.Is(err, syscall.ENOBUFS) {
		return Answer{}, err
	}
	in := make([]byte, len(b)+60) // room for the longest header
	for {
		n, err := e.conn.Read(in)
		rtt := time.Since(sent)
		var icmp syscall.Errno
		switch {
		case ctx.Err() != nil:
			return Answer{}, context.Cause(ctx)
		case errors.As(err, &icmp):
			// Any host can forge an ICMP error. Only one that quotes the request counts.
			if e.refused() {
				return Answer{RTT: rtt}, nil
			}
			continue
		case err != nil:
			return Answer{}, err
		}
		clock, ok := e.read(in[:n])
		switch {
		case !ok: // a stray one
		case clock.IsZero():
			return Answer{RTT: rtt}, nil
		default:
			return Answer{RTT: rtt, Ahead: clock.Sub(sent.Add(rtt / 2)), Clock: true}, nil
		}
	}
}

// refused reports whether an ICMP error arrived that says that no socket has the
// port, and that quotes the request with this number.
func refused(conn *net.UDPConn, number uint64) (is bool) {
	quoted, control := make([]byte, minPacket), make([]byte, 512)
	_ = withFD(conn, func(fd uintptr) error { // on failure no error arrived
		for {
			n, m, _, _, err := unix.Recvmsg(int(fd), quoted, control, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
			if err != nil {
				return err
			}
			is = is || quotes(quoted[:n], number) && refuses(control[:m])
		}
	})
	return is
}

// refuses reports whether control data contain the error by which a host rejects
// packets to a port without a socket.
func refuses(control []byte) bool {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return false
	}
	for _, m := range messages {
		// The error's number is the first word of a sock_extended_err.
		if isError := m.Header.Type == unix.IP_RECVERR || m.Header.Type == unix.IPV6_RECVERR; isError && len(m.Data) >= 4 &&
			syscall.Errno(binary.NativeEndian.Uint32(m.Data)) == syscall.ECONNREFUSED {
			return true
		}
	}
	return false
}

// ping sends a request to the peer's kernel.
func ping(ctx context.Context, t Try, number uint64) (Answer, error) {
	network, requestType, replyType := "ip4:icmp", byte(8), byte(0)
	if !t.To.Is4() {
		network, requestType, replyType = "ip6:ipv6-icmp", 128, 129
	}
	dialer := net.Dialer{LocalAddr: &net.IPAddr{IP: t.From.AsSlice()}, Control: control(t.To, false, false)}
	conn, err := dialer.DialContext(ctx, network, t.To.String())
	if err != nil {
		return Answer{}, fmt.Errorf("ping: %w", err)
	}
	defer conn.Close()
	body := newRequest(request, number, t.Size-headers(t.To), Tag{})
	b := make([]byte, 8, 8+len(body))
	b[0] = requestType
	binary.BigEndian.PutUint16(b[4:], uint16(number))
	b = append(b, body...)
	if t.To.Is4() { // the kernel does so for the other family
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	e := exchange{
		conn: whole{conn.(*net.IPConn)},
		read: func(in []byte) (time.Time, bool) {
			return time.Time{}, len(in) == len(b) && in[0] == replyType && string(in[8:]) == string(body)
		},
		refused: func() bool { return false }, // there are no ports
	}
	return e.run(ctx, b)
}

// whole reads messages without the header that IPv4 leaves in front of them.
type whole struct{ *net.IPConn }

// Read implements net.Conn.
func (w whole) Read(b []byte) (int, error) {
	n, _, err := w.ReadFromIP(b)
	return n, err
}

// checksum returns the checksum of IPv4's own protocols.
func checksum(b []byte) uint16 {
	var sum uint32
	for i := 0; i+1 < len(b); i += 2 {
		sum += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		sum += uint32(b[len(b)-1]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
