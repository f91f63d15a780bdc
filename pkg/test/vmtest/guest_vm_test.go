//go:build vm

package main

import (
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestTunnelsBetweenNamespaces checks the purpose of the machine: hosts in namespaces,
// with tunnels between them that the kernel of another machine may lack.
func TestTunnelsBetweenNamespaces(t *testing.T) {
	for _, command := range []string{
		"ip netns add a",
		"ip netns add b",
		"ip link add eth0 netns a type veth peer name eth0 netns b",
		"ip -n a link set eth0 up",
		"ip -n b link set eth0 up",
		"ip -n a addr add 192.0.2.1/24 dev eth0",
		"ip -n b addr add 192.0.2.2/24 dev eth0",
		"ip -n a addr add 2001:db8::1/64 dev eth0 nodad",
		"ip -n b addr add 2001:db8::2/64 dev eth0 nodad",
		"ip -n a link add over4 type ipip local 192.0.2.1 remote 192.0.2.2",
		"ip -n b link add over4 type ipip local 192.0.2.2 remote 192.0.2.1",
		"ip -n a link add over6 type ip6tnl local 2001:db8::1 remote 2001:db8::2 mode any",
		"ip -n b link add over6 type ip6tnl local 2001:db8::2 remote 2001:db8::1 mode any",
		"ip -n a link set over4 up",
		"ip -n b link set over4 up",
		"ip -n a link set over6 up",
		"ip -n b link set over6 up",
		"ip -n a addr add 10.0.0.1/24 dev over4",
		"ip -n b addr add 10.0.0.2/24 dev over4",
		"ip -n a addr add fd00::1/64 dev over6 nodad",
		"ip -n b addr add fd00::2/64 dev over6 nodad",
		"ip netns exec a ping -c 1 -W 5 10.0.0.2",
		"ip netns exec b ping -c 1 -W 5 10.0.0.1",
		"ip netns exec a ping -c 1 -W 5 fd00::2",
		"ip netns exec b ping -c 1 -W 5 fd00::1",
	} {
		words := strings.Fields(command)
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
		t.Logf("%s\n%s", command, out)
	}
}

func TestEnterNamespace(t *testing.T) {
	if out, err := exec.Command("ip", "netns", "add", "empty").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	ns, err := os.Open("/run/netns/empty")
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	if lo, err := net.InterfaceByName("lo"); err != nil || lo.Flags&net.FlagUp != 0 {
		t.Errorf("lo = %+v, %v: want that of a new namespace, down", lo, err)
	}
}

// TestKernelSupportsEveryDevice checks that the machine's kernel supports each kind of device.
func TestKernelSupportsEveryDevice(t *testing.T) {
	for _, kind := range []string{"bridge", "dummy", "wireguard", "vxlan id 1 dstport 8472", "ipip local 192.0.2.1", "ip6tnl local 2001:db8::1"} {
		words := strings.Fields("link add test type " + kind)
		if out, err := exec.Command("ip", words...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, out)
			continue
		}
		if out, err := exec.Command("ip", "link", "del", "test").CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", kind, err, out)
		}
	}
	if _, err := os.Stat("/dev/net/tun"); err != nil {
		t.Error(err)
	}
}
