package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

const wireguardDual = `{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48", "Backend": {"Type": "wireguard", "Implementation": "userspace"}}`

// wireguardOf returns what the program reports that serves a device of a host.
func (w *world) wireguardOf(h *clustertest.Host, device string) (p companion.Process) {
	w.t.Helper()
	w.eventually(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		c, now, err := companion.Dial(ctx, filepath.Join(h.StateDir, "wireguard", device))
		if err != nil {
			return err
		}
		c.Close()
		if p = now; p.State != companion.Running {
			return fmt.Errorf("%s of %s is %s", device, h.Name, p.State)
		}
		return nil
	})
	return p
}

// crash kills the program that serves a device.
func (w *world) crash(h *clustertest.Host, device string) (killed companion.Process) {
	w.t.Helper()
	killed = w.wireguardOf(h, device)
	if err := syscall.Kill(killed.PID, syscall.SIGKILL); err != nil {
		w.t.Fatal(err)
	}
	return killed
}

// TestWireGuardInUserSpace runs a network without the kernel's WireGuard. Its daemons end
// and come back under pings, and so do the programs that move its packets.
func TestWireGuardInUserSpace(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 3, 1, wireguardDual)
	one, two := w.Hosts[0], w.Hosts[1]
	wire := w.watchWire(one)

	routes, leases := routesOf(one), w.leases()
	programs := [2]companion.Process{w.wireguardOf(one, "tulle-wg"), w.wireguardOf(one, "tulle6-wg")}
	for name, end := range map[string]func(){
		"killed":  func() { w.daemons[one].Kill() },
		"stopped": func() { w.daemons[one].Stop() },
	} {
		pings := w.pings(one, two)
		pings.more(20)
		end()
		pings.more(20)
		w.restart(one)
		pings.more(20)
		t.Logf("with the daemon %s:", name)
		pings.wantAnswered()
	}
	if now := [2]companion.Process{w.wireguardOf(one, "tulle-wg"), w.wireguardOf(one, "tulle6-wg")}; now != programs {
		t.Errorf("the programs are %+v, and were %+v", now, programs)
	}

	for range 2 {
		pings := w.pings(one, two)
		pings.more(20)
		killed := w.crash(one, "tulle-wg")
		w.crash(one, "tulle6-wg")
		began := time.Now()
		if now := routesOf(one); now != routes {
			t.Errorf("without the program the routes are\n%s\nand were\n%s", now, routes)
		}
		w.eventually(func() error {
			if p := w.wireguardOf(one, "tulle-wg"); p.PID == killed.PID {
				return fmt.Errorf("process %d still answers", p.PID)
			}
			return nil
		})
		t.Logf("another program ran after %s", time.Since(began))
		w.Reach(one.Pods[0], two.Pods[0])
		w.Reach(two.Pods[0], one.Pods[0])
		for _, each := range pings.each {
			t.Logf("with a crash: %s", each.Stop())
		}
	}
	if now := w.leases(); fmt.Sprint(now) != fmt.Sprint(leases) {
		t.Errorf("the leases are %v, and were %v", now, leases)
	}
	wire.wantNoPlaintext()
	w.Matrix()

	out, _ := w.command(one, "status", "--output=json")
	var r status.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if wg := r.WireGuard; wg == nil || wg.Problem != "" || wg.Sessions[status.SessionLive] != 4 || wg.Received == 0 || wg.Sent == 0 {
		t.Errorf("the status has %+v", wg)
	}
	if log := w.daemons[one].Log(); strings.Contains(log, "(hidden)") {
		t.Errorf("a program quoted a key:\n%s", log)
	}

	w.daemons[one].Stop()
	if out, code := w.cleanUp(one); code != 0 || !strings.Contains(out, "removed link tulle-wg") || !strings.Contains(out, "removed link tulle6-wg") {
		t.Errorf("cleanup ends with %d:\n%s", code, out)
	}
	w.eventually(func() error {
		for _, p := range programs {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", p.PID)); err == nil {
				return fmt.Errorf("process %d still runs", p.PID)
			}
		}
		for _, device := range []string{"tulle-wg", "tulle6-wg"} {
			if _, _, err := companion.Dial(t.Context(), filepath.Join(one.StateDir, "wireguard", device)); err != companion.ErrNone {
				return fmt.Errorf("the program of %s still runs: %v", device, err)
			}
		}
		return nil
	})
	if held := one.Kernel(); strings.Contains(held, "tulle") || strings.Contains(held, "proto 84") {
		t.Errorf("after cleanup there is\n%s", held)
	}
}

// TestWireGuardInUserSpaceHeals takes the devices and changes them.
func TestWireGuardInUserSpaceHeals(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, wireguardDual)
	one, two := w.Hosts[0], w.Hosts[1]
	wire := w.watchWire(one)
	elsewhere := kerneltest.NewNS(t, "elsewhere").Name
	for _, line := range []string{"link delete tulle-wg", "link set tulle6-wg down", "link set tulle-wg netns " + elsewhere, "link set tulle-wg name stolen", "route flush proto 84", "link set tulle-wg mtu 1430"} {
		w.eventually(func() error {
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
		if links := one.NS.IP(t, "link show"); !strings.Contains(links, "tulle-wg") || strings.Contains(links, "stolen") || strings.Contains(links, "mtu 1430") {
			return fmt.Errorf("the host has %s", links)
		}
		return nil
	})
	wire.wantNoPlaintext()
	w.put(configKey, dualConfig)
	for _, h := range w.Hosts {
		w.daemons[h].Stop()
		w.start(h)
	}
	w.Matrix()
	for _, h := range w.Hosts {
		w.eventually(func() error {
			if links := h.NS.IP(t, "link show"); strings.Contains(links, "wg") {
				return fmt.Errorf("%s has %s", h.Name, links)
			}
			if _, _, err := companion.Dial(t.Context(), filepath.Join(h.StateDir, "wireguard", "tulle-wg")); err != companion.ErrNone {
				return fmt.Errorf("the program of %s still runs: %v", h.Name, err)
			}
			return nil
		})
	}
}

