package ends

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// host is a host with a WireGuard device, and its addresses end in its number.
type host struct {
	t       *testing.T
	n       int
	ns      *kerneltest.NS
	key     *ecdh.PrivateKey
	device  *device.Device
	sockets *sockets
	peer    *host
}

func newHost(t *testing.T, n int) *host {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &host{t: t, n: n, ns: kerneltest.NewNS(t, fmt.Sprintf("host%d", n)), key: key}
}

// start starts the device with one peer.
func (h *host) start(peer *host) {
	h.t.Helper()
	h.ns.Do(h.t, func() error {
		native, err := tun.CreateTUN("wg", 1420)
		if err != nil {
			return err
		}
		k, err := kernel.New(h.ns.Path)
		if err != nil {
			return err
		}
		t, s, err := New(native, k, func() {})
		if err != nil {
			return err
		}
		h.sockets = s.(*sockets)
		h.device = device.NewDevice(t, s, device.NewLogger(device.LogLevelSilent, ""))
		h.t.Cleanup(h.device.Close)
		if err := h.device.IpcSet(fmt.Sprintf("private_key=%x\nlisten_port=51820\n", h.key.Bytes())); err != nil {
			return err
		}
		return h.device.Up()
	})
	h.peer = peer
	h.set(fmt.Sprintf("endpoint=198.18.0.%d:51820\nallowed_ip=10.5.%d.0/24\nallowed_ip=fd00:5:%d::/48", peer.n, peer.n, peer.n))
	h.ns.IP(h.t, fmt.Sprintf("addr add 10.5.%d.1/16 dev wg", h.n))
	h.ns.IP(h.t, fmt.Sprintf("addr add fd00:5:%d::1/32 dev wg nodad", h.n))
	h.ns.IP(h.t, "link set wg up")
}

// set configures the peer.
func (h *host) set(lines string) {
	h.t.Helper()
	if err := h.device.IpcSet(fmt.Sprintf("public_key=%x\n%s\n", h.peer.key.PublicKey().Bytes(), lines)); err != nil {
		h.t.Fatal(err)
	}
}

// peerIsAt returns an error unless the device sends to its peer at an address.
func (h *host) peerIsAt(address string) error {
	state, err := h.device.IpcGet()
	if err == nil && !strings.Contains(state, "\nendpoint="+address+":51820\n") {
		err = fmt.Errorf("the peer is not at %s: %s", address, state)
	}
	return err
}

// pair returns two hosts whose devices are peers.
func pair(t *testing.T) (a, b *host) {
	t.Helper()
	a, b = newHost(t, 1), newHost(t, 2)
	kerneltest.Join(t, a.ns, "eth0", b.ns, "eth0")
	for _, h := range []*host{a, b} {
		h.ns.IP(t, fmt.Sprintf("addr add 198.18.0.%d/24 dev eth0", h.n))
	}
	a.start(b)
	b.start(a)
	return a, b
}

// inside returns a host's addresses in the tunnel.
func (h *host) inside() []netip.Addr {
	return []netip.Addr{netip.AddrFrom4([4]byte{10, 5, byte(h.n), 1}), netip.MustParseAddr(fmt.Sprintf("fd00:5:%d::1", h.n))}
}

// TestDevicesCarryStreams of both families, with segments of all sizes, unchanged.
func TestDevicesCarryStreams(t *testing.T) {
	a, b := pair(t)
	for _, mss := range []int{1360, 1000, 400, 88} { // which the route tells the peer
		b.ns.IP(t, fmt.Sprintf("route replace 10.5.0.0/16 dev wg src 10.5.2.1 advmss %d", mss))
		b.ns.IP(t, fmt.Sprintf("route replace fd00:5::/32 dev wg advmss %d", mss))
		for _, to := range b.inside() {
			if err := stream(t, a, b, to); err != nil {
				t.Errorf("to %s with segments of %d: %v", to, mss, err)
			}
		}
	}
}

// stream sends a stream between hosts, and returns what is wrong with what comes.
func stream(t *testing.T, from, to *host, at netip.Addr) error {
	t.Helper()
	data := make([]byte, 10<<20)
	_, _ = rand.Read(data) // never fails
	var l net.Listener
	to.ns.Do(t, func() (err error) {
		l, err = net.Listen("tcp", netip.AddrPortFrom(at, 80).String())
		return err
	})
	defer l.Close()
	came := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			came <- err
			return
		}
		defer c.Close()
		got, err := io.ReadAll(c)
		if err == nil && !bytes.Equal(got, data) {
			err = fmt.Errorf("%d bytes came, and not those that were sent", len(got))
		}
		came <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := kerneltest.Dialer(from.ns.Name)(ctx, "tcp", l.Addr().String())
	if err != nil {
		return err
	}
	_, err = c.Write(data)
	if err := errors.Join(err, c.Close()); err != nil {
		return err
	}
	return <-came
}

// TestSourceFollowsRoutes: packets leave from the address that the peer knows, while the routes lead
// to it from there.
func TestSourceFollowsRoutes(t *testing.T) {
	a, b := pair(t)
	b.ns.IP(t, "addr add 198.18.0.9/24 dev eth0") // the kernel would choose the other
	a.set("endpoint=198.18.0.9:51820")
	ping := func(endpoint string) {
		t.Helper()
		a.ns.Ping(t, "", b.inside()[0].String(), 100)
		b.ns.Ping(t, "", a.inside()[0].String(), 100)
		if err := a.peerIsAt(endpoint); err != nil {
			t.Fatal(err)
		}
	}
	ping("198.18.0.9")
	for i := range 2 {
		before := b.sockets.routes.generation.Load()
		b.ns.IP(t, fmt.Sprintf("route add 198.19.%d.0/24 dev eth0", i))
		kerneltest.Eventually(t, time.Minute, func() error {
			if b.sockets.routes.generation.Load() == before {
				return errors.New("the change is not seen")
			}
			return nil
		})
		ping("198.18.0.9")
	}
	kerneltest.Join(t, b.ns, "eth1", a.ns, "eth1")
	b.ns.IP(t, "route add 198.18.0.0/24 dev eth1 table 7")
	b.ns.IP(t, "rule add from 198.18.0.9 table 7") // which is not where its packets come from
	kerneltest.Eventually(t, time.Minute, func() error {
		b.ns.Ping(t, "", a.inside()[0].String(), 100)
		return a.peerIsAt("198.18.0.2")
	})
	b.ns.IP(t, "rule del from 198.18.0.9 table 7")
	a.set("endpoint=198.18.0.9:51820")
	a.ns.Ping(t, "", b.inside()[0].String(), 100)
	b.ns.IP(t, "addr del 198.18.0.9/24 dev eth0")
	b.ns.Ping(t, "", a.inside()[0].String(), 100)
	ping("198.18.0.2")
}
