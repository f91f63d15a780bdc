package network

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const (
	v4   = `"Network": "10.5.0.0/16"`
	v6   = `"EnableIPv4": false, "EnableIPv6": true, "IPv6Network": "fd00:5::/48"`
	dual = `"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"`
)

func config(families, backend string) string {
	return fmt.Sprintf(`{%s, "Backend": %s}`, families, backend)
}

// hasRoute returns an error unless ip route shows a line with all parts.
func (n *node) hasRoute(dst string, parts ...string) error {
	n.t.Helper()
	family := "-4"
	if strings.Contains(dst, ":") {
		family = "-6"
	}
	out := n.ns.IP(n.t, family+" route show "+dst)
	for _, p := range parts {
		if !strings.Contains(out, p) {
			return fmt.Errorf("route to %s is %q, want %q in it", dst, out, p)
		}
	}
	return nil
}

func (n *node) wantRoute(dst string, parts ...string) {
	n.t.Helper()
	if err := n.hasRoute(dst, parts...); err != nil {
		n.t.Error(err)
	}
}

func TestPodsReachOneAnother(t *testing.T) {
	for _, backend := range []string{`{"Type": "vxlan"}`, `{"Type": "vxlan", "VNI": 42, "Port": 4789, "GBP": true, "Learning": true}`, `{"Type": "vxlan", "DirectRouting": true}`, `{"Type": "host-gw"}`} {
		for name, families := range map[string]string{"IPv4": v4, "IPv6": v6, "dual": dual} {
			t.Run(backend+name, func(t *testing.T) {
				l := newLab(t, config(families, backend))
				for range 3 {
					l.add()
				}
				l.startAll()
				l.pingAll()
				for _, n := range l.node {
					n.wantSettings()
				}
			})
		}
	}
}

// wantSettings checks that the host forwards.
func (n *node) wantSettings() {
	n.t.Helper()
	for f, pool := range n.cfg.Pools {
		path := [...]string{"net/ipv4/conf/all/forwarding", "net/ipv6/conf/all/forwarding"}[f]
		if value := n.ns.Setting(n.t, path); pool.IsValid() && value != "1" {
			n.t.Errorf("%s is %q", path, value)
		}
	}
}

// TestDirectRoutingAcrossARouter runs two nodes on one link and a third behind a
// router.
func TestDirectRoutingAcrossARouter(t *testing.T) {
	l := newLab(t, config(dual, `{"Type": "vxlan", "DirectRouting": true}`))
	a, b := l.add(), l.add()
	far := l.addBehindRouter()
	l.startAll()
	l.pingAll()
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "via 198.18.0.2 dev eth0")
	a.wantRoute(b.own.Subnets[subnet.IPv6].String(), "via fd00:18::2 dev eth0")
	a.wantRoute(far.own.Subnets[subnet.IPv4].String(), "dev tulle.1", "onlink")
	a.wantRoute(far.own.Subnets[subnet.IPv6].String(), "dev tulle6.1", "onlink")
	far.wantRoute(a.own.Subnets[subnet.IPv4].String(), "dev tulle.1", "onlink")

	// A host that leaves the link is reached through the tunnel, and directly again
	// once it is back.
	a.ns.IP(t, "addr del 198.18.0.1/24 dev eth0")
	a.ns.IP(t, "addr add 198.18.0.1/32 dev eth0")
	a.ns.IP(t, "route add 198.18.0.254 dev eth0")
	a.ns.IP(t, "route add 198.18.0.0/15 via 198.18.0.254")
	a.rehost()
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "dev tulle.1")
	a.ping(b, subnet.IPv4)
	a.ns.IP(t, "addr add 198.18.0.1/24 dev eth0")
	a.rehost()
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "via 198.18.0.2 dev eth0")
	a.ping(b, subnet.IPv4)
}

// rehost applies the host's present interfaces to the node.
func (n *node) rehost() {
	n.t.Helper()
	n.backend = n.makeBackend()
	n.own.Attrs = n.backend.Publish()
	n.peers.rehost(n.cfg, n.own, only(n.backend))
	n.synced()
}

