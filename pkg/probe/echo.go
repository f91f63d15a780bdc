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

// Kind is a kind of packet that comes back.
type Kind int

// The kinds of packets.
const (
	UDP      Kind = iota // answered by another daemon
	Bare                 // the same, without a checksum both ways
	HalfBare             // the same, with one there and none back
	Ping                 // answered by the kernel
)

// Try is one packet that is to come back.
type Try struct {
	Kind     Kind
	From, To netip.Addr
	Size     int // of the whole packet, which nobody on the way may part
}

// Answer is what came back.
type Answer struct {
	RTT time.Duration
	// Ahead is by how much the other's clock is ahead of ours, if Clock says that
	// it was told.
	Ahead time.Duration
	Clock bool
}

// Echoer sends packets that come back. What does not, until ctx ends, is an error.
type Echoer interface {
	Echo(ctx context.Context, t Try) (Answer, error)
}

// SystemEchoer is the Echoer of this host. Its port is the daemons'.
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
	return exchange(ctx, conn, newRequest(kind, number, size), func(b []byte) (time.Time, bool) {
		return readAnswer(b, number, size)
	})
}

// control sets what a socket for probes to an address needs.
func control(to netip.Addr, bare, takesBare bool) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = setOptions(int(fd), to, bare, takesBare) }); e != nil {
			return e
		}
		return os.NewSyscallError("setsockopt", err)
	}
}

// setOptions has packets go whole or not at all, whatever is known of the way, and
// bare without a checksum. IPv4 takes such from anybody.
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

// exchange sends b and waits for what read takes for its answer.
func exchange(ctx context.Context, conn net.Conn, b []byte, read func([]byte) (time.Time, bool)) (Answer, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) }) // it fails with the connection alone
	defer stop()
	sent := time.Now()
	if _, err := conn.Write(b); err != nil {
		return Answer{}, err
	}
	in := make([]byte, len(b)+60) // with the longest header that there may be
	for {
		n, err := conn.Read(in)
		rtt := time.Since(sent)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			// Nobody listens there, and that was told by who was asked.
			return Answer{RTT: rtt}, nil
		case errors.Is(err, syscall.EHOSTUNREACH):
			// Somebody on the way says that it will not come there.
			return Answer{}, errLost
		case ctx.Err() != nil:
			return Answer{}, context.Cause(ctx)
		case err != nil:
			return Answer{}, err
		}
		clock, ok := read(in[:n])
		switch {
		case !ok: // a stray one
		case clock.IsZero():
			return Answer{RTT: rtt}, nil
		default:
			return Answer{RTT: rtt, Ahead: clock.Sub(sent.Add(rtt / 2)), Clock: true}, nil
		}
	}
}

// ping has the other's kernel answer.
func ping(ctx context.Context, t Try, number uint64) (Answer, error) {
	network, ask, told := "ip4:icmp", byte(8), byte(0)
	if !t.To.Is4() {
		network, ask, told = "ip6:ipv6-icmp", 128, 129
	}
	dialer := net.Dialer{LocalAddr: &net.IPAddr{IP: t.From.AsSlice()}, Control: control(t.To, false, false)}
	conn, err := dialer.DialContext(ctx, network, t.To.String())
	if err != nil {
		return Answer{}, fmt.Errorf("ping: %w", err)
	}
	defer conn.Close()
	body := newRequest(request, number, t.Size-headers(t.To))
	b := make([]byte, 8, 8+len(body))
	b[0] = ask
	binary.BigEndian.PutUint16(b[4:], uint16(number))
	b = append(b, body...)
	if t.To.Is4() { // of the other the kernel knows how
		binary.BigEndian.PutUint16(b[2:], checksum(b))
	}
	return exchange(ctx, whole{conn.(*net.IPConn)}, b, func(in []byte) (time.Time, bool) {
		return time.Time{}, len(in) == len(b) && in[0] == told && string(in[8:]) == string(body)
	})
}

// whole reads messages without the header that IPv4 leaves before them.
type whole struct{ *net.IPConn }

// Read implements net.Conn.
func (w whole) Read(b []byte) (int, error) {
	n, _, err := w.ReadFromIP(b)
	return n, err
}

// checksum is that of IPv4's own protocols.
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
