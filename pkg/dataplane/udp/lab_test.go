package udp_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/pkg/dataplane/links"
	"github.com/tulle-net/tulle/pkg/dataplane/udp"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

const device = "tulle.udp"

// host is a host with an engine, and a container. Its number is in all of its addresses.
type host struct {
	t      testing.TB
	n      int
	ns     *kerneltest.NS
	pod    *kerneltest.NS
	engine *udp.Engine
	plane  *links.Plane
	want   *netstate.State
}

// newHost makes a host with its container.
func newHost(t testing.TB, n int) *host {
	t.Helper()
	h := &host{t: t, n: n, ns: kerneltest.NewNS(t, fmt.Sprintf("host%d", n)), pod: kerneltest.NewNS(t, fmt.Sprintf("pod%d", n))}
	kerneltest.Join(t, h.ns, "pod", h.pod, "eth0")
	h.pod.IP(t, "addr add "+h.podIP()+"/24 dev eth0")
	h.pod.IP(t, fmt.Sprintf("route add default via 10.5.%d.1 dev eth0", n))
	h.ns.IP(t, fmt.Sprintf("addr add 10.5.%d.1/24 dev pod", n))
	h.pod.IP(t, "link set eth0 mtu 1472")
	h.ns.IP(t, "link set pod mtu 1472")
	h.ns.Sysctl(t, "net/ipv4/ip_forward", "1")
	k, err := kernel.New(h.ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	h.engine = udp.NewInside(func(f func() error) (err error) {
		h.ns.Do(t, func() error {
			err = f()
			return nil
		})
		return err
	})
	t.Cleanup(h.engine.CloseAll)
	h.plane = links.New(k, h.engine)
	return h
}

// connect joins two hosts by a cable, and makes each the other's peer.
func connect(t testing.TB, a, b *host) {
	t.Helper()
	kerneltest.Join(t, a.ns, "eth0", b.ns, "eth0")
	for _, h := range []*host{a, b} {
		h.ns.IP(t, "addr add "+h.address().String()+"/24 dev eth0")
	}
	a.set(b)
	b.set(a)
}

func (h *host) podIP() string { return fmt.Sprintf("10.5.%d.2", h.n) }

func (h *host) address() netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(h.n)}) }

func (h *host) subnet() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 5, byte(h.n), 0}), 24)
}

func (h *host) link() netstate.Link {
	return netstate.Link{
		Name: device, Kind: netstate.TunnelUDP, MTU: 1472, Group: netstate.Mark, Up: true,
		UDP: netstate.UDP{Local: netip.AddrPortFrom(h.address(), 8285), Network: netip.MustParsePrefix("10.5.0.0/16"), Own: h.subnet(), Source: netip.MustParseAddr("10.5.0.0")},
	}
}

func (h *host) peer(p *host) netstate.UDPPeer {
	return netstate.UDPPeer{Link: device, Prefix: p.subnet(), Endpoint: netip.AddrPortFrom(p.address(), 8285)}
}

// set makes the host have these peers.
func (h *host) set(peers ...*host) {
	h.t.Helper()
	h.want = netstate.Of(h.link(),
		netstate.Addr{Link: device, Prefix: netip.PrefixFrom(h.subnet().Addr(), 32)},
		netstate.Route{Dst: netip.MustParsePrefix("10.5.0.0/16"), Link: device})
	for _, p := range peers {
		h.want.Put(h.peer(p))
	}
	h.sync()
}

// sync brings the host to what is wanted.
func (h *host) sync() {
	h.t.Helper()
	if plan := h.plan(); len(plan) > 0 {
		if err := h.plane.Apply(h.t.Context(), plan); err != nil {
			h.t.Fatal(err)
		}
	}
	if plan := h.plan(); len(plan) > 0 {
		h.t.Fatalf("host %d still has to\n%s", h.n, plan)
	}
}

func (h *host) plan() netstate.Plan {
	h.t.Helper()
	has, err := h.plane.Dump(h.t.Context(), netstate.Scope{})
	if err != nil {
		h.t.Fatal(err)
	}
	return netstate.Diff(h.want, has)
}

func (h *host) counts() udp.Counts { return h.engine.Counts()[device] }

// dial runs f in the host's container.
func (h *host) dial(f func() error) (err error) {
	h.pod.Do(h.t, func() error {
		err = f()
		return nil
	})
	return err
}