// addBehindRouter adds a host on a link of its own, behind a router.
func (l *lab) addBehindRouter() *node {
	t := l.t
	router, other := kerneltest.NewNS(t, "router"), newSwitch(t)
	plug(t, l.link, router, "eth0", "198.18.0.254/24", "fd00:18::fe/64 nodad")
	plug(t, other, router, "eth1", "198.18.1.254/24", "fd00:19::fe/64 nodad")
	router.Sysctl(t, "net/ipv4/conf/all/forwarding", "1")
	router.Sysctl(t, "net/ipv6/conf/all/forwarding", "1")
	for _, n := range l.node {
		n.ns.IP(t, "route add 198.18.1.0/24 via 198.18.0.254")
		n.ns.IP(t, "-6 route add fd00:19::/64 via fd00:18::fe")
	}
	i := len(l.node) + 1
	far := &node{t: t, number: i, cfg: l.cfg, ns: kerneltest.NewNS(t, fmt.Sprintf("node%d", i))}
	plug(t, other, far.ns, "eth0", fmt.Sprintf("198.18.1.%d/24", i), fmt.Sprintf("fd00:19::%d/64 nodad", i))
	far.ns.IP(t, "route add 198.18.0.0/24 via 198.18.1.254")
	far.ns.IP(t, "-6 route add fd00:18::/64 via fd00:19::fe")
	l.node = append(l.node, far)
	return far
}

func TestHostGWRefusesAPeerBehindARouter(t *testing.T) {
	l := newLab(t, config(v4, `{"Type": "host-gw"}`))
	a, b := l.add(), l.add()
	far := l.addBehindRouter()
	l.startAll()
	a.ping(b, subnet.IPv4)
	err := a.peers.view(withoutPeers).Unroutable[far.own.Key()]
	if err == nil || !strings.Contains(err.Error(), "198.18.1.3") || !strings.Contains(err.Error(), "not on a link") {
		t.Errorf("the far peer is refused with %v", err)
	}
	if out := a.ns.IP(t, "route show "+far.own.Subnets[subnet.IPv4].String()); out != "" {
		t.Errorf("it has a route: %q", out)
	}
}

// TestPeerWithSmallerMTUGetsSmallerPackets checks that a peer with a smaller MTU gets
// no larger packet than it accepts.
func TestPeerWithSmallerMTUGetsSmallerPackets(t *testing.T) {
	l := newLab(t, config(dual, `{"Type": "vxlan"}`))
	a, b := l.add(), l.add()
	b.ns.IP(t, "link set eth0 mtu 1400")
	l.startAll()
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "mtu 1330")
	a.wantRoute(b.own.Subnets[subnet.IPv6].String(), "mtu 1330")
	l.pingAll()
	if a.backend.MTU() != 1430 || b.backend.MTU() != 1330 {
		t.Errorf("MTUs are %d and %d", a.backend.MTU(), b.backend.MTU())
	}
}

