//go:build vm

package network

import (
	"bytes"
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wire sees every frame at a host's eth0.
type wire struct {
	mu       sync.Mutex
	plain    int       // with the marker
	last     time.Time // when the kernel sent or received the last of those
	tunnel   int       // to or from a port of WireGuard
	frames   int
	end      chan struct{}
	finished sync.WaitGroup
}

// capture begins to look at the frames of a host, and ends with the test.
func (w *whole) capture() *wire {
	w.t.Helper()
	c := &wire{end: make(chan struct{})}
	fd := -1
	w.ns.Do(w.t, func() (err error) {
		const everything = unix.ETH_P_ALL<<8 | unix.ETH_P_ALL>>8
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, everything&0xffff); err != nil {
			return err
		}
		if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return err
		}
		return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000})
	})
	eth0 := 0
	w.ns.Do(w.t, func() error {
		req, err := unix.NewIfreq("eth0")
		if err == nil {
			if err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req); err == nil {
				eth0 = int(req.Uint32())
			}
		}
		return err
	})
	c.finished.Go(func() {
		defer unix.Close(fd)
		b, control := make([]byte, 1<<16), make([]byte, 128)
		for {
			select {
			case <-c.end:
				return
			default:
			}
			n, more, _, from, err := unix.Recvmsg(fd, b, control, 0)
			at, ok := from.(*unix.SockaddrLinklayer)
			if err != nil || !ok || at.Ifindex != eth0 {
				continue
			}
			c.see(b[:n], kernelTime(control[:more]))
		}
	})
	w.t.Cleanup(func() { close(c.end); c.finished.Wait() })
	return c
}

// kernelTime returns the time at which the kernel had a frame.
func kernelTime(control []byte) time.Time {
	all, err := unix.ParseSocketControlMessage(control)
	if err != nil || len(all) == 0 || len(all[0].Data) < 16 {
		return time.Time{}
	}
	return time.Unix(int64(binary.NativeEndian.Uint64(all[0].Data)), int64(binary.NativeEndian.Uint64(all[0].Data[8:])))
}

func (c *wire) see(frame []byte, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frames++
	if bytes.Contains(frame, []byte(marker)) {
		c.plain++
		c.last = at
	}
	port := []byte{0xca, 0x6c} // 51820
	if len(frame) > 58 && (bytes.Equal(frame[36:38], port) || bytes.Equal(frame[54:56], port) || bytes.Equal(frame[56:58], []byte{0xca, 0x6d})) {
		c.tunnel++
	}
}

// wantNoPlain expects nothing readable so far.
func (c *wire) wantNoPlain(t *testing.T, when string) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	t.Logf("%s: %d frames, %d of WireGuard, %d readable", when, c.frames, c.tunnel, c.plain)
	if c.plain > 0 {
		t.Errorf("%s: %d of %d frames are readable", when, c.plain, c.frames)
	}
}

// lastReadable returns the time of the last readable frame.
func (c *wire) lastReadable() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

func (c *wire) readable() int {
	plain, _ := c.counts()
	return plain
}

// forget starts the count of readable frames again.
func (c *wire) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain = 0
}

func (c *wire) counts() (plain, tunnel int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plain, c.tunnel
}
