package udp_test

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/dataplane/udp"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// TestIdleEngineCostsNothing: a node with another backend has one, too.
func TestIdleEngineCostsNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	e := udp.New()
	e.Close("tulle.udp")
	if n := runtime.NumGoroutine(); n > before || e.Counts() != nil {
		t.Errorf("%d goroutines, and were %d; it counts %v", n, before, e.Counts())
	}
	e.CloseAll()
}

// TestPacketsOfAllSizes sends pings, and data that the kernel hands over in large packets.
func TestPacketsOfAllSizes(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	for _, size := range []int{0, 1, 1000, 1444} {
		a.pod.Ping(t, "", b.podIP(), size)
		b.pod.Ping(t, "", a.podIP(), size)
	}
	transfer(t, a, b, 32<<20)
	kerneltest.Eventually(t, time.Minute, func() error { // packets are counted once they are sent
		sent, received := a.counts(), b.counts()
		if received.BytesIn < 32<<20 || received.PacketsIn < 32<<20/1472 || received.PacketsIn > sent.PacketsOut || received.BytesIn > sent.BytesOut {
			return fmt.Errorf("one counts %+v, the other %+v", sent, received)
		}
		return nil
	})
	// Larger packets are refused by the kernel, whose answer says what fits.
	out, _ := a.pod.Command("ping", "-n", "-c1", "-W1", "-M", "do", "-s", "1445", b.podIP()).CombinedOutput()
	if !strings.Contains(string(out), "message too long") && !strings.Contains(string(out), "mtu") {
		t.Errorf("a packet too large: %s", out)
	}
}

// transfer sends bytes by TCP from one pod to the other, and checks them.
func transfer(t *testing.T, from, to *host, size int) {
	t.Helper()
	var l net.Listener
	to.pod.Do(t, func() (err error) {
		l, err = net.Listen("tcp", to.podIP()+":5001")
		return err
	})
	defer l.Close()
	sent := make(chan error, 1)
	go func() {
		var c net.Conn
		err := from.dial(func() (err error) {
			c, err = net.Dial("tcp", to.podIP()+":5001")
			return err
		})
		if err == nil {
			b := make([]byte, 64<<10)
			for n := 0; n < size && err == nil; n += len(b) {
				for i := range b {
					b[i] = byte((n + i) >> 7)
				}
				_, err = c.Write(b)
			}
			c.Close()
		}
		sent <- err
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	b, got := make([]byte, 64<<10), 0
	for {
		n, err := c.Read(b)
		for i := range n {
			if b[i] != byte((got+i)>>7) {
				t.Fatalf("byte %d is wrong", got+i)
			}
		}
		if got += n; err != nil {
			break
		}
	}
	if err := <-sent; err != nil || got != size {
		t.Errorf("%d bytes of %d came: %v", got, size, err)
	}
}

// TestTakenPortIsNamed: as while flannel runs. Once the port is free, the link works.
func TestTakenPortIsNamed(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	kerneltest.Join(t, a.ns, "eth0", b.ns, "eth0")
	for _, h := range []*host{a, b} {
		h.ns.IP(t, "addr add "+h.address().String()+"/24 dev eth0")
	}
	var other net.PacketConn
	a.ns.Do(t, func() (err error) {
		other, err = net.ListenPacket("udp", netip.AddrPortFrom(a.address(), 8285).String())
		return err
	})
	defer other.Close()
	b.set(a)
	a.want = netstate.Of(a.link(), a.peer(b), netstate.Route{Dst: netip.MustParsePrefix("10.5.0.0/16"), Link: device})
	var failed netstate.Failures
	err := a.plane.Apply(t.Context(), a.plan())
	if !errors.As(err, &failed) || len(failed) != 1 || !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "ss -lunp sport = 8285") {
		t.Fatalf("it ends with %v", err)
	}
	other.Close()
	a.set(b)
	a.pod.Ping(t, "", b.podIP(), 100)
}

// TestPortIsNotShared: a second daemon would get a part of the packets.
func TestPortIsNotShared(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	other := udp.NewInside(func(f func() error) (err error) {
		a.ns.Do(t, func() error {
			err = f()
			return nil
		})
		return err
	})
	defer other.CloseAll()
	if err := other.Open(t.Context(), a.link()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second engine opens with %v", err)
	}
	a.pod.Ping(t, "", b.podIP(), 100)
}

