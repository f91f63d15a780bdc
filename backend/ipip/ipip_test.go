package ipip

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const (
	ownKey  = "10.5.1.0-24&fd00:5:0:1::-64"
	peerKey = "10.5.2.0-24&fd00:5:0:2::-64"
)

// TestConfig checks which keys a config may have.
func TestConfig(t *testing.T) {
	for keys, want := range map[string]bool{
		``: false, `, "DirectRouting": true`: true, `, "directrouting": true`: true, `, "DIRECTROUTING": false`: false,
		`, "DirectRouting": null, "VNI": "of another backend"`: false,
	} {
		if got := newBackend(t, dual, keys, testHost()).(ipip).config.DirectRouting; got != want {
			t.Errorf("%s: DirectRouting is %v", keys, got)
		}
	}
	for keys, want := range map[string]backend.Offload{``: "auto", `, "Offload": null`: "auto", `, "offload": "off"`: "off", `, "Offload": "auto"`: "auto"} {
		if got := newBackend(t, dual, keys, testHost()).(ipip).config.Offload; got != want {
			t.Errorf("%s: Offload is %q", keys, got)
		}
	}
	if _, err := New(parseConfig(t, dual, `, "Offload": "no"`), testHost()); err == nil || !strings.Contains(err.Error(), `Backend.Offload is "no"`) {
		t.Errorf("another Offload is refused with %v", err)
	}
	for value, shown := range map[string]string{`1`: `1`, `"true"`: `"true"`, `[]`: "a list", `{}`: "an object"} {
		_, err := New(parseConfig(t, dual, `, "DirectRouting": `+value), testHost())
		var refusal *subnet.ConfigError
		if !errors.As(err, &refusal) || refusal.Key != "Backend.DirectRouting" || refusal.Value != shown || !strings.Contains(refusal.Fix, "true or false") {
			t.Errorf("%s is refused with %v", value, err)
		}
	}
}

func TestMTU(t *testing.T) {
	for _, c := range []struct {
		families   string
		link, want int
	}{
		{v4, 1500, 1480}, {v6, 1500, 1460}, {dual, 1500, 1460}, {dual, 9000, 8960}, {v4, 596, 576}, {dual, 1320, 1280},
	} {
		h := testHost()
		h.Uplinks[0].MTU, h.Uplinks[1].MTU = c.link, c.link
		if b := newBackend(t, c.families, ``, h); b.MTU() != c.want || b.Publish().Node.MTU != c.want {
			t.Errorf("a link of %d for %s gives %d", c.link, c.families, b.MTU())
		}
	}
	for families, link := range map[string]int{v4: 595, v6: 1319, dual: 1319} {
		h := testHost()
		h.Uplinks[0].MTU, h.Uplinks[1].MTU = link, link
		if _, err := New(parseConfig(t, families, ``), h); !errors.Is(err, backend.ErrLinkMTU) {
			t.Errorf("a link of %d for %s: %v", link, families, err)
		}
	}
	if _, err := New(parseConfig(t, dual, ``), backend.HostFacts{}); err != nil {
		t.Errorf("away from any host: %v", err)
	}
}

