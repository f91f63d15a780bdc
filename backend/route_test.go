package backend_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// TestDirect checks that the longest network decides whether an address is on a link.
func TestDirect(t *testing.T) {
	h := backend.HostFacts{OnLink: onLink(
		"198.18.0.128/25 via 198.18.0.254 dev eth0",
		"198.18.0.0/24 dev eth0",
		"198.18.0.192/26 dev eth1",
		"198.18.0.200/32 via 198.18.0.193 dev eth1",
		"172.17.0.0/16 dev docker0",
		"fd00:18::/64 dev eth0",
		"fd00:18::8000/113 via fd00:18::1 dev eth0",
	)}
	for ip, want := range map[string]string{
		"198.18.0.1":        "eth0",
		"198.18.0.127":      "eth0",
		"198.18.0.128":      "", // a router reaches this part of the network
		"198.18.0.191":      "",
		"198.18.0.193":      "eth1", // and this link has a part of that part
		"198.18.0.200":      "",
		"198.18.0.201":      "eth1",
		"198.18.1.1":        "",
		"172.17.3.4":        "docker0",
		"fd00:18::1":        "eth0",
		"fd00:18::8001":     "",
		"fd00:19::1":        "",
		"::ffff:198.18.0.1": "", // netip considers it another address
	} {
		link, ok := h.Direct(netip.MustParseAddr(ip))
		if ok != (want != "") || ok && link != want {
			t.Errorf("%s is on %q (%v), want %q", ip, link, ok, want)
		}
	}
	if link, ok := h.Direct(netip.Addr{}); ok {
		t.Errorf("no address is on %s", link)
	}
	if link, ok := (backend.HostFacts{}).Direct(netip.MustParseAddr("198.18.0.1")); ok {
		t.Errorf("a host without a link has one: %s", link)
	}
}

// TestDirectDefault checks that a default route makes no address on-link.
func TestDirectDefault(t *testing.T) {
	h := backend.HostFacts{OnLink: onLink("0.0.0.0/0 dev ppp0", "10.0.0.0/8 via 192.0.2.1 dev eth0")}
	if _, ok := h.Direct(netip.MustParseAddr("10.1.2.3")); ok {
		t.Error("a part that goes by a router is on the link of the default route")
	}
}

// TestVia checks that only a smaller MTU of a peer limits its route.
func TestVia(t *testing.T) {
	for _, c := range []struct {
		ownMTU, peerMTU int
		want            subnet.Pair[int]
	}{
		{1450, 0, subnet.Pair[int]{}},
		{1450, 1450, subnet.Pair[int]{}},
		{1450, 9000, subnet.Pair[int]{}},
		{1450, 1400, subnet.Pair[int]{1400, 1400}},
		{1450, 1280, subnet.Pair[int]{1280, 1280}},
		{1450, 1279, subnet.Pair[int]{1279, 1280}},
		{1450, 68, subnet.Pair[int]{576, 1280}},
		{1450, 1, subnet.Pair[int]{576, 1280}},
		{1450, -1, subnet.Pair[int]{}},
		{0, 1400, subnet.Pair[int]{}}, // ours is unknown
		{1200, 600, subnet.Pair[int]{600, 0}},
		{1280, 600, subnet.Pair[int]{600, 0}}, // never above ours
		{576, 100, subnet.Pair[int]{}},
	} {
		own, peer := subnet.Lease{}, lease(t, "10.5.2.0-24&fd00:5:0:2::-64", "198.18.0.2", "fd00:18::2")
		own.Node.MTU, peer.Node.MTU = c.ownMTU, c.peerMTU
		for _, f := range subnet.Families {
			got := backend.Via(own, peer, f, peer.PublicIP[f], "eth7", backend.PlainMetrics)
			want := netstate.Route{Dst: peer.Subnets[f], Via: peer.PublicIP[f], Link: "eth7", MTU: c.want[f]}
			if got != want {
				t.Errorf("from %d to %d: %s, want %s", c.ownMTU, c.peerMTU, got, want)
			}
		}
	}
}

// TestViaMetrics checks that only IPv4 routes are spread over the
// metrics.
func TestViaMetrics(t *testing.T) {
	own, peer := subnet.Lease{}, lease(t, "10.5.2.0-24&fd00:5:0:2::-64", "198.18.0.2", "fd00:18::2")
	want := subnet.Pair[uint32]{subnet.IPv4: netstate.SpreadMetric(peer.Subnets[subnet.IPv4])}
	for _, f := range subnet.Families {
		if got := backend.Via(own, peer, f, peer.PublicIP[f], "eth7", backend.SpreadMetrics).Metric; got != want[f] {
			t.Errorf("%s: metric %d, want %d", f, got, want[f])
		}
	}
}

