//go:build vm

package network

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

// slow is a generous time limit: a machine without hardware virtualization is slow, and
// these tests do not measure time.
const slow = time.Minute

const (
	tunnels = `{"Type": "ipip"}`
	direct  = `{"Type": "ipip", "DirectRouting": true}`
)

func TestIPIPPodsReachOneAnother(t *testing.T) {
	for name, families := range map[string]string{"IPv4": v4, "IPv6": v6, "dual": dual} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, config(families, tunnels))
			a, b, c := l.add(), l.add(), l.add()
			c.ns.IP(t, "link set eth0 mtu 1400")
			l.startAll()
			l.pingAll()
			for _, n := range l.node {
				n.wantSettings()
			}
			overhead := 20
			if l.cfg.Pools[subnet.IPv6].IsValid() {
				overhead = 40
			}
			if a.backend.MTU() != 1500-overhead || c.backend.MTU() != 1400-overhead {
				t.Errorf("MTUs are %d and %d", a.backend.MTU(), c.backend.MTU())
			}
			device := subnet.Pair[string]{"tulle.ipip", "tulle6.ipip"}
			address := subnet.Pair[string]{"via 198.18.0.%d", "encap ip6 id 0 src fd00:18::1 dst fd00:18::%d"}
			for f, pool := range l.cfg.Pools {
				if pool.IsValid() {
					a.wantRoute(b.own.Subnets[f].String(), fmt.Sprintf(address[f], 2), "dev "+device[f])
					a.wantRoute(c.own.Subnets[f].String(), fmt.Sprintf(address[f], 3), "dev "+device[f], fmt.Sprintf("mtu %d", 1400-overhead))
				}
			}
		})
	}
}

func TestIPIPDirectRouting(t *testing.T) {
	l := newLab(t, config(dual, direct))
	a, b := l.add(), l.add()
	far := l.addBehindRouter()
	l.startAll()
	l.pingAll()
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "via 198.18.0.2 dev eth0")
	a.wantRoute(b.own.Subnets[subnet.IPv6].String(), "via fd00:18::2 dev eth0")
	a.wantRoute(far.own.Subnets[subnet.IPv4].String(), "via 198.18.1.3 dev tulle.ipip", "onlink")
	a.wantRoute(far.own.Subnets[subnet.IPv6].String(), "dst fd00:19::3", "dev tulle6.ipip")
	far.wantRoute(a.own.Subnets[subnet.IPv4].String(), "via 198.18.0.1 dev tulle.ipip", "onlink")
	far.wantRoute(a.own.Subnets[subnet.IPv6].String(), "dst fd00:18::1", "dev tulle6.ipip")
}

// TestIPIPAcrossARouter sends everything through the tunnel, also on one link.
func TestIPIPAcrossARouter(t *testing.T) {
	l := newLab(t, config(dual, tunnels))
	a, b := l.add(), l.add()
	l.addBehindRouter()
	l.startAll()
	l.pingAll()
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "dev tulle.ipip")
	a.wantRoute(b.own.Subnets[subnet.IPv6].String(), "dev tulle6.ipip")
}

func TestIPIPHealsEverything(t *testing.T) {
	l := newLab(t, config(dual, `{"Type": "ipip", "Offload": "off"}`))
	a, b := l.add(), l.add()
	l.startAll()
	l.pingAll()
	a.heals(t, b, ipipHurts(a, b), slow)
}

