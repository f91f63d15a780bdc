package cloud

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
	"github.com/tulle-net/tulle/backend/vxlan"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

func routedHost() backend.HostFacts {
	h := backendtest.Host()
	for f, gateway := range backendtest.Addresses("198.18.0.100", "fe80::1") {
		h.Uplinks[f].Gateway = gateway
	}
	return h
}

func leases(t *testing.T, b backend.Backend) (own, peer subnet.Lease) {
	own = backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())
	peer = backendtest.Lease(t, "10.5.2.0-24&fd00:5:0:2::-64", subnet.Attrs{
		PublicIP: backendtest.Addresses("198.18.7.2", "fd00:18:7::2"), BackendType: Type,
		BackendData: subnet.Pair[string]{`{"VNI":1,"VtepMAC":"3a:00:00:00:00:02"}`, `{"VNI":1,"VtepMAC":"3a:00:00:00:06:02"}`},
	})
	return own, peer
}

const (
	tunnel4 = "neigh 10.5.2.0 mac 3a:00:00:00:00:02 dev tulle.1\nfdb 3a:00:00:00:00:02 dst 198.18.7.2 dev tulle.1\n"
	tunnel6 = "neigh fd00:5:0:2:: mac 3a:00:00:00:06:02 dev tulle6.1\nfdb 3a:00:00:00:06:02 dst fd00:18:7::2 dev tulle6.1\n"
	by4     = tunnel4 + "route 10.5.2.0/24 via 10.5.2.0 dev tulle.1 onlink\n"
	by6     = tunnel6 + "route fd00:5:0:2::/64 via fd00:5:0:2:: dev tulle6.1 onlink\n"
	past4   = tunnel4 + "route 10.5.2.0/24 via 198.18.0.100 dev eth0\n"
	past6   = tunnel6 + "route fd00:5:0:2::/64 via fe80::1 dev eth0\n"
)

// The tunnel stays whole, and the route alone changes, in each family separately.
func TestRoutedPeersAreReachedPastTheTunnel(t *testing.T) {
	b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, ""), routedHost())
	own, peer := leases(t, b)
	for routed, want := range map[subnet.Pair[bool]]string{
		{}: by4 + by6, {true, false}: past4 + by6, {false, true}: by4 + past6, {true, true}: past4 + past6,
	} {
		peer.Routed = routed
		objects, err := b.Peer(own, peer, backend.PlainMetrics)
		if err != nil {
			t.Fatal(err)
		}
		backendtest.WantLines(t, "a peer", objects, strings.Split(strings.TrimSuffix(want, "\n"), "\n")...)
	}
	peer.Routed = subnet.Pair[bool]{true, true}
	for _, m := range []backend.Metrics{backend.PlainMetrics, backend.SpreadMetrics} {
		past, _ := b.Peer(own, peer, m)
		peer.Routed = subnet.Pair[bool]{}
		by, _ := b.Peer(own, peer, m)
		peer.Routed = subnet.Pair[bool]{true, true}
		for i := range past {
			if past[i].Key() != by[i].Key() {
				t.Errorf("%s is not replaced by %s", by[i], past[i])
			}
		}
	}
}

// Without a router, or with one that has an address of the peer, only the tunnel is left.
func TestWithoutARouterTheTunnelServes(t *testing.T) {
	for _, gateway := range []netip.Addr{{}, netip.MustParseAddr("10.5.2.9")} {
		h := routedHost()
		h.Uplinks[subnet.IPv4].Gateway = gateway
		b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.V4, ""), h)
		own, peer := leases(t, b)
		own.Subnets[subnet.IPv6], peer.Routed = netip.Prefix{}, subnet.Pair[bool]{true, true}
		objects, err := b.Peer(own, peer, backend.PlainMetrics)
		if err != nil {
			t.Fatal(err)
		}
		backendtest.WantLines(t, "a peer", objects, strings.Split(strings.TrimSuffix(by4, "\n"), "\n")...)
	}
	h := routedHost()
	h.Uplinks[subnet.IPv4].Gateway = netip.MustParseAddr("192.0.2.1") // in no network of the host's
	b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.V4, ""), h)
	own, peer := leases(t, b)
	own.Subnets[subnet.IPv6], peer.Routed = netip.Prefix{}, subnet.Pair[bool]{true, true}
	objects, _ := b.Peer(own, peer, backend.PlainMetrics)
	backendtest.WantLines(t, "a peer", objects[2:], "route 10.5.2.0/24 via 192.0.2.1 dev eth0 onlink")
}

// What a node publishes is the tunnel, under a name of its own, which lasts.
func TestPublishesTheTunnel(t *testing.T) {
	cfg, h := backendtest.Config(t, Type, backendtest.Dual, ""), routedHost()
	b := backendtest.New(t, New, cfg, h)
	if got := b.Publish(); got.BackendType != "cloud" || got.BackendData[0] == "" || got.BackendData[1] == "" || got.Node.MTU != 1430 || b.MTU() != 1430 {
		t.Errorf("%+v, MTU %d", got, b.MTU())
	}
	h.Published = subnet.Attrs{BackendType: Type, BackendData: subnet.Pair[string]{`{"VNI":1,"VtepMAC":"3a:00:00:00:00:77"}`}}
	if got := backendtest.New(t, New, cfg, h).Publish().BackendData[0]; got != h.Published.BackendData[0] {
		t.Errorf("after a restart it publishes %s", got)
	}
	objects := b.Host(backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish()))
	if last := objects[len(objects)-1]; last != (netstate.Sysctl{Path: "net/ipv4/conf/eth0/rp_filter", Value: "2"}) {
		t.Errorf("the host has %s", last)
	}
}

func TestKeysAreThoseOfTheTunnel(t *testing.T) {
	b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.V4, `, "VNI": 7, "Port": 4789, "DirectRouting": false`), routedHost())
	want, _, err := vxlan.NewTunnel(backendtest.Config(t, vxlan.Type, backendtest.V4, `, "VNI": 7, "Port": 4789`), routedHost())
	if err != nil || b.MTU() != want.MTU() || want.Publish().BackendData != b.Publish().BackendData {
		t.Errorf("%+v is not %+v, %v", b.Publish(), want.Publish(), err)
	}
	for keys, text := range map[string]string{
		`, "DirectRouting": true`:   "Backend.DirectRouting is true",
		`, "DirectRouting": "true"`: "Backend.DirectRouting is",
		`, "VNI": 99999999`:         "Backend.VNI is 99999999",
	} {
		if _, err := New(backendtest.Config(t, Type, backendtest.V4, keys), routedHost()); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", keys, err)
		}
	}
}