// hurts are the ways in which other programs damage a node. The node must undo each.
func hurts(n *node, peer *node) map[string]func() {
	t := n.t
	mac := n.ns.Bridge(t, "fdb show dev tulle.1")
	mac, _, _ = strings.Cut(mac, " ")
	sub, sub6 := peer.own.Subnets[subnet.IPv4], peer.own.Subnets[subnet.IPv6]
	return map[string]func(){
		"route":          func() { n.ns.IP(t, "route del "+sub.String()) },
		"IPv6 route":     func() { n.ns.IP(t, "-6 route del "+sub6.String()) },
		"all routes":     func() { n.ns.IP(t, "route flush proto 84"); n.ns.IP(t, "-6 route flush proto 84") },
		"route replaced": func() { n.ns.IP(t, "route replace "+sub.String()+" via 198.18.0.77 dev tulle.1 onlink") },
		"second route": func() {
			n.ns.IP(t, "route append "+sub.String()+" via 198.18.0.77 dev tulle.1 onlink proto 84")
		},
		"second IPv6 route": func() {
			n.ns.IP(t, "-6 route append "+sub6.String()+" via fe80::77 dev tulle6.1 onlink proto 84")
		},
		"neighbour":          func() { n.ns.IP(t, "neigh del "+sub.Addr().String()+" dev tulle.1") },
		"neighbour changed":  func() { n.ns.IP(t, "neigh replace "+sub.Addr().String()+" lladdr 3a:00:00:00:00:01 dev tulle.1") },
		"all neighbours":     func() { n.ns.IP(t, "neigh flush dev tulle.1 nud permanent") },
		"IPv6 neighbour":     func() { n.ns.IP(t, "neigh del "+sub6.Addr().String()+" dev tulle6.1") },
		"forwarding entry":   func() { n.ns.Bridge(t, "fdb del "+mac+" dev tulle.1 dst 198.18.0.2") },
		"forwarding by port": func() { n.ns.Bridge(t, "fdb replace "+mac+" dev tulle.1 dst 198.18.0.2 port 4789") },
		"forwarding changed": func() { n.ns.Bridge(t, "fdb replace "+mac+" dev tulle.1 dst 198.18.0.99") },
		"address":            func() { n.ns.IP(t, "addr flush dev tulle.1") },
		"IPv6 address":       func() { n.ns.IP(t, "-6 addr flush dev tulle6.1 scope global") },
		"device":             func() { n.ns.IP(t, "link del tulle.1") },
		"IPv6 device":        func() { n.ns.IP(t, "link del tulle6.1") },
		"both devices":       func() { n.ns.IP(t, "link del tulle.1"); n.ns.IP(t, "link del tulle6.1") },
		"device down":        func() { n.ns.IP(t, "link set tulle.1 down") },
		"device down and up": func() { n.ns.IP(t, "link set tulle.1 down"); n.ns.IP(t, "link set tulle.1 up") },
		"device's MTU":       func() { n.ns.IP(t, "link set tulle.1 mtu 600") },
		"device's MAC":       func() { n.ns.IP(t, "link set tulle.1 address 3a:00:00:00:00:02") },
		"device's group":     func() { n.ns.IP(t, "link set tulle.1 group 5") },
		"device renamed":     func() { n.ns.IP(t, "link set tulle.1 down"); n.ns.IP(t, "link set tulle.1 name stolen") },
		"forwarding off":     func() { n.ns.Sysctl(t, "net/ipv4/conf/all/forwarding", "0") },
		"IPv6 forwarding":    func() { n.ns.Sysctl(t, "net/ipv6/conf/all/forwarding", "0") },
		"strict rp_filter":   func() { n.ns.Sysctl(t, "net/ipv4/conf/tulle.1/rp_filter", "1") },
		"checksum offload":   func() { n.offload("tulle.1") },
		"IPv6 offload":       func() { n.offload("tulle6.1") },
		"interface down and up": func() {
			n.ns.IP(t, "link set eth0 down")
			n.ns.IP(t, "link set eth0 up")
			n.ns.IP(t, fmt.Sprintf("addr replace fd00:18::%d/64 dev eth0 nodad", n.number))
		},
		"stale route": func() { n.ns.IP(t, "route add 10.5.200.0/24 via 198.18.0.2 proto 84") },
		"multipath route": func() {
			n.ns.IP(t, "-6 route add fd00:5:0:77::/64 proto 84 nexthop via fd00:18::2 dev eth0 nexthop via fd00:18::9 dev eth0")
		},
		"uplink's forwarding": func() { n.ns.Sysctl(t, "net/ipv4/conf/eth0/forwarding", "0") },
		"device's forwarding": func() { n.ns.Sysctl(t, "net/ipv4/conf/tulle.1/forwarding", "0") },
		"IPv6 off":            func() { n.ns.Sysctl(t, "net/ipv6/conf/tulle6.1/disable_ipv6", "1") },
		"device in a bridge": func() {
			n.ns.IP(t, "link add br9 type bridge")
			n.ns.IP(t, "link set tulle.1 master br9")
		},
		"a second device": func() { n.ns.IP(t, "link add tulle.9 type vxlan id 9 dstport 8472 local 198.18.0.1") },
		"stale neighbour": func() { n.ns.IP(t, "neigh add 10.5.200.0 lladdr 3a:00:00:00:00:01 dev tulle.1 nud permanent") },
		"stale fdb":       func() { n.ns.Bridge(t, "fdb add 3a:00:00:00:00:01 dev tulle.1 dst 198.18.0.2") },
	}
}

// offload leaves the checksums of a device to the interface, as with ethtool.
func (n *node) offload(device string) {
	on := netstate.Op{Verb: netstate.Replace, Object: netstate.TxChecksum(device, "on")}
	if err := n.kernel.Apply(context.Background(), netstate.Plan{on}); err != nil {
		n.t.Fatal(err)
	}
}