func ipipHurts(n, peer *node) map[string]func() {
	t := n.t
	ip := func(commands ...string) func() {
		return func() {
			for _, c := range commands {
				n.ns.IP(t, c)
			}
		}
	}
	sub, sub6 := peer.own.Subnets[subnet.IPv4].String(), peer.own.Subnets[subnet.IPv6].String()
	return map[string]func(){
		"route":              ip("route del " + sub),
		"IPv6 route":         ip("-6 route del " + sub6),
		"all routes":         ip("route flush proto 84", "-6 route flush proto 84"),
		"route replaced":     ip("route replace " + sub + " via 198.18.0.77 dev tulle.ipip onlink"),
		"address":            ip("addr flush dev tulle.ipip"),
		"IPv6 address":       ip("-6 addr flush dev tulle6.ipip scope global"),
		"device":             ip("link del tulle.ipip"),
		"IPv6 device":        ip("link del tulle6.ipip"),
		"both devices":       ip("link del tulle.ipip", "link del tulle6.ipip"),
		"device down":        ip("link set tulle.ipip down"),
		"IPv6 device down":   ip("link set tulle6.ipip down"),
		"device down and up": ip("link set tulle.ipip down", "link set tulle.ipip up"),
		"device's MTU":       ip("link set tulle.ipip mtu 600"),
		"IPv6 device's MTU":  ip("link set tulle6.ipip mtu 1300"),
		"device's group":     ip("link set tulle.ipip group 5"),
		"device's address":   ip("link set tulle.ipip type ipip local 198.18.0.77"),

		"device renamed":   ip("link set tulle.ipip down", "link set tulle.ipip name stolen"),
		"IPv6 renamed":     ip("link set tulle6.ipip down", "link set tulle6.ipip name stolen6"),
		"forwarding off":   func() { n.ns.Sysctl(t, "net/ipv4/conf/all/forwarding", "0") },
		"IPv6 forwarding":  func() { n.ns.Sysctl(t, "net/ipv6/conf/all/forwarding", "0") },
		"strict rp_filter": func() { n.ns.Sysctl(t, "net/ipv4/conf/tulle.ipip/rp_filter", "1") },
		"checksum offload": func() { n.offload("tulle.ipip") },
		"IPv6 offload":     func() { n.offload("tulle6.ipip") },
		"interface down and up": ip("link set eth0 down", "link set eth0 up",
			fmt.Sprintf("addr replace fd00:18::%d/64 dev eth0 nodad", n.number)),
		"stale route":      ip("route add 10.5.200.0/24 via 198.18.0.2 proto 84"),
		"stale IPv6 route": ip("-6 route add fd00:5:0:200::/64 via fd00:18::2 proto 84"),
		"a second device":  ip("link add tulle.old type ipip local 198.18.0.1 remote 198.18.0.99"),
	}
}

// TestIPIPRestartSweepsExactlyTheStale leaves stale entries behind while the daemon
// is away.
func TestIPIPRestartSweepsExactlyTheStale(t *testing.T) {
	restartSweeps(t, tunnels, "dev tulle.ipip", "dev mine",
		"link add mine type ipip local 198.18.0.1 remote 198.18.0.50",
		"link set mine up",
		"route add 10.9.99.0/24 dev mine",
		"route add 10.5.99.0/24 via 198.18.0.2 dev tulle.ipip onlink proto 84",
		"-6 route add fd00:5:0:99::/64 encap ip6 dst fd00:18::2 dev tulle6.ipip proto 84")
}

// becomeFlannelIPIP creates the objects that flannel would have on the host to reach
// peer, and a stale route.
func (n *node) becomeFlannelIPIP(peer *node) {
	n.t.Helper()
	n.prepare()
	n.own.BackendType, n.own.Created = "ipip", int64(n.number)
	n.own.PublicIP[subnet.IPv4] = netip.MustParseAddr(fmt.Sprintf("198.18.0.%d", n.number))
	for _, command := range []string{
		fmt.Sprintf("link add flannel.ipip mtu 1480 type ipip local 198.18.0.%d remote any ttl inherit nopmtudisc", n.number),
		"link set flannel.ipip up",
		fmt.Sprintf("addr add %s/32 dev flannel.ipip", n.own.Subnets[subnet.IPv4].Addr()),
		fmt.Sprintf("route add %s via 198.18.0.%d dev flannel.ipip onlink", peer.own.Subnets[subnet.IPv4], peer.number),
		"route add 10.5.88.0/24 via 198.18.0.88 dev flannel.ipip onlink",
	} {
		n.ns.IP(n.t, command)
	}
	n.ns.Sysctl(n.t, "net/ipv4/conf/all/forwarding", "1")
}

