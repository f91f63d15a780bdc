//go:build vm

package network

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/wgkey"
	"github.com/tulle-net/tulle/subnet"
)

// pinging sends marked pings until it is called, and then returns what became of them.
func (w *whole) pinging(to netip.Addr, from netip.Addr) func() (sent, lost int) {
	w.t.Helper()
	cmd := w.ns.Command("ping", "-n", "-q", "-i", "0.01", "-s", "200", "-p", hex.EncodeToString([]byte(marker)), "-I", from.String(), to.String())
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cmd.Process.Kill() })
	return func() (sent, lost int) {
		w.t.Helper()
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // it fails if a ping was lost, which the counts show
		m := regexp.MustCompile(`(\d+) packets transmitted, (\d+) received`).FindStringSubmatch(out.String())
		if m == nil {
			w.t.Fatalf("ping said %q", &out)
		}
		sent, _ = strconv.Atoi(m[1])
		received, _ := strconv.Atoi(m[2])
		return sent, sent - received
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

// TestWireGuardReplacesItsKey under pings and a stream each way, with a look at the wire:
// no ping is lost, nothing is readable, and the old key is gone from all hosts.
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
			var pings []func() (int, int)
			for i, f := range subnet.Families {
				near, far := c.host[1+i], c.host[2-i]
				pings = append(pings, a.pinging(near.pod(f), a.pod(f)), far.pinging(a.pod(f), far.pod(f)))
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
				}
				if s.Step != wgkey.None || s.Device.String() == before {
					return fmt.Errorf("the steps are %q; %v", steps, a.agent.View(t.Context()).Keys.elsewhere)
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
			for i, count := range pings {
				if sent, lost := count(); lost != 0 || sent < 300 {
					t.Errorf("flood %d lost %d of %d pings", i, lost, sent)
				} else {
					t.Logf("flood %d lost none of %d pings", i, sent)
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
