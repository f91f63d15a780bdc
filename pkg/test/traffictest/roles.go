package traffictest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ended returns a context that ends with the process's input.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// patience is how long a receiver may take to listen, or to take anything of a stream.
const patience = time.Minute

// dial connects as soon as a receiver listens.
func dial(network, address string) (net.Conn, error) {
	for begin := time.Now(); ; {
		c, err := net.Dial(network, address)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) || time.Since(begin) > patience {
			return c, err
		}
		<-time.After(time.Millisecond)
	}
}

// chunk is how much a stream writes or reads at once.
const chunk = 256 << 10

// tcpSink receives streams until its input ends, and prints how many bytes, and in which
// time. What is still on its way then does not count.
func tcpSink(j job) error {
	l, err := net.Listen("tcp", j.Address)
	if err != nil {
		return err
	}
	ctx := ended()
	context.AfterFunc(ctx, func() { l.Close() })
	var bytes atomic.Int64
	var begin time.Time
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		if begin.IsZero() {
			begin = time.Now()
		}
		go func() {
			b := make([]byte, chunk)
			for {
				n, err := c.Read(b)
				bytes.Add(int64(n))
				if err != nil {
					return
				}
			}
		}()
	}
	_, err = fmt.Println(bytes.Load(), time.Since(begin).Seconds())
	return err
}

func tcpSend(j job) error {
	var all sync.WaitGroup
	failed := make(chan error, j.Streams)
	for range j.Streams {
		all.Go(func() { failed <- stream(j) })
	}
	all.Wait()
	close(failed)
	var errs error
	for err := range failed {
		errs = errors.Join(errs, err)
	}
	return errs
}

// stream writes to one connection until the time is over. Then it drops what is not sent.
func stream(j job) error {
	c, err := dial("tcp", j.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := errors.Join(c.(*net.TCPConn).SetLinger(0), useCubic(c.(*net.TCPConn))); err != nil {
		return err
	}
	b := make([]byte, chunk)
	for end := time.Now().Add(time.Duration(j.Seconds * float64(time.Second))); time.Now().Before(end); {
		_ = c.SetWriteDeadline(time.Now().Add(patience))
		if _, err := c.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// useCubic selects the congestion control that Linux has by default, if the kernel has it. The
// machine's own may be BBR, which paces each stream by timers: it measures those, too.
func useCubic(c *net.TCPConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var refused error
	err = raw.Control(func(fd uintptr) {
		refused = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "cubic")
	})
	if errors.Is(refused, unix.ENOENT) {
		refused = nil
	}
	return errors.Join(err, refused)
}

// batch is how many packets one system call moves.
const batch = 64

// small is the payload of a small packet.
const small = 64

// packets are messages for recvmmsg and sendmmsg.
type packets struct {
	messages [batch]struct {
		unix.Msghdr
		n uint32
	}
	vectors [batch]unix.Iovec
	data    [batch][small]byte
}

func newPackets() *packets {
	p := new(packets)
	for i := range p.messages {
		p.vectors[i].Base = &p.data[i][0]
		p.vectors[i].SetLen(small)
		p.messages[i].Iov = &p.vectors[i]
		p.messages[i].SetIovlen(1)
	}
	return p
}

// move sends or receives up to n packets on a connected socket.
func (p *packets) move(raw syscall.RawConn, call uintptr, n int) (moved int, err error) {
	wait := raw.Read
	if call == unix.SYS_SENDMMSG {
		wait = raw.Write
	}
	failed := wait(func(fd uintptr) bool {
		r, _, errno := unix.Syscall6(call, fd, uintptr(unsafe.Pointer(&p.messages)), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		if errno == unix.EAGAIN {
			return false
		}
		if moved = int(r); errno != 0 {
			moved, err = 0, errno
		}
		return true
	})
	return moved, errors.Join(err, failed)
}

// udpSink counts packets until its input ends and no more come. It answers the first, so
// that the sender knows that it is there.
func udpSink(j job) error {
	at, err := net.ResolveUDPAddr("udp", j.Address)
	if err != nil {
		return err
	}
	c, err := net.ListenUDP("udp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	})
	hello := make([]byte, small)
	_, sender, err := c.ReadFromUDP(hello)
	if err != nil {
		return err
	}
	if _, err := c.WriteToUDP(hello, sender); err != nil {
		return err
	}
	context.AfterFunc(ended(), func() { _ = c.SetReadDeadline(time.Now().Add(500 * time.Millisecond)) })
	p, received := newPackets(), 0
	for {
		n, err := p.move(raw, unix.SYS_RECVMMSG, batch)
		for i := range n {
			if p.data[i][0] == 1 { // no greeting
				received++
			}
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return err
		}
	}
	_, err = fmt.Println(received)
	return err
}

// udpSend sends packets at a rate, and prints how many, and in which time.
func udpSend(j job) error {
	c, err := net.Dial("udp", j.Address)
	if err != nil {
		return err
	}
	defer c.Close()
	raw, err := c.(*net.UDPConn).SyscallConn()
	if err != nil {
		return err
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 16<<20)
	})
	for answer := make([]byte, small); ; {
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
		if _, err := c.Write(make([]byte, small)); err != nil && !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
		if _, err := c.Read(answer); err == nil {
			break
		}
	}
	p := newPackets()
	for i := range p.data {
		p.data[i][0] = 1
	}
	sent, begin := 0, time.Now()
	for {
		passed := time.Since(begin).Seconds()
		if passed >= j.Seconds {
			break
		}
		due := int(passed*float64(j.Rate)) - sent
		if due < batch/2 {
			<-time.After(200 * time.Microsecond)
			continue
		}
		n, err := p.move(raw, unix.SYS_SENDMMSG, min(due, batch))
		if err != nil {
			return err
		}
		sent += n
	}
	_, err = fmt.Println(sent, time.Since(begin).Seconds())
	return err
}
