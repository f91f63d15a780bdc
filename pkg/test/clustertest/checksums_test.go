package clustertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// tunnels are the devices that join hosts by VXLAN as tulle does.
var tunnels = subnet.Pair[string]{"tulle.1", "tulle6.1"}

// inTunnel returns a host's own address in the tunnel.
func inTunnel(h *Host, f subnet.Family) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf(subnet.Pair[string]{"10.5.%d.0", "fd00:5:0:%x::"}[f], h.Number))
}

// joinByTunnels joins all hosts of a cluster by tunnels.
func joinByTunnels(t testing.TB, c *Cluster) {
	t.Helper()
	mac := func(h *Host) string { return fmt.Sprintf("02:fe:00:00:00:%02x", h.Number) }
	for _, h := range c.Hosts {
		var lines, forward []string
		for f, dev := range tunnels {
			f := subnet.Family(f)
			at := inTunnel(h, f)
			lines = append(lines,
				fmt.Sprintf("link add %s address %s type vxlan id 1 dstport 8472 local %s nolearning%s", dev, mac(h), h.Addr[f], subnet.Pair[string]{" noudpcsum", ""}[f]),
				fmt.Sprintf("link set %s mtu 1430 up", dev),
				fmt.Sprintf("addr add %s/%d dev %s%s", at, at.BitLen(), dev, noDAD(at)))
			for _, peer := range c.Hosts {
				if peer != h {
					to := inTunnel(peer, f)
					lines = append(lines, fmt.Sprintf("neigh add %s lladdr %s dev %s nud permanent", to, mac(peer), dev),
						fmt.Sprintf("route add %s/%d dev %s src %s", to, to.BitLen(), dev, at))
					forward = append(forward, fmt.Sprintf("fdb add %s dev %s dst %s", mac(peer), dev, peer.Addr[f]))
				}
			}
		}
		batch(t, h.NS, lines...)
		for _, line := range forward {
			h.NS.Bridge(t, line)
		}
	}
}

// offload enables or disables the checksum offload of a host's tunnels.
func offload(t testing.TB, h *Host, value string) {
	t.Helper()
	k, err := kernel.New(h.NS.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	var p netstate.Planner
	for _, dev := range tunnels {
		p.Add(netstate.Replace, netstate.TxChecksum(dev, value))
	}
	if err := k.Apply(context.Background(), p.Plan()); err != nil {
		t.Fatal(err)
	}
}

// openUDP opens a socket of a host at one of its addresses. It sets a socket option
// unless level is 0.
func openUDP(t testing.TB, h *Host, at netip.Addr, level, option int) *net.UDPConn {
	t.Helper()
	var conn *net.UDPConn
	err := Inside(h.NS.Path, func() (err error) {
		if conn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(at, 0))); err != nil || level == 0 {
			return err
		}
		raw, err := conn.SyscallConn()
		if err != nil {
			return err
		}
		return errors.Join(raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), level, option, 1) }), err)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// firstDatagram sends one datagram with a checksum and then one without. It returns
// which arrives first, "whole" or "bare". The path between hosts keeps their order.
func firstDatagram(t testing.TB, from, to *Host, source, target netip.Addr) string {
	t.Helper()
	receiver := openUDP(t, to, target, 0, 0)
	whole, bare := openUDP(t, from, source, 0, 0), openUDP(t, from, source, unix.SOL_SOCKET, unix.SO_NO_CHECK)
	if target.Is6() {
		receiver = openUDP(t, to, target, unix.SOL_UDP, unix.UDP_NO_CHECK6_RX)
		bare = openUDP(t, from, source, unix.SOL_UDP, unix.UDP_NO_CHECK6_TX)
	}
	for _, m := range []struct {
		conn *net.UDPConn
		text string
	}{{whole, "whole"}, {bare, "bare"}} {
		if _, err := m.conn.WriteTo([]byte(m.text), receiver.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	if err := receiver.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 100)
	n, err := receiver.Read(b)
	if err != nil {
		t.Fatalf("from %s to %s neither datagram arrives: %v", source, target, err)
	}
	return string(b[:n])
}

// transfer sends megabytes by TCP.
func transfer(t testing.TB, from, to *Host, target netip.Addr) {
	t.Helper()
	const size = 4 << 20
	var listener net.Listener
	var conn net.Conn
	err := Inside(to.NS.Path, func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(target, 0).String())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	err = Inside(from.NS.Path, func() (err error) {
		conn, err = net.DialTimeout("tcp", listener.Addr().String(), patience)
		return err
	})
	if err != nil {
		t.Fatalf("to %s: %v", target, err)
	}
	defer conn.Close()
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, size))
		sent <- errors.Join(err, conn.Close())
	}()
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if err := far.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, far); n != size || err != nil {
		t.Errorf("%s received %d bytes of %d: %v", target, n, size, err)
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

// TestBreakChecksums checks that packets of UDP and TCP in a tunnel are lost if their
// checksums are left to the interface, and that no other packet is.
func TestBreakChecksums(t *testing.T) {
	c := New(t, Options{Hosts: 2})
	joinByTunnels(t, c)
	a, b := c.Hosts[0], c.Hosts[1]
	expect := func(what, want string) {
		t.Helper()
		for _, f := range subnet.Families {
			mine, theirs := inTunnel(a, f), inTunnel(b, f)
			a.NS.Ping(t, "", b.Addr[f].String(), 1400)
			a.NS.Ping(t, mine.String(), theirs.String(), 1300)
			if got := firstDatagram(t, a, b, mine, theirs); got != want {
				t.Errorf("%s over %s: %s arrives first, want %s", what, f, got, want)
			}
			if got := firstDatagram(t, b, a, theirs, mine); got != "whole" {
				t.Errorf("%s over %s from the other host: %s arrives first", what, f, got)
			}
			if got := firstDatagram(t, a, b, a.Addr[f], b.Addr[f]); got != "whole" {
				t.Errorf("%s over %s outside the tunnel: %s arrives first", what, f, got)
			}
			transfer(t, a, b, b.Addr[f])
			transfer(t, b, a, a.Addr[f])
			if want == "whole" {
				transfer(t, a, b, theirs)
				transfer(t, b, a, mine)
			}
		}
	}
	expect("at first", "whole")
	a.BreakChecksums()
	expect("broken", "bare")
	a.Unplug()
	a.Plug()
	expect("broken and plugged in again", "bare")
	offload(t, a, "off")
	expect("broken, offload disabled", "whole")
	offload(t, a, "on")
	expect("broken, offload enabled", "bare")
	a.RestoreChecksums()
	expect("repaired", "whole")
	a.BreakChecksums()
	expect("broken again", "bare")
}