// TestFamilies checks in which families a peer is reachable, and why not in the
// others.
func TestFamilies(t *testing.T) {
	h := plainHost()
	h.Uplinks = uplinks(1500, addresses("198.18.0.1", "fd00:18::1"), addresses("192.0.2.1")) // behind NAT
	h.OnLink = append(h.OnLink, onLink("198.18.9.4/31 dev eth0", "198.18.7.0/24 via 198.18.0.254 dev eth0")...)
	broken := errors.New("broken")
	peer := func(ips ...string) subnet.Lease { return lease(t, "10.5.2.0-24&fd00:5:0:2::-64", ips...) }
	own := lease(t, "10.5.1.0-24&fd00:5:0:1::-64")
	for _, c := range []struct {
		name   string
		own    subnet.Lease
		peer   subnet.Lease
		fails  subnet.Pair[error]
		want   string // the routes' destinations
		errors []error
		say    []string
	}{
		{name: "both", own: own, peer: peer("198.18.0.2", "fd00:18::2"), want: "10.5.2.0/24 fd00:5:0:2::/64"},
		{name: "ours has no IPv6", own: lease(t, "10.5.1.0-24"), peer: peer("198.18.0.2", "fd00:18::2"), want: "10.5.2.0/24"},
		{name: "its has no IPv4", own: own, peer: lease(t, "fd00:5:0:2::-64", "198.18.0.2", "fd00:18::2"), want: "fd00:5:0:2::/64"},
		{name: "nothing in common", own: lease(t, "10.5.1.0-24"), peer: lease(t, "fd00:5:0:2::-64", "fd00:18::2"), want: ""},
		{name: "IPv4 fails", own: own, peer: peer("198.18.0.2", "fd00:18::2"), fails: subnet.Pair[error]{broken, nil}, want: "fd00:5:0:2::/64", errors: []error{broken}, say: []string{"IPv4: broken"}},
		{name: "IPv6 fails", own: own, peer: peer("198.18.0.2", "fd00:18::2"), fails: subnet.Pair[error]{nil, broken}, want: "10.5.2.0/24", errors: []error{broken}, say: []string{"IPv6: broken"}},
		{name: "both fail", own: own, peer: peer("198.18.0.2", "fd00:18::2"), fails: subnet.Pair[error]{broken, backend.ErrBackendData}, errors: []error{broken, backend.ErrBackendData}, say: []string{"IPv4: ", "IPv6: "}},
		{name: "no IPv6 address", own: own, peer: peer("198.18.0.2"), want: "10.5.2.0/24", errors: []error{backend.ErrNoPublicIP}, say: []string{"IPv6: no public IP"}},
		{name: "no address", own: own, peer: peer(), errors: []error{backend.ErrNoPublicIP}, say: []string{"IPv4: ", "IPv6: "}},
		{name: "our address behind NAT", own: own, peer: peer("198.18.0.1", "fd00:18::2"), want: "fd00:5:0:2::/64", errors: []error{subnet.ErrPublicIP}, say: []string{"IPv4: ", "198.18.0.1 is this node's own"}},
		{name: "our IPv6 address", own: own, peer: peer("198.18.0.2", "fd00:18::1"), want: "10.5.2.0/24", errors: []error{subnet.ErrPublicIP}, say: []string{"IPv6: ", "fd00:18::1 is this node's own"}},
		{name: "all hosts on the link", own: own, peer: peer("198.18.0.255", "fd00:18::2"), want: "fd00:5:0:2::/64", errors: []error{subnet.ErrPublicIP}, say: []string{"198.18.0.255", "broadcast"}},
		{name: "the last of two", own: own, peer: peer("198.18.9.5", "fd00:18::2"), want: "10.5.2.0/24 fd00:5:0:2::/64"},
		{name: "the last behind a router", own: own, peer: peer("198.18.7.255", "fd00:18::2"), want: "10.5.2.0/24 fd00:5:0:2::/64"},
		{name: "the last of an IPv6 network", own: own, peer: peer("198.18.0.2", "fd00:18::ffff:ffff:ffff:ffff"), want: "10.5.2.0/24 fd00:5:0:2::/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			objects, err := h.Families(c.own, c.peer, func(f subnet.Family, at netip.Addr) ([]netstate.Object, error) {
				if at != c.peer.PublicIP[f] {
					t.Errorf("%s is reached at %s, want %s", f, at, c.peer.PublicIP[f])
				}
				if err := c.fails[f]; err != nil {
					return nil, err
				}
				return []netstate.Object{backend.Via(c.own, c.peer, f, at, "eth0", backend.PlainMetrics)}, nil
			})
			var got []string
			for _, o := range objects {
				got = append(got, o.(netstate.Route).Dst.String())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
			wantErrors(t, c.name, err, c.errors...)
			for _, s := range c.say {
				if err == nil || !strings.Contains(err.Error(), s) {
					t.Errorf("got error %v, want %q in it", err, s)
				}
			}
		})
	}
}

// TestFamiliesKeepsWhatThereIs checks that a family that fails returns what is
// possible.
func TestFamiliesKeepsWhatThereIs(t *testing.T) {
	peer := lease(t, "10.5.2.0-24", "198.18.0.2")
	objects, err := plainHost().Families(peer, peer, func(f subnet.Family, at netip.Addr) ([]netstate.Object, error) {
		return []netstate.Object{backend.Via(peer, peer, f, at, "eth0", backend.PlainMetrics)}, backend.ErrNotOnLink
	})
	wantLines(t, "what is left", objects, "route 10.5.2.0/24 via 198.18.0.2 dev eth0")
	wantErrors(t, "it", err, backend.ErrNotOnLink)
}

// TestFamiliesWrongFamily checks that an address of the wrong family, which no store
// returns, is not used.
func TestFamiliesWrongFamily(t *testing.T) {
	peer := lease(t, "10.5.2.0-24&fd00:5:0:2::-64")
	peer.PublicIP = subnet.Pair[netip.Addr]{netip.MustParseAddr("fd00:18::2"), netip.MustParseAddr("198.18.0.2")}
	objects, err := plainHost().Families(peer, peer, func(subnet.Family, netip.Addr) ([]netstate.Object, error) {
		t.Error("it is to be reached")
		return nil, nil
	})
	wantLines(t, "what there is", objects)
	wantErrors(t, "it", err, subnet.ErrPublicIP)
}
