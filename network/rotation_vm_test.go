//go:build vm && rotation

package network

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

// echoes sends marked packets to another host, which returns them, until it is called. It
// waits for those that are on their way, and returns when those that were lost were sent.
func (w *whole) echoes(to *whole, f subnet.Family) func() (sent int, lost []time.Time) {
	w.t.Helper()
	listen := func(w *whole) (c *net.UDPConn) {
		w.ns.Do(w.t, func() (err error) {
			c, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(w.pod(f), 0)))
			return err
		})
		w.t.Cleanup(func() { _ = c.Close() })
		return c
	}
	here, there := listen(w), listen(to)
	at := there.LocalAddr().(*net.UDPAddr).AddrPort()
	go func() {
		b := make([]byte, 2000)
		for {
			n, from, err := there.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = there.WriteToUDPAddrPort(b[:n], from)
		}
	}()
	var mu sync.Mutex
	waiting := make(map[uint64]time.Time) // when it was sent, by number
	go func() {
		b := make([]byte, 2000)
		for {
			n, _, err := here.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			if n > 8 {
				mu.Lock()
				delete(waiting, binary.BigEndian.Uint64(b))
				mu.Unlock()
			}
		}
	}()
	stop, count := make(chan struct{}), make(chan int)
	go func() {
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		for n := uint64(0); ; n++ {
			select {
			case <-stop:
				count <- int(n)
				return
			case <-pace.C:
			}
			mu.Lock()
			waiting[n] = time.Now()
			mu.Unlock()
			_, _ = here.WriteToUDPAddrPort(append(binary.BigEndian.AppendUint64(nil, n), bytes.Repeat([]byte(marker), 12)...), at)
		}
	}()
	return func() (sent int, lost []time.Time) {
		w.t.Helper()
		close(stop)
		sent = <-count
		const patience = 10 * time.Second
		for begin := time.Now(); ; {
			mu.Lock()
			left := slices.Collect(maps.Values(waiting))
			mu.Unlock()
			if len(left) == 0 || time.Since(begin) > patience {
				return sent, left
			}
			<-time.After(100 * time.Millisecond)
		}
	}
}

// stream sends marked bytes in one connection until it is called. It returns how many
// arrived, and why the connection failed.
func (w *whole) stream(to *whole, at netip.Addr) func() (arrived int64, err error) {
	w.t.Helper()
	var listener net.Listener
	to.ns.Do(w.t, func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(at, 7007).String())
		return err
	})
	arrived := make(chan int64, 1)
	go func() {
		defer listener.Close()
		c, err := listener.Accept()
		if err != nil {
			arrived <- 0
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		arrived <- n
	}()
	var conn net.Conn
	w.ns.Do(w.t, func() (err error) {
		conn, err = net.Dial("tcp", listener.Addr().String())
		return err
	})
	type result struct {
		sent int64
		err  error
	}
	stop, sent := make(chan struct{}), make(chan result, 1)
	go func() {
		block := bytes.Repeat([]byte(marker), 256)
		pace := time.NewTicker(2 * time.Millisecond) // an emulated machine has other work to do
		defer pace.Stop()
		var r result
		for r.err == nil {
			select {
			case <-stop:
				sent <- r
				return
			case <-pace.C:
			}
			var n int
			n, r.err = conn.Write(block)
			r.sent += int64(n)
		}
		sent <- r
	}()
	return func() (int64, error) {
		close(stop)
		r := <-sent
		_ = conn.Close()
		n := <-arrived
		if r.err == nil && n != r.sent {
			r.err = fmt.Errorf("%d of %d bytes arrived", n, r.sent)
		}
		return n, r.err
	}
}

// TestWireGuardReplacesItsKey under a flood and a stream each way, with a look at the wire:
// no packet is lost, nothing is readable, and the old key is gone from all hosts.
func TestWireGuardReplacesItsKey(t *testing.T) {
	for name, config := range map[string]string{
		"separate": `{` + dual + `, "Backend": {"Type": "wireguard", "PSK": "AQIDAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}}`,
		"auto":     `{` + dual + `, "Backend": {"Type": "wireguard", "Mode": "auto"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, config, 3)
			c.start()
			c.pingAll()
			a, b := c.host[0], c.host[1]
			var wires []*wire
			for _, w := range c.host {
				wires = append(wires, w.capture())
			}
			before := a.publicKey()
			var floods []func() (int, []time.Time)
			for i, f := range subnet.Families {
				near, far := c.host[1+i], c.host[2-i]
				floods = append(floods, a.echoes(near, f), far.echoes(a, f))
			}
			streams := []func() (int64, error){a.stream(b, b.pod(subnet.IPv4)), b.stream(a, a.pod(subnet.IPv6))}
			if _, requested, err := wgkey.Request(filepath.Dir(a.keys)); !requested || err != nil {
				t.Fatal(requested, err)
			}
			var steps []string
			kerneltest.Eventually(t, 3*slow, func() error {
				s, err := a.agent.Keys.State("machine-1")
				if err != nil {
					return err
				}
				if step := s.Step.String(); len(steps) == 0 || steps[len(steps)-1] != step {
					steps = append(steps, step)
					t.Logf("%s: %s", time.Now().Format(time.StampMilli), step)
				}
				if s.Step != wgkey.None || s.Device.String() == before {
					var waits []string
					if keys := a.agent.View(t.Context()).Keys; keys != nil { // a busy machine may not answer in time
						waits = keys.elsewhere
					}
					return fmt.Errorf("the steps are %q; waiting for %q", steps, waits)
				}
				return nil
			})
			after := a.publicKey()
			for _, w := range c.host {
				kerneltest.Eventually(t, slow, func() error {
					if out := w.ns.IP(t, "link show type wireguard"); strings.Contains(out, "wg2") {
						return fmt.Errorf("node %d still has\n%s", w.number, out)
					}
					return nil
				})
				if keys := w.peersOf("tulle-wg"); w != a && (slices.Contains(keys, before) || !slices.Contains(keys, after)) {
					t.Errorf("node %d has the peers %q; the key was %s and is %s", w.number, keys, before, after)
				}
			}
			for i, count := range floods {
				sent, lost := count()
				if t.Logf("flood %d lost %d of %d packets", i, len(lost), sent); len(lost) > 0 || sent < 300 {
					slices.SortFunc(lost, time.Time.Compare)
					t.Errorf("flood %d lost %d of %d packets, those of %v", i, len(lost), sent, lost)
				}
			}
			for i, count := range streams {
				if n, err := count(); err != nil || n < 1<<20 {
					t.Errorf("stream %d: %d bytes arrived, %v", i, n, err)
				} else {
					t.Logf("stream %d: %d bytes arrived", i, n)
				}
			}
			for i, w := range wires {
				w.wantNoPlain(t, fmt.Sprintf("node %d", i+1))
			}
			if text, err := os.ReadFile(a.keys); err != nil || bytes.Contains(text, []byte("rotation")) {
				t.Errorf("the key file still has a rotation: %v", err)
			}
			t.Logf("steps %q", steps)
		})
	}
}