func TestHealsEverything(t *testing.T) {
	l := newLab(t, config(dual, `{"Type": "vxlan", "Offload": "off"}`))
	a, b := l.add(), l.add()
	l.startAll()
	l.pingAll()
	a.heals(t, b, hurts(a, b), 30*time.Second) // shorter than the interval of resyncs
}

// heals checks that the node undoes each of hurts, and then reaches peer.
func (n *node) heals(t *testing.T, peer *node, hurts map[string]func(), limit time.Duration) {
	for name, hurt := range hurts {
		t.Run(name, func(t *testing.T) {
			before := n.ours()
			hurt()
			kerneltest.Eventually(t, limit, func() error {
				if after := n.ours(); after != before {
					return fmt.Errorf("the kernel holds\n%s\nwhere it held\n%s", after, before)
				}
				return nil
			})
			n.synced()
			n.ping(peer, subnet.IPv4)
			n.ping(peer, subnet.IPv6)
		})
	}
}

// TestRestartSweepsExactlyTheStale leaves stale entries behind while the daemon is
// away.
func TestRestartSweepsExactlyTheStale(t *testing.T) {
	restartSweeps(t, `{"Type": "vxlan"}`, "dev tulle.1", "proto static",
		"route add 10.5.99.0/24 via 198.18.0.2 proto 84",
		"route add 10.9.99.0/24 via 198.18.0.2 proto static")
}

// restartSweeps runs commands of ip while a node's daemon is away. The restarted daemon
// leaves 10.5.99.0/24 and the route to a peer that is gone, which has a part, until the
// list of peers is complete. The foreign route to 10.9.99.0/24, which has another part,
// stays.
func restartSweeps(t *testing.T, backend, route, foreign string, commands ...string) {
	t.Helper()
	l := newLab(t, config(dual, backend))
	a, b, c := l.add(), l.add(), l.add()
	l.startAll()
	a.know(a, b)
	want := a.ours()
	a.know(a, b, c)
	a.stop()
	for _, command := range commands {
		a.ns.IP(t, command)
	}
	a.start()
	a.peers.Update(subnet.Update{Leases: []subnet.Lease{a.own, b.own}})
	a.ping(b, subnet.IPv4)
	a.wantRoute("10.5.99.0/24", "proto 84") // the list is not complete yet
	a.wantRoute(c.own.Subnets[subnet.IPv4].String(), route)
	a.know(a, b)
	if got := a.ours(); got != want {
		t.Errorf("after the restart the kernel holds\n%s\nwant\n%s", got, want)
	}
	a.wantRoute("10.9.99.0/24", foreign)
	a.ping(b, subnet.IPv4)
	a.ping(b, subnet.IPv6)
}

// TestTakesOverFromFlannel starts on a node with flannel's objects, under a flood of
// pings from its peer.
func TestTakesOverFromFlannel(t *testing.T) {
	for name, families := range map[string]string{"IPv4": v4, "dual": dual} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, config(families, `{"Type": "vxlan"}`))
			a, b := l.add(), l.add()
			b.start()
			a.becomeFlannel(b)
			b.know(a, b)
			a.ns.Ping(t, a.pod(subnet.IPv4).String(), b.pod(subnet.IPv4).String(), 1000)
			counts := flood(t, b.ns, b.pod(subnet.IPv4).String(), a.pod(subnet.IPv4).String())
			a.start()
			for f, data := range a.own.BackendData {
				if data != "" && !strings.Contains(data, flannelMAC[f]) {
					t.Errorf("it publishes %s, not flannel's MAC", data)
				}
			}
			a.know(a, b)
			b.know(a, b)
			l.pingAll()
			if sent, lost := counts(); lost != 0 || sent < 500 {
				t.Errorf("of %d pings %d were lost", sent, lost)
			}
			if out := a.ns.IP(t, "route show proto 84 dev flannel.1"); !strings.Contains(out, b.own.Subnets[0].String()) {
				t.Errorf("the peer's route is not ours now: %q", a.ns.IP(t, "route"))
			}
			if out := a.ns.IP(t, "route show"); strings.Contains(out, "10.5.88.0/24") {
				t.Errorf("flannel's stale route is still there: %s", out)
			}
			if out := a.ns.IP(t, "link show type vxlan"); strings.Contains(out, "tulle") {
				t.Errorf("there is a second device: %s", out)
			}
		})
	}
}