// TestSilentWireGuardProgram stops the program of a host. Its daemon heals what the kernel has,
// ends and starts. Once the program goes on, or has ended, all is as it was.
func TestSilentWireGuardProgram(t *testing.T) {
	t.Parallel()
	w := newNetwork(t, 2, 1, `{"Network": "10.5.0.0/16", "Backend": {"Type": "wireguard", "Implementation": "userspace"}}`)
	one, two := w.Hosts[0], w.Hosts[1]
	routes, program := routesOf(one), w.wireguardOf(one, "tulle-wg")
	signal := func(s syscall.Signal) {
		t.Helper()
		if err := syscall.Kill(program.PID, s); err != nil {
			t.Fatal(err)
		}
	}
	silent := func() error {
		if out, code := w.command(one, "status"); code == 0 || !strings.Contains(out, "tulle-wireguard does not answer") {
			return fmt.Errorf("the status is %d:\n%s", code, out)
		}
		return nil
	}
	healed := func() error {
		if now := routesOf(one); now != routes {
			return fmt.Errorf("the routes are\n%s\nand were\n%s", now, routes)
		}
		return nil
	}
	works := func() {
		t.Helper()
		w.eventually(func() error {
			if out, code := w.command(one, "status"); code != 0 {
				return fmt.Errorf("not ready:\n%s", out)
			}
			return nil
		})
		w.Reach(one.Pods[0], two.Pods[0])
		w.Reach(two.Pods[0], one.Pods[0])
	}
	signal(syscall.SIGSTOP)
	kerneltest.AwaitStopped(t, program.PID)
	for n := range 2 {
		one.NS.IP(t, "link set tulle-wg down")
		w.eventually(silent)
		w.eventually(healed)
		if out, _ := w.command(one, "status"); n == 0 && strings.Contains(out, "wgpeer") {
			t.Errorf("peers of the silent program count as missing:\n%s", out)
		}
		one.NS.IP(t, "link set tulle-wg down")
		w.eventually(silent)
		w.eventually(healed)
		w.daemons[one].Stop()
		w.start(one)
		w.eventually(silent)
		w.eventually(healed)
	}
	signal(syscall.SIGCONT)
	works()
	if now := w.wireguardOf(one, "tulle-wg"); now != program {
		t.Errorf("the program is %+v, and was %+v", now, program)
	}
	signal(syscall.SIGSTOP)
	kerneltest.AwaitStopped(t, program.PID)
	one.NS.IP(t, "link set tulle-wg down")
	w.eventually(silent)
	signal(syscall.SIGKILL)
	works()
}

// wire counts the frames on a host's uplink that show the addresses of containers.
type wire struct {
	t          *testing.T
	end, ended chan struct{}
	plain, all int
}

// watchWire begins to count.
func (w *world) watchWire(h *clustertest.Host) *wire {
	w.t.Helper()
	c := &wire{t: w.t, end: make(chan struct{}), ended: make(chan struct{})}
	fd := -1
	if err := clustertest.Inside(h.NS.Path, func() (err error) {
		const everything = unix.ETH_P_ALL<<8&0xff00 | unix.ETH_P_ALL>>8
		if fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return err
		}
		request, err := unix.NewIfreq(clustertest.Uplink)
		if err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, request); err != nil {
			return err
		}
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}); err != nil {
			return err
		}
		return unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: everything, Ifindex: int(request.Uint32())})
	}); err != nil {
		w.t.Fatal(err)
	}
	go c.run(fd)
	return c
}

// isOverlay reports whether an address is one of a container.
func isOverlay(a netip.Addr) bool {
	return netip.MustParsePrefix("10.5.0.0/16").Contains(a) || netip.MustParsePrefix("fd00:5::/48").Contains(a)
}

func (c *wire) run(fd int) {
	defer close(c.ended)
	defer unix.Close(fd)
	for b := make([]byte, 2048); ; {
		select {
		case <-c.end:
			return
		default:
		}
		n, _, err := unix.Recvfrom(fd, b, 0)
		if err != nil {
			continue
		}
		c.all++
		var from, to netip.Addr
		switch p := b[:n]; {
		case n >= 20 && p[0]>>4 == 4:
			from, to = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
		case n >= 40 && p[0]>>4 == 6:
			from, to = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
		}
		if isOverlay(from) || isOverlay(to) {
			c.plain++
		}
	}
}

// wantNoPlaintext ends the count.
func (c *wire) wantNoPlaintext() {
	c.t.Helper()
	close(c.end)
	<-c.ended
	c.t.Logf("%d frames on the wire, %d with addresses of containers", c.all, c.plain)
	if c.plain > 0 || c.all == 0 {
		c.t.Errorf("%d of %d frames are readable", c.plain, c.all)
	}
}