// TestIPIPTakesOverFromFlannel starts on a node with flannel's objects, under a flood
// of pings from its peer.
func TestIPIPTakesOverFromFlannel(t *testing.T) {
	l := newLab(t, config(v4, tunnels))
	a, b := l.add(), l.add()
	b.start()
	a.becomeFlannelIPIP(b)
	b.know(a, b)
	a.ns.Ping(t, a.pod(subnet.IPv4).String(), b.pod(subnet.IPv4).String(), 1000)
	counts := flood(t, b.ns, b.pod(subnet.IPv4).String(), a.pod(subnet.IPv4).String())
	a.start()
	a.know(a, b)
	b.know(a, b)
	l.pingAll()
	if sent, lost := counts(); lost != 0 || sent < 500 {
		t.Errorf("of %d pings %d were lost", sent, lost)
	}
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "via 198.18.0.2 dev flannel.ipip proto 84 onlink")
	if out := a.ns.IP(t, "route show"); strings.Contains(out, "10.5.88.0/24") {
		t.Errorf("flannel's stale route is still there: %s", out)
	}
	if out := a.ns.IP(t, "link show type ipip"); strings.Contains(out, "tulle") {
		t.Errorf("there is a second device: %s", out)
	}
	if out := a.ns.IP(t, "link show flannel.ipip"); !strings.Contains(out, "group 84") {
		t.Errorf("the device is not marked as ours: %s", out)
	}
}

// TestIPIPRebuildsFlannels checks that a device of flannel's that does not match is
// re-created under its name.
func TestIPIPRebuildsFlannels(t *testing.T) {
	l := newLab(t, config(v4, tunnels))
	a, b := l.add(), l.add()
	b.start()
	a.becomeFlannelIPIP(b)
	a.ns.IP(t, "link del flannel.ipip")
	a.ns.IP(t, "link add dummy0 type dummy")
	a.ns.IP(t, "link add flannel.ipip type ipip local 198.18.0.1 dev dummy0")
	a.start()
	a.know(a, b)
	b.know(a, b)
	l.pingAll()
	a.wantRoute(b.own.Subnets[subnet.IPv4].String(), "dev flannel.ipip")
	if out := a.ns.IP(t, "link show flannel.ipip"); strings.Contains(out, "dummy0") {
		t.Errorf("it is still bound: %s", out)
	}
}

// TestIPIPLeavesOthersDevices checks that foreign tunnels of the same kinds stay
// unchanged.
func TestIPIPLeavesOthersDevices(t *testing.T) {
	l := newLab(t, config(dual, tunnels))
	a := l.add()
	l.add()
	for _, command := range []string{
		"link add one type ipip local 198.18.0.1 remote 198.18.0.50",
		"link add other type ipip local 198.18.0.60",
		"link add one6 type ip6tnl local fd00:18::1 remote fd00:18::50",
		"link add other6 type ip6tnl local fd00:18::60",
		"link set one up",
		"addr add 10.9.0.1/24 dev one",
		"route add 10.9.9.0/24 dev one",
	} {
		a.ns.IP(t, command)
	}
	before := a.ns.IP(t, "-d link show type ipip") + a.ns.IP(t, "-d link show type ip6tnl") + a.ns.IP(t, "route show dev one")
	l.startAll()
	l.pingAll()
	a.ns.IP(t, "link del tulle.ipip")
	a.synced()
	l.pingAll()
	a.stop()
	a.ns.IP(t, "link del tulle.ipip")
	a.ns.IP(t, "link del tulle6.ipip")
	after := a.ns.IP(t, "-d link show type ipip") + a.ns.IP(t, "-d link show type ip6tnl") + a.ns.IP(t, "route show dev one")
	if after != before {
		t.Errorf("others' devices were\n%s\nand are\n%s", before, after)
	}
}