// TestNoPeerSendsAsAnotherHost: not as another peer, nor as this host. It sends from its
// own subnet, from addresses that no host has, and from outside the network.
func TestNoPeerSendsAsAnotherHost(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	a.want.Put(netstate.UDPPeer{Link: device, Prefix: netip.MustParsePrefix("10.5.3.0/24"), Endpoint: netip.MustParseAddrPort("198.18.0.3:8285")})
	a.sync()
	before := a.counts()
	b.ns.Do(t, func() error {
		conn, err := net.Dial("udp", a.link().UDP.Local.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		for _, source := range []string{"10.5.2.9", "10.5.3.2", "10.5.1.2", "10.5.9.9", "10.5.0.0", "192.0.2.1", "127.0.0.1", "0.0.0.0", "224.0.0.1", "10.5.2.9"} {
			p := []byte{0x45, 19: 0} // a bare header
			p[3], p[8], p[9] = 20, 64, 253
			copy(p[12:], netip.MustParseAddr(source).AsSlice())
			copy(p[16:], netip.MustParseAddr(a.podIP()).AsSlice())
			if _, err := conn.Write(p); err != nil {
				return err
			}
		}
		return nil
	})
	kerneltest.Eventually(t, time.Minute, func() error {
		now := a.counts()
		if foreign, in := now.Dropped[udp.Foreign]-before.Dropped[udp.Foreign], now.PacketsIn-before.PacketsIn; foreign != 5 || in < 5 {
			return fmt.Errorf("%d dropped, %d received", foreign, in)
		}
		return nil
	})
}

// TestReplayedAndOversizedPackets: a datagram has no number, so each copy of one is a
// packet, as in any IP network. What is larger than the device's MTU goes no further than
// the kernel.
func TestReplayedAndOversizedPackets(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	a.pod.Ping(t, "", b.podIP(), 100)
	packet := func(size int) []byte {
		p := make([]byte, size)
		p[0], p[2], p[3], p[8], p[9] = 0x45, byte(size>>8), byte(size), 64, 253
		copy(p[12:], netip.MustParseAddr("10.5.2.9").AsSlice())
		copy(p[16:], netip.MustParseAddr(a.podIP()).AsSlice())
		return p
	}
	before := a.counts()
	const copies, largest = 5, 65507 // few enough for all fragments to wait in the kernel
	b.ns.Do(t, func() error {
		conn, err := net.Dial("udp", a.link().UDP.Local.String())
		if err != nil {
			return err
		}
		defer conn.Close()
		for range copies {
			for _, size := range []int{20, 1472, 1473, 9000, largest} {
				if _, err := conn.Write(packet(size)); err != nil {
					return err
				}
			}
		}
		return nil
	})
	kerneltest.Eventually(t, time.Minute, func() error {
		now := a.counts()
		if in, lost := now.PacketsIn-before.PacketsIn, now.Total()-before.Total(); in+lost < 5*copies || in < 3*copies {
			return fmt.Errorf("%d received, %d dropped: %+v", in, lost, now)
		}
		return nil
	})
	a.pod.Ping(t, "", b.podIP(), 1444)
	transfer(t, b, a, 1<<20)
}

// TestHostsOtherAddressesReachContainers: as of programs that bind to the host's address
// between hosts, and of clients whose packets a host forwards without masquerading.
func TestHostsOtherAddressesReachContainers(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	b.ns.IP(t, "addr add 192.0.2.1/32 dev lo")
	a.ns.IP(t, "route add 192.0.2.1/32 via "+b.address().String())
	for _, source := range []string{"10.5.2.0", b.address().String(), "192.0.2.1"} {
		b.ns.Ping(t, source, a.podIP(), 100)
	}
	if c := a.counts(); c.Dropped[udp.Foreign] != 0 {
		t.Errorf("it has counted %+v", c)
	}
}

// TestLostDeviceIsReported, and the same device works again.
func TestLostDeviceIsReported(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	stopped := make(chan string, 10)
	a.engine.OnStop(func(link string) { stopped <- link })
	for _, line := range []string{"link delete " + device, "link set " + device + " name other"} {
		a.ns.IP(t, line)
		if strings.Contains(line, "delete") {
			select {
			case link := <-stopped:
				if link != device {
					t.Errorf("%s is reported", link)
				}
			case <-time.After(time.Minute):
				t.Fatal("nothing is reported")
			}
		}
		if strings.Contains(line, "name") {
			a.ns.IP(t, "link delete other")
		}
		a.sync()
		a.pod.Ping(t, "", b.podIP(), 100)
		b.pod.Ping(t, "", a.podIP(), 100)
	}
}

// TestDeviceInAnotherNamespaceIsReplaced: it keeps its name and its queues there. Another
// program may have made one with the name here.
func TestDeviceInAnotherNamespaceIsReplaced(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	for i, others := range [][]string{nil, {"tuntap add dev " + device + " mode tun multi_queue vnet_hdr", "link set " + device + " up"}} {
		elsewhere := kerneltest.NewNS(t, fmt.Sprintf("elsewhere%d", i))
		a.ns.IP(t, "link set "+device+" netns "+elsewhere.Name)
		for _, line := range others {
			a.ns.IP(t, line)
		}
		a.sync()
		a.pod.Ping(t, "", b.podIP(), 100)
		b.pod.Ping(t, "", a.podIP(), 100)
	}
}

// TestLostDeviceFreesItsPort: also if no link is wanted any more.
func TestLostDeviceFreesItsPort(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	elsewhere := kerneltest.NewNS(t, "elsewhere")
	for _, line := range []string{"link delete " + device, "link set " + device + " netns " + elsewhere.Name} {
		a.set(b)
		a.ns.IP(t, line)
		a.want = &netstate.State{}
		a.sync()
		a.ns.Do(t, func() error {
			l, err := net.ListenPacket("udp", a.link().UDP.Local.String())
			if err != nil {
				return fmt.Errorf("after %s: %w", line, err)
			}
			return l.Close()
		})
	}
}

// TestChangedLinkMovesOn: to another port, and to another peer. What was counted stays.
func TestChangedLinkMovesOn(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	a.pod.Ping(t, "", b.podIP(), 100)
	before := a.counts()
	for _, h := range []*host{a, b} {
		l := h.link()
		l.UDP.Local = netip.AddrPortFrom(h.address(), 9000)
		h.want.Put(l)
		p := a.peer(b)
		if h == b {
			p = b.peer(a)
		}
		p.Endpoint = netip.AddrPortFrom(p.Endpoint.Addr(), 9000)
		h.want.Put(p)
		h.sync()
	}
	a.pod.Ping(t, "", b.podIP(), 100)
	if now := a.counts(); now.PacketsOut <= before.PacketsOut {
		t.Errorf("it has counted %+v, and before %+v", now, before)
	}
	a.want.Delete(a.peer(b).Key())
	a.sync()
	out, _ := a.pod.Command("ping", "-n", "-c1", "-W5", b.podIP()).CombinedOutput()
	if !strings.Contains(string(out), "Destination Net Unreachable") {
		t.Errorf("without the peer: %s", out)
	}
	if a.counts().Dropped[udp.NoRoute] == 0 {
		t.Errorf("it has counted %+v", a.counts())
	}
}

// TestMulticastIsCountedApart: programs of a host and its kernel send some, of both
// families. No fault of a tunnel shows in their number.
func TestMulticastIsCountedApart(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	a.ns.IP(t, "addr add fe80::1/64 dev "+device+" nodad")
	a.ns.IP(t, "route add 224.0.0.0/4 dev "+device)
	for _, group := range []string{"224.0.0.251:5353", "239.255.255.250:1900", "[ff02::fb%" + device + "]:5353"} {
		before := a.counts().Dropped[udp.Multicast]
		kerneltest.Eventually(t, time.Minute, func() error {
			a.ns.Do(t, func() error {
				conn, err := net.Dial("udp", group)
				if err != nil {
					return err
				}
				defer conn.Close()
				_, err = conn.Write([]byte("question"))
				return err
			})
			if a.counts().Dropped[udp.Multicast] == before {
				return fmt.Errorf("%s is not counted: %+v", group, a.counts())
			}
			return nil
		})
	}
	if c := a.counts(); c.Total() != c.Dropped[udp.Multicast] {
		t.Errorf("it has counted %+v", c)
	}
}

// TestHopLimit: a packet takes one hop at each end of the tunnel.
func TestHopLimit(t *testing.T) {
	a, b := newHost(t, 1), newHost(t, 2)
	connect(t, a, b)
	answer := func(limit int) string {
		out, _ := a.pod.Command("ping", "-n", "-c1", "-W2", "-t", fmt.Sprint(limit), b.podIP()).CombinedOutput()
		return string(out)
	}
	kerneltest.Eventually(t, time.Minute, func() error {
		if out := answer(64); !strings.Contains(out, " 0% packet loss") {
			return errors.New(out)
		}
		return nil
	})
	if out := answer(2); !strings.Contains(out, "From 10.5.0.0") || !strings.Contains(out, "Time to live exceeded") {
		t.Errorf("with two hops: %s", out)
	}
	if n := a.counts().Dropped[udp.Expired]; n == 0 {
		t.Error("none is counted")
	}
}