// TestPublish checks what a node publishes, behind NAT.
func TestPublish(t *testing.T) {
	h := testHost()
	h.Uplinks = uplinks(1500, addresses("198.18.0.1", "fd00:18::1"), addresses("192.0.2.1", "2001:db8::1"))
	want := subnet.Attrs{PublicIP: h.Attrs("", 0).PublicIP, BackendType: "ipip", Node: subnet.Node{MTU: 1460}}
	if got := newBackend(t, dual, ``, h).Publish(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestHost checks the tunnel devices of each family, with their addresses and
// settings.
func TestHost(t *testing.T) {
	four := []string{
		"link tulle.ipip ipip mtu 1480 group 84 local 198.18.0.1 up",
		"addr 10.5.1.0/32 dev tulle.ipip",
		"sysctl net/ipv4/conf/tulle.ipip/forwarding=1", "sysctl net/ipv4/conf/tulle.ipip/rp_filter=2",
	}
	six := []string{
		"link tulle6.ipip ip6tnl mtu 1460 group 84 by route up",
		"addr fd00:5:0:1::/128 dev tulle6.ipip",
		"sysctl net/ipv6/conf/tulle6.ipip/disable_ipv6=0", "sysctl net/ipv6/conf/tulle6.ipip/accept_ra=0",
	}
	const uplink4 = "sysctl net/ipv4/conf/eth0/forwarding=1"
	forward4, forward6 := "sysctl net/ipv4/conf/all/forwarding=1", "sysctl net/ipv6/conf/all/forwarding=1"
	wantLines(t, "dual", newBackend(t, dual, ``, testHost()).Host(newLease(t, ownKey)), append(append([]string{forward4, uplink4, forward6}, four...), six...)...)
	wantLines(t, "IPv4", newBackend(t, v4, ``, testHost()).Host(newLease(t, "10.5.1.0-24")), append([]string{forward4, uplink4}, four...)...)
	wantLines(t, "IPv6", newBackend(t, v6, ``, testHost()).Host(newLease(t, "fd00:5:0:1::-64")), append([]string{forward6}, six...)...)
	wantLines(t, "offload", newBackend(t, v4, `, "Offload": "off"`, testHost()).Host(newLease(t, "10.5.1.0-24")),
		append(append([]string{forward4, uplink4}, four...), "sysctl ethtool/tulle.ipip/tx-checksum=off")...)
}

// TestAdoption checks which of the host's tunnels a family adopts.
func TestAdoption(t *testing.T) {
	h := testHost()
	four := netstate.Link{Name: "t0", Kind: "ipip", MTU: 1480, Up: true, Local: h.Uplinks[subnet.IPv4].Address}
	six := netstate.Link{Name: "t0", Kind: "ip6tnl", MTU: 1452, Up: true, ByRoute: true}
	with := func(l netstate.Link, change func(*netstate.Link)) netstate.Link {
		change(&l)
		return l
	}
	const mine4, mine6 = "tulle.ipip", "tulle6.ipip"
	for _, c := range []struct {
		name string
		is   netstate.Link
		want [2]string // the devices' names
	}{
		{"fitting", four, [2]string{"t0", mine6}},
		{"fitting IPv6", six, [2]string{mine4, "t0"}},
		{"flannel's", with(four, func(l *netstate.Link) { l.Name = "flannel.ipip" }), [2]string{"flannel.ipip", mine6}},
		{"flannel's, bound to another interface", with(four, func(l *netstate.Link) { l.Name, l.Lower = "flannel.ipip", "eth1" }), [2]string{"flannel.ipip", mine6}},
		{"bound to another interface", with(four, func(l *netstate.Link) { l.Lower = "eth1" }), [2]string{mine4, mine6}},
		{"at another address", with(four, func(l *netstate.Link) { l.Local = netip.MustParseAddr("198.18.0.9") }), [2]string{mine4, mine6}},
		{"for whatever has no other", with(four, func(l *netstate.Link) { l.Name, l.Local = "tunl0", netip.Addr{} }), [2]string{mine4, mine6}},
		{"with one far end", with(four, func(l *netstate.Link) { l.Remote = netip.MustParseAddr("198.18.0.9") }), [2]string{mine4, mine6}},
		{"flannel's with one far end", with(four, func(l *netstate.Link) {
			l.Name, l.Remote = "flannel.ipip", netip.MustParseAddr("198.18.0.9")
		}), [2]string{mine4, mine6}},
		{"IPv4 in IPv6", with(six, func(l *netstate.Link) { l.Kind = "ipip6" }), [2]string{mine4, mine6}},
		{"IPv6 with one far end", with(six, func(l *netstate.Link) { l.Remote = netip.MustParseAddr("fd00:18::9") }), [2]string{mine4, mine6}},
		{"IPv6 with a gateway", with(six, func(l *netstate.Link) { l.ByRoute = false }), [2]string{mine4, mine6}},
		{"our own, unfitting", with(four, func(l *netstate.Link) { l.Name, l.Local = mine4, netip.MustParseAddr("198.18.0.9") }), [2]string{mine4, mine6}},
	} {
		h.Tunnels = []netstate.Link{c.is}
		d := newBackend(t, dual, ``, h).(ipip).devices
		if d[0].Name != c.want[0] || d[1].Name != c.want[1] {
			t.Errorf("%s: %v, want %v", c.name, d, c.want)
		}
		for f, l := range d {
			if l.ByRoute != (f == int(subnet.IPv6)) || l.Local.IsValid() == l.ByRoute || l.Remote.IsValid() || l.Group != netstate.Mark || !l.Up || l.MTU != 1480-20*f {
				t.Errorf("%s: %s", c.name, l)
			}
		}
	}
}

// TestPeer checks the routes to peers, through the tunnel and directly.
func TestPeer(t *testing.T) {
	own := newLease(t, ownKey)
	own.Node.MTU = 1460
	far4, far6 := "route 10.5.2.0/24 via 192.0.2.2 dev tulle.ipip onlink", "route fd00:5:0:2::/64 wrap from fd00:18::1 to fd00:99::2 dev tulle6.ipip"
	near4, near6 := "route 10.5.2.0/24 via 198.18.0.2 dev eth0", "route fd00:5:0:2::/64 via fd00:18::2 dev eth0"
	const direct = `, "DirectRouting": true`
	for _, c := range []struct {
		name, keys string
		peer       subnet.Lease
		want       []string
		err        error
	}{
		{"dual", ``, newLease(t, peerKey, "192.0.2.2", "fd00:99::2"), []string{far4, far6}, nil},
		{"IPv4 alone", ``, newLease(t, "10.5.2.0-24", "192.0.2.2", "fd00:99::2"), []string{far4}, nil},
		{"IPv6 alone", ``, newLease(t, "fd00:5:0:2::-64", "fd00:99::2"), []string{far6}, nil},
		{"no IPv6 address", ``, newLease(t, peerKey, "192.0.2.2"), []string{far4}, backend.ErrNoPublicIP},
		{"our address", ``, newLease(t, peerKey, "198.18.0.1", "fd00:99::2"), []string{far6}, subnet.ErrPublicIP},
		{"on the link", ``, newLease(t, peerKey, "198.18.0.2", "fd00:18::2"), []string{
			"route 10.5.2.0/24 via 198.18.0.2 dev tulle.ipip onlink", "route fd00:5:0:2::/64 wrap from fd00:18::1 to fd00:18::2 dev tulle6.ipip",
		}, nil},
		{"directly", direct, newLease(t, peerKey, "198.18.0.2", "fd00:18::2"), []string{near4, near6}, nil},
		{"directly with IPv4 alone", direct, newLease(t, peerKey, "198.18.0.2", "fd00:99::2"), []string{near4, far6}, nil},
		{"not directly behind a router", direct, newLease(t, peerKey, "192.0.2.2", "fd00:99::2"), []string{far4, far6}, nil},
		{"not directly behind a router of the link's network", direct, newLease(t, "10.5.2.0-24", "198.18.0.130"), []string{
			"route 10.5.2.0/24 via 198.18.0.130 dev tulle.ipip onlink",
		}, nil},
	} {
		got, err := newBackend(t, dual, c.keys, testHost()).Peer(own, c.peer, backend.PlainMetrics)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.err)
		}
		wantLines(t, c.name, got, c.want...)
		c.peer.Node.MTU = 1400
		if got, _ = newBackend(t, dual, c.keys, testHost()).Peer(own, c.peer, backend.PlainMetrics); len(got) != len(c.want) {
			t.Errorf("%s: with an MTU %v", c.name, got)
		}
		for _, o := range got {
			if o.(netstate.Route).MTU != 1400 {
				t.Errorf("%s: with an MTU %s", c.name, o)
			}
		}
	}
}
