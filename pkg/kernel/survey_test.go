package kernel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/netstate"
)

func survey(t *testing.T, k *Kernel) netstate.Survey {
	t.Helper()
	s, err := k.Survey(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// surveyed returns a device of a survey.
func surveyed(t *testing.T, s netstate.Survey, name string) netstate.HostLink {
	t.Helper()
	i := slices.IndexFunc(s.Links, func(l netstate.HostLink) bool { return l.Name == name })
	if i < 0 {
		t.Fatalf("no link %s in %+v", name, s.Links)
	}
	return s.Links[i]
}

func TestSurveyAddresses(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	for _, command := range []string{
		"addr add 198.18.0.9/16 dev eth0",
		"addr add 198.18.0.8/32 dev eth0",
		"addr add 192.0.2.1/24 dev eth0 valid_lft 1000 preferred_lft 500",
		"addr add fd00:18::2/64 dev eth0 nodad preferred_lft 0",
		"addr add fd00:18::3/64 dev eth0 nodad valid_lft 1000 preferred_lft 500",
		"addr add fd00:18::4/128 dev eth0 nodad",
	} {
		ns.IP(t, command)
	}
	eth0 := surveyed(t, survey(t, k), "eth0")
	var got []string
	for _, a := range eth0.Addrs {
		text := a.String()
		for _, flag := range []struct {
			set  bool
			name string
		}{{a.Secondary, "secondary"}, {a.Deprecated, "deprecated"}, {a.Duplicate, "duplicate"}, {a.Dynamic, "dynamic"}} {
			if flag.set {
				text += " " + flag.name
			}
		}
		got = append(got, text)
	}
	slices.Sort(got) // the kernel may return them in any order
	want := []string{
		"192.0.2.1/24 dynamic",
		"198.18.0.1/16",
		"198.18.0.8/32",
		"198.18.0.9/16 secondary",
		"fd00:18::1/64",
		"fd00:18::2/64 deprecated",
		"fd00:18::3/64 dynamic",
		"fd00:18::4/128",
	}
	if !slices.Equal(got, want) {
		t.Errorf("eth0 has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestSurveyDuplicate gives two hosts one IPv6 address.
func TestSurveyDuplicate(t *testing.T) {
	a, b := kerneltest.NewNS(t, "first"), kerneltest.NewNS(t, "second")
	kerneltest.Join(t, a, "eth0", b, "eth0")
	a.IP(t, "addr add fd00:18::1/64 dev eth0 nodad")
	b.IP(t, "addr add fd00:18::1/64 dev eth0")
	k := open(t, b)
	kerneltest.Eventually(t, 10*time.Second, func() error {
		if addrs := surveyed(t, survey(t, k), "eth0").Addrs; len(addrs) != 1 || !addrs[0].Duplicate {
			return fmt.Errorf("eth0 has %+v", addrs)
		}
		return nil
	})
}

func TestSurveyRoutes(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	for _, command := range []string{
		"link add eth1 type veth peer name eth1peer",
		"link set eth1 up",
		"link set eth1peer up",
		"addr add 192.0.2.1/24 dev eth1",
		"addr add fd00:19::1/64 dev eth1 nodad",
		"route add default via 198.18.0.254 dev eth0 metric 100 src 198.18.0.1",
		"route add default dev eth1 scope link metric 600",
		"-4 route add default via inet6 fe80::1 dev eth1 metric 700",
		"route add default metric 800 nexthop via 198.18.0.253 dev eth0 nexthop via 192.0.2.254 dev eth1",
		"-6 route add default via fd00:18::ff dev eth0",
		"-6 route add default via fd00:19::ff dev eth1 metric 50",
		"route add default via 198.18.0.252 dev eth0 metric 1 table 7",
		"route add unreachable default metric 4000",
		// Routes with several hops, or with a gateway of the other family, are not on a link.
		"route add 198.18.128.0/24 nexthop via 198.18.0.253 dev eth0 nexthop via 192.0.2.254 dev eth1",
		"route add 198.18.129.0/24 via inet6 fe80::1 dev eth1",
	} {
		ns.IP(t, command)
	}
	s := survey(t, k)
	var got []string
	for _, d := range s.Defaults {
		got = append(got, fmt.Sprintf("%s via %s dev %s src %s priority %d down %t", d.Dst, d.Via, d.Link, d.Source, d.Priority, d.Down))
	}
	want := []string{
		"0.0.0.0/0 via 198.18.0.254 dev eth0 src 198.18.0.1 priority 100 down false",
		"0.0.0.0/0 via invalid IP dev eth1 src invalid IP priority 600 down false",
		"0.0.0.0/0 via fe80::1 dev eth1 src invalid IP priority 700 down false",
		"0.0.0.0/0 via 198.18.0.253 dev eth0 src invalid IP priority 800 down false",
		"0.0.0.0/0 via 192.0.2.254 dev eth1 src invalid IP priority 800 down false",
		"::/0 via fd00:18::ff dev eth0 src invalid IP priority 1024 down false",
		"::/0 via fd00:19::ff dev eth1 src invalid IP priority 50 down false",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("default routes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}

	direct := map[string]bool{}
	for _, r := range s.OnLink {
		direct[r.Dst.String()] = !r.Via.IsValid()
	}
	for dst, want := range map[string]bool{
		"198.18.0.0/16": true, "192.0.2.0/24": true, "fd00:18::/64": true,
		"198.18.128.0/24": false, "198.18.129.0/24": false,
	} {
		if got, ok := direct[dst]; !ok || got != want {
			t.Errorf("%s on link: %t (listed %t), want %t", dst, got, ok, want)
		}
	}

	ns.IP(t, "link set eth1peer down")
	kerneltest.Eventually(t, 5*time.Second, func() error {
		for _, d := range survey(t, k).Defaults {
			if d.Down != (d.Link == "eth1") {
				return fmt.Errorf("after the cable was pulled %+v", d)
			}
		}
		return nil
	})
}

func TestRouteTo(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	for _, command := range []string{
		"addr add 198.18.0.9/32 dev eth0",
		"route add 203.0.113.0/24 via 198.18.0.254 dev eth0 src 198.18.0.9",
		"route add unreachable 203.0.113.7/32",
		"route add prohibit 203.0.113.8/32",
		"route add blackhole 203.0.113.9/32",
		"-6 route add 2001:db8::/32 via fd00:18::ff dev eth0",
		"-6 route add unreachable 2001:db8::7/128",
	} {
		ns.IP(t, command)
	}
	for to, want := range map[string]netstate.Path{
		"198.18.0.77":  {Link: "eth0", Source: netip.MustParseAddr("198.18.0.1")},
		"203.0.113.1":  {Link: "eth0", Source: netip.MustParseAddr("198.18.0.9")},
		"203.0.113.7":  {},
		"203.0.113.8":  {},
		"203.0.113.9":  {},
		"192.0.2.1":    {},
		"198.18.0.1":   {Link: "lo", Source: netip.MustParseAddr("198.18.0.1")},
		"2001:db8::1":  {Link: "eth0", Source: netip.MustParseAddr("fd00:18::1")},
		"2001:db8::7":  {},
		"2001:db9::1":  {},
		"fd00:18::abc": {Link: "eth0", Source: netip.MustParseAddr("fd00:18::1")},
	} {
		got, err := k.RouteTo(context.Background(), netip.MustParseAddr(to))
		if err != nil || got != want {
			t.Errorf("to %s: %v, %v; want %v", to, got, err, want)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := k.RouteTo(ctx, netip.MustParseAddr("192.0.2.1")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestLinkTo: the source and the mark of packets may choose their link.
func TestLinkTo(t *testing.T) {
	ns := host(t)
	k := open(t, ns)
	for _, command := range []string{
		"link add eth1 type veth peer name peer1",
		"link set peer1 up",
		"addr add 198.18.1.1/24 dev eth1",
		"link set eth1 up",
		"rule add from 198.18.1.1 table 7",
		"rule add fwmark 5 table 7",
		"route add default dev eth1 table 7",
		"route add 203.0.113.0/24 via 198.18.0.254 dev eth0",
	} {
		ns.IP(t, command)
	}
	links := map[string]int{"": 0}
	for _, name := range []string{"eth0", "eth1"} {
		ns.Do(t, func() error {
			is, err := net.InterfaceByName(name)
			if err == nil {
				links[name] = is.Index
			}
			return err
		})
	}
	for _, c := range []struct {
		to, from string
		mark     uint32
		want     string
	}{
		{"203.0.113.1", "198.18.0.1", 0, "eth0"},
		{"203.0.113.1", "198.18.1.1", 0, "eth1"},
		{"203.0.113.1", "198.18.0.1", 5, "eth1"},
		{"203.0.113.1", "198.18.0.99", 0, ""}, // no address of this host
		{"192.0.2.1", "198.18.0.1", 0, ""},
		{"fd00:18::abc", "fd00:18::1", 0, "eth0"},
	} {
		got, err := k.LinkTo(netip.MustParseAddr(c.to), netip.MustParseAddr(c.from), c.mark)
		if err != nil || got != links[c.want] {
			t.Errorf("from %s to %s with mark %d: link %d, %v; want %d", c.from, c.to, c.mark, got, err, links[c.want])
		}
	}
}

// FuzzHostRoute checks that the decoder survives what the kernel would never send.
func FuzzHostRoute(f *testing.F) {
	names := names{1: "lo", 2: "eth0"}
	var w writer
	w.begin(24, 0, 1)
	w.bytes(2, 0, 0, 0, 254, 3, 0, 1)
	w.uint32(0)
	at := w.nest(9)
	w.bytes(16, 0, 0x10, 0, 2, 0, 0, 0)
	w.attrUint32(5, 0x0100000a)
	w.endNest(at)
	w.end()
	f.Add(w.buf[16:])
	f.Fuzz(func(_ *testing.T, b []byte) {
		if r, ok := decodeHostRoute(b, names); ok {
			for _, d := range r.defaults() {
				_ = d.String()
			}
		}
	})
}
