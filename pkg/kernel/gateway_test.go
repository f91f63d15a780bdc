package kernel

import (
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// routeNews is a socket on which the kernel announces each change of IPv6 routes before it
// answers the request for that change.
type routeNews struct {
	t  *testing.T
	fd int
}

func listen(t *testing.T, ns *kerneltest.NS) routeNews {
	t.Helper()
	n := routeNews{t, -1}
	ns.Do(t, func() (err error) {
		if n.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE); err != nil {
			return err
		}
		return unix.Bind(n.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1 << (unix.RTNLGRP_IPV6_ROUTE - 1)})
	})
	t.Cleanup(func() { _ = unix.Close(n.fd) })
	return n
}

// of returns the gateways that new routes to dst have had since the last call, "none" for
// a route without one.
func (n routeNews) of(dst netip.Prefix) (gateways []string) {
	n.t.Helper()
	b := make([]byte, 1<<16)
	for {
		size, _, err := unix.Recvfrom(n.fd, b, 0)
		if err == unix.EAGAIN {
			return gateways
		}
		if err != nil {
			n.t.Fatal(err)
		}
		messages, err := syscall.ParseNetlinkMessage(b[:size])
		if err != nil {
			n.t.Fatal(err)
		}
		for _, m := range messages {
			attrs, err := syscall.ParseNetlinkRouteAttr(&m)
			if err != nil {
				n.t.Fatal(err)
			}
			gateway, ours := "none", false
			for _, a := range attrs {
				switch at, _ := netip.AddrFromSlice(a.Value); a.Attr.Type {
				case unix.RTA_DST:
					ours = netip.PrefixFrom(at, int(m.Data[1])) == dst
				case unix.RTA_GATEWAY:
					gateway = at.String()
				}
			}
			if ours && m.Header.Type == unix.RTM_NEWROUTE {
				gateways = append(gateways, gateway)
			}
		}
	}
}

// TestRouteIntoATunnelAlwaysHasItsGateway replaces a direct IPv6 route by one through a
// tunnel, and that by one with another MTU. Without its gateway, a route through a tunnel
// leads nowhere, and packets that take it meanwhile are lost.
func TestRouteIntoATunnelAlwaysHasItsGateway(t *testing.T) {
	const dst, gateway = "fd00:5:0:23::/64", "fd00:5:0:23::"
	for name, c := range map[string]struct{ others string }{
		"alone":                          {""},
		"beside another program's route": {"-6 route add fd00:5:0:23:: dev tulle6.1 proto 200"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := kerneltest.NewNS(t, "gateway")
			for _, command := range []string{
				"link add eth0 type veth peer name eth1", "link set eth1 up", "link set eth0 up", "addr add fd00:18::1/64 dev eth0 nodad",
				"link add tulle6.1 type vxlan id 2 dstport 8472 local fd00:18::1", "link set tulle6.1 up", "-6 route add " + dst + " via fd00:18::9 dev eth0 proto 84", c.others,
			} {
				if command != "" {
					ns.IP(t, command)
				}
			}
			k, news := open(t, ns), listen(t, ns)
			route := netstate.Route{Dst: netip.MustParsePrefix(dst), Via: netip.MustParseAddr(gateway), Link: "tulle6.1", OnLink: true}
			for _, mtu := range []int{0, 1400} {
				route.MTU = mtu
				if err := k.Apply(t.Context(), netstate.Plan{{Verb: netstate.Replace, Object: route}}); err != nil {
					t.Fatal(err)
				}
				if got := strings.Join(news.of(route.Dst), " "); got != gateway {
					t.Errorf("with the MTU %d, the route has had the gateways %q", mtu, got)
				}
			}
			want := dst + " via " + gateway + " dev tulle6.1 proto 84 metric 1024 onlink mtu 1400"
			routes := ns.IP(t, "-6 route show root fd00:5::/32")
			if c.others != "" {
				want = strings.TrimPrefix(c.others, "-6 route add ") + " metric 1024\n" + want
			}
			lines := strings.FieldsFunc(routes, func(r rune) bool { return r == '\n' })
			for i, line := range lines {
				lines[i] = strings.Join(strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), "pref medium")), " ")
			}
			if got := strings.Join(lines, "\n"); got != want {
				t.Errorf("the routes are\n%s\nand not\n%s", got, want)
			}
		})
	}
}
