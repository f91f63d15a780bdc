package clustertest

import (
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// bridge is the name of the bridge that joins a host's pods. The CNI plugin of flannel
// uses the same name.
const bridge = "cni0"

// Pod is a namespace joined to its host's bridge.
type Pod struct {
	Host *Host
	NS   *kerneltest.NS
	// Addr has an address for each family in which the host has a subnet.
	Addr subnet.Pair[netip.Addr]
	MTU  int
}

// String returns the name of the pod for messages.
func (p *Pod) String() string { return p.NS.Name }

// AddPod waits for the host's env file and adds a pod as the CNI plugin "bridge" does.
// It creates a bridge with the subnet's address if there is none yet. The first pod has
// the address .2, or the one after the bridge's.
func (h *Host) AddPod() *Pod {
	t := h.c.t
	t.Helper()
	e := h.waitEnv()
	h.needBridge(e)

	ns := h.c.newNS(fmt.Sprintf("%s-pod%d", h.Name, len(h.Pods)+1))
	p := &Pod{Host: h, NS: ns, MTU: e.mtu}
	port := fmt.Sprintf("veth%d", len(h.Pods)+1)
	batch(t, h.NS,
		fmt.Sprintf("link add %s mtu %d type veth peer name eth0 mtu %d netns %s", port, e.mtu, e.mtu, ns.Name),
		fmt.Sprintf("link set %s master %s up", port, bridge))
	lines := []string{"link set eth0 up"}
	for f, s := range e.subnets {
		if !s.IsValid() {
			continue
		}
		a := s.Addr()
		for range len(h.Pods) + 1 {
			a = a.Next()
		}
		p.Addr[f] = a
		lines = append(lines, fmt.Sprintf("addr add %s/%d dev eth0%s", a, s.Bits(), noDAD(a)),
			fmt.Sprintf("route add %s via %s", everywhere[f], s.Addr()))
	}
	batch(t, ns, lines...)
	h.Pods = append(h.Pods, p)
	return p
}

var everywhere = subnet.Pair[string]{"0.0.0.0/0", "::/0"}

func (h *Host) waitEnv() (e env) {
	h.c.t.Helper()
	kerneltest.Eventually(h.c.t, patience, func() error {
		text, err := os.ReadFile(h.SubnetFile)
		if err != nil {
			return err
		}
		e, err = parseEnv(text)
		return err
	})
	return e
}

// needBridge creates the bridge. Like the plugin, it rejects one that was made for
// another subnet.
func (h *Host) needBridge(e env) {
	t := h.c.t
	t.Helper()
	if has := h.NS.IP(t, "-o addr show"); strings.Contains(has, " "+bridge+" ") {
		for _, s := range e.subnets {
			if s.IsValid() && !strings.Contains(has, " "+s.String()+" ") {
				t.Fatalf("%s: %s lacks the address %s:\n%s", h.Name, bridge, s, has)
			}
		}
		return
	}
	batch(t, h.NS, fmt.Sprintf("link add %s mtu %d type bridge mcast_snooping 0", bridge, e.mtu))
	noLinkLocalDAD(h, bridge)
	lines := []string{"link set " + bridge + " up"}
	for f, s := range e.subnets {
		if s.IsValid() {
			lines = append(lines, fmt.Sprintf("addr add %s dev %s%s", s, bridge, noDAD(s.Addr())))
			h.NS.Sysctl(t, subnet.Pair[string]{"net/ipv4/conf/all/forwarding", "net/ipv6/conf/all/forwarding"}[f], "1")
		}
	}
	batch(t, h.NS, lines...)
}
