package kernel

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// receiveBuffer holds the answers to a batch in which every message fails, and a
	// burst of events. The default overruns at some 500 answers.
	receiveBuffer = 4 << 20
	// readSize is the largest part of a dump that the kernel sends.
	readSize = 64 << 10
	// answerTimeout ends a wait for an answer that never came. The kernel answers before
	// a send returns.
	answerTimeout = 10 * time.Second
)

// errInterrupted means that the dumped objects changed during the dump.
var errInterrupted = errors.New("dump interrupted by a change")

// conn is a netlink socket for requests and their answers, used by one
// goroutine at a time.
type conn struct {
	fd   int
	port uint32
	seq  uint32
	out  writer
	in   []byte
}

// dial opens a socket of a netlink protocol in the namespace at path. It stays there,
// whichever thread uses it.
func dial(path string, protocol int) (*conn, error) {
	c := &conn{fd: -1, in: make([]byte, readSize)}
	err := inNamespace(path, func() (err error) {
		c.fd, err = socket(protocol, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.setUp(); err != nil {
		c.close()
		return nil, fmt.Errorf("set up netlink socket: %w", err)
	}
	return c, nil
}

// socket opens a bound socket of a netlink protocol with a large receive buffer.
func socket(protocol, flags int) (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|flags, protocol)
	if err != nil {
		return -1, os.NewSyscallError("netlink socket", err)
	}
	// Without CAP_NET_ADMIN, use the plain option, which the machine limits.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("netlink bind", err)
	}
	return fd, nil
}

func (c *conn) setUp() error {
	// Kernels before 4.20 lack some of these. They answer more verbosely and filter less;
	// decoding filters again.
	for _, opt := range []int{unix.NETLINK_CAP_ACK, unix.NETLINK_EXT_ACK, unix.NETLINK_GET_STRICT_CHK} {
		_ = unix.SetsockoptInt(c.fd, unix.SOL_NETLINK, opt, 1)
	}
	tv := unix.NsecToTimeval(answerTimeout.Nanoseconds())
	if err := unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return os.NewSyscallError("setsockopt", err)
	}
	sa, err := unix.Getsockname(c.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	c.port = sa.(*unix.SockaddrNetlink).Pid
	return nil
}

func (c *conn) close() { unix.Close(c.fd) }

func (c *conn) nextSeq() uint32 {
	c.seq++
	return c.seq
}

func (c *conn) send() error {
	err := unix.Sendto(c.fd, c.out.buf, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	return os.NewSyscallError("netlink send", err)
}

func (c *conn) receive() ([]byte, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.in, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("netlink receive", err)
		}
		return c.in[:n], nil
	}
}

// exchange sends the n messages in c.out, the last of which requests an answer. It
// calls failed with the index of each that the kernel refused. A batch is no
// transaction: the messages after a failed one still run. An error means that the
// outcome is unknown.
func (c *conn) exchange(n int, failed func(i int, err error)) error {
	first := c.seq - uint32(n) + 1
	if err := c.send(); err != nil {
		return err
	}
	for {
		b, err := c.receive()
		if err != nil {
			return err
		}
		for m := range messages(b) {
			i := m.seq - first
			if m.typ != unix.NLMSG_ERROR || i >= uint32(n) {
				continue // left over from an abandoned request
			}
			if err := answer(m); err != nil {
				failed(int(i), err)
			}
			if m.seq == c.seq {
				return nil
			}
		}
	}
}

// dump sends the one dump request in c.out and calls visit for each message of
// the answer.
func (c *conn) dump(visit func(message)) error {
	if err := c.send(); err != nil {
		return err
	}
	interrupted := false
	for {
		b, err := c.receive()
		if err != nil {
			return err
		}
		for m := range messages(b) {
			if m.seq != c.seq {
				continue // left over from an abandoned request
			}
			interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
			switch m.typ {
			case unix.NLMSG_DONE, unix.NLMSG_ERROR:
				err := answer(m)
				if err == nil && interrupted {
					err = errInterrupted
				}
				return err
			default:
				visit(m)
			}
		}
	}
}

// answer returns the error in an answer or in the end of a dump, with the kernel's
// message if there is one, or nil.
func answer(m message) error {
	errno := -int32(uint32Of(m.body))
	if errno <= 0 {
		return nil
	}
	err := unix.Errno(errno)
	if m.flags&unix.NLM_F_ACK_TLVS == 0 {
		return err
	}
	fixed := 4
	if m.typ == unix.NLMSG_ERROR {
		fixed += unix.NLMSG_HDRLEN // of the answered message; CAP_ACK omits the rest
	}
	for typ, data := range attrsAfter(m.body, fixed) {
		if typ == unix.NLMSGERR_ATTR_MSG {
			return fmt.Errorf("%w (%s)", err, stringOf(data))
		}
	}
	return err
}

// await sends the single request in c.out and returns its outcome.
func (c *conn) await() error {
	var refused error
	if err := c.exchange(1, func(_ int, err error) { refused = err }); err != nil {
		return err
	}
	return refused
}

// ask sends the single request in c.out and returns the body of the reply, which has
// type typ. The body is valid until the next receive.
func (c *conn) ask(typ uint16) ([]byte, error) {
	if err := c.send(); err != nil {
		return nil, err
	}
	for {
		b, err := c.receive()
		if err != nil {
			return nil, err
		}
		for m := range messages(b) {
			switch {
			case m.seq != c.seq: // left over from an abandoned request
			case m.typ == unix.NLMSG_ERROR:
				return nil, answer(m)
			case m.typ == typ:
				return m.body, nil
			}
		}
	}
}
