package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

const udpDual = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "udp"}}`

// routesOf returns the routes of a host.
func routesOf(h *clustertest.Host) string {
	var b strings.Builder
	for line := range strings.Lines(h.Kernel()) {
		if strings.HasPrefix(line, "route ") {
			// Without a program, a TUN device is like an interface without a cable.
			b.WriteString(strings.ReplaceAll(line, " linkdown", ""))
		}
	}
	return b.String()
}

// movedBy returns what a host's daemon has moved through a device.
func (w *world) movedBy(h *clustertest.Host, device string) status.Moved {
	w.t.Helper()
	var moved status.Moved
	w.eventually(func() error {
		out, _ := w.command(h, "status", "--output=json")
		var r status.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		for _, m := range r.Network.Moved {
			if m.Device == device {
				moved = m
				return nil
			}
		}
		return fmt.Errorf("%s moves nothing through %s: %s", h.Name, device, out)
	})
	return moved
}

// TestUDPHealsAndRestarts takes the backend's device, changes it and ends its daemon.
func TestUDPHealsAndRestarts(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, udpDual)
	one, two := w.Hosts[0], w.Hosts[1]
	elsewhere := kerneltest.NewNS(t, "elsewhere").Name
	for _, line := range []string{"link delete tulle.udp", "link set tulle6.udp down", "link set tulle.udp netns " + elsewhere, "link set tulle.udp name stolen", "route flush proto 84"} {
		w.eventually(func() error { // the last one must be healed
			if out, code := w.command(one, "status"); code != 0 {
				return fmt.Errorf("not ready:\n%s", out)
			}
			return nil
		})
		one.NS.IP(t, line)
		w.Reach(one.Pods[0], two.Pods[0])
		w.Reach(two.Pods[0], one.Pods[0])
	}
	w.eventually(func() error {
		if links := one.NS.IP(t, "link show"); !strings.Contains(links, "tulle.udp") || strings.Contains(links, "stolen") {
			return fmt.Errorf("the host has %s", links)
		}
		return nil
	})

	// Whatever is leased to no host is answered, and leaves the host no other way.
	out, _ := one.Pods[0].NS.Command("ping", "-n", "-c1", "-W5", "10.5.255.9").CombinedOutput()
	if !strings.Contains(string(out), "Destination Net Unreachable") {
		t.Errorf("an unused address: %s", out)
	}

	routes, leases := routesOf(one), w.leases()
	for name, end := range map[string]func(){
		"killed":  func() { w.daemons[one].Kill() },
		"stopped": func() { w.daemons[one].Stop() },
	} {
		pings := w.pings(one, two)
		pings.more(10)
		end()
		if now := routesOf(one); now != routes {
			t.Errorf("with the daemon %s the routes are\n%s\nand were\n%s", name, now, routes)
		}
		w.restart(one)
		w.Reach(one.Pods[0], two.Pods[0])
		for _, each := range pings.each {
			t.Logf("%s: %s", name, each.Stop())
		}
		if now := w.leases(); fmt.Sprint(now) != fmt.Sprint(leases) {
			t.Errorf("with the daemon %s the leases are %v, and were %v", name, now, leases)
		}
	}
	w.Matrix()

	w.daemons[one].Stop()
	if out, code := w.cleanUp(one); code != 0 || !strings.Contains(out, "removed link tulle.udp") || !strings.Contains(out, "removed link tulle6.udp") {
		t.Errorf("cleanup ends with %d:\n%s", code, out)
	}
	if held := one.Kernel(); strings.Contains(held, "tulle") || strings.Contains(held, "proto 84") {
		t.Errorf("after cleanup there is\n%s", held)
	}
}

// TestUDPChanges changes a network from vxlan to udp and back, and the port between.
func TestUDPChanges(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, dualConfig)
	set := func(backend string) {
		w.put(configKey, strings.Replace(udpDual, `{"Type": "udp"}`, backend, 1))
	}
	move := func(backend, device, other string) {
		t.Helper()
		set(backend)
		for _, h := range w.Hosts {
			w.daemons[h].Stop()
			w.start(h)
		}
		w.Matrix()
		for _, h := range w.Hosts {
			w.eventually(func() error {
				if links := h.NS.IP(t, "link show"); !strings.Contains(links, device) || strings.Contains(links, other) {
					return fmt.Errorf("with %s, %s has %s", backend, h.Name, links)
				}
				return nil
			})
		}
	}
	move(`{"Type": "udp"}`, "tulle.udp", "tulle.1")
	set(`{"Type": "udp", "Port": 9000}`)
	for _, h := range w.Hosts {
		w.eventually(func() error {
			if sockets, _ := h.NS.Command("ss", "-lun").CombinedOutput(); !strings.Contains(string(sockets), ":9000 ") || strings.Contains(string(sockets), ":8285 ") {
				return fmt.Errorf("%s listens on\n%s", h.Name, sockets)
			}
			return nil
		})
	}
	w.Matrix()
	move(`{"Type": "vxlan"}`, "tulle.1", "tulle.udp")
}

// TestUDPTakesNothingFromStrangers sends datagrams from a host without a lease, and bad
// ones from a peer's address, while pings go on.
func TestUDPTakesNothingFromStrangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 1, `{"Network": "10.5.0.0/16", "Backend": {"Type": "udp"}}`)
	one, two, stranger := w.Hosts[0], w.Hosts[1], w.Hosts[2]
	for _, h := range []*clustertest.Host{one, two} {
		w.start(h)
		h.AddPod()
	}
	w.Reach(one.Pods[0], two.Pods[0])
	pings := w.pings(one, two)
	before := w.movedBy(one, "tulle.udp").Dropped

	ping := func(from, to netip.Addr) []byte { // a bare IPv4 header, which is a whole packet
		b := []byte{0x45, 0, 0, 20, 0, 0, 0, 0, 64, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		copy(b[12:], from.AsSlice())
		copy(b[16:], to.AsSlice())
		return b
	}
	pod, far := one.Pods[0].Addr[0], two.Pods[0].Addr[0]
	good := ping(far, pod)
	long := append(ping(far, pod), 1)
	old := ping(far, pod)
	old[8] = 1
	const each = 20
	w.send(stranger, one, each, good)
	w.send(two, one, each, []byte{}, []byte{0x45}, good[:19], long, make([]byte, 1400), append([]byte{0x60}, make([]byte, 39)...))
	w.send(two, one, each, ping(netip.MustParseAddr("224.0.0.1"), pod), ping(far, netip.MustParseAddr("198.18.0.1")), ping(netip.MustParseAddr("127.0.0.1"), pod), ping(pod, pod))
	w.send(two, one, each, old)
	want := map[string]uint64{"stranger": each, "malformed": 6 * each, "foreign": 4 * each, "expired": each}
	w.eventually(func() error {
		now := w.movedBy(one, "tulle.udp").Dropped
		for why, n := range want {
			if got := now[why] - before[why]; got != n {
				return fmt.Errorf("%d packets are dropped as %s, not %d: %v", got, why, n, now)
			}
		}
		return nil
	})
	pings.more(20)
	pings.wantAnswered()
}

// send sends datagrams, so many of each, to the backend's port of a host.
func (w *world) send(from, to *clustertest.Host, each int, datagrams ...[]byte) {
	w.t.Helper()
	err := clustertest.Inside(from.NS.Path, func() error {
		conn, err := net.Dial("udp", netip.AddrPortFrom(to.Addr[0], 8285).String())
		if err != nil {
			return err
		}
		defer conn.Close()
		for range each {
			for _, d := range datagrams {
				if _, err := conn.Write(d); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
