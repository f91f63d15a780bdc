package vxlan

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// TestPublish checks what a node publishes in each family, also behind NAT.
func TestPublish(t *testing.T) {
	own := addresses("198.18.0.1", "fd00:18::1")
	four, six := `{"VNI":1,"VtepMAC":"a6:ff:cc:4e:45:bc"}`, `{"VNI":1,"VtepMAC":"1a:0c:89:44:c4:e7"}`
	for families, want := range map[string]subnet.Attrs{
		v4:   {PublicIP: own, BackendType: "vxlan", BackendData: subnet.Pair[string]{four, ""}, Node: subnet.Node{MTU: 1450}},
		v6:   {PublicIP: own, BackendType: "vxlan", BackendData: subnet.Pair[string]{"", six}, Node: subnet.Node{MTU: 1430}},
		dual: {PublicIP: own, BackendType: "vxlan", BackendData: subnet.Pair[string]{four, six}, Node: subnet.Node{MTU: 1430}},
	} {
		if got := newBackend(t, families, ``, testHost()).Publish(); got != want {
			t.Errorf("%s: %+v, want %+v", families, got, want)
		}
	}
	// Behind NAT, this is the address that others send to.
	h := testHost()
	h.Uplinks = uplinks(1500, addresses("198.18.0.1", "fd00:18::1"), addresses("192.0.2.1"))
	b := newBackend(t, v4, `, "VNI": 7`, h)
	if got := b.Publish(); got.PublicIP != h.Attrs("", 0).PublicIP || got.BackendData[subnet.IPv4] != `{"VNI":7,"VtepMAC":"a6:ff:cc:4e:45:bc"}` {
		t.Errorf("behind NAT: %+v", got)
	}
	if l := links(t, b)[0]; l.Local != netip.MustParseAddr("198.18.0.1") {
		t.Errorf("behind NAT: %s", l)
	}
}

// TestPublishedMACStays checks that the published MAC stays, whatever happens to the
// device and to the node's identity.
func TestPublishedMACStays(t *testing.T) {
	const four, six = `{"VNI":1,"VtepMAC":"3a:00:00:00:00:04"}`, `{"VNI":1,"VtepMAC":"3a:00:00:00:00:06"}`
	const derived4, derived6 = "a6:ff:cc:4e:45:bc", "1a:0c:89:44:c4:e7"
	for _, c := range []struct {
		name      string
		published subnet.Attrs
		want      [2]string
	}{
		{"both", subnet.Attrs{BackendType: "vxlan", BackendData: subnet.Pair[string]{four, six}}, [2]string{"3a:00:00:00:00:04", "3a:00:00:00:00:06"}},
		{"IPv4, before IPv6 was on", subnet.Attrs{BackendType: "vxlan", BackendData: subnet.Pair[string]{four, ""}}, [2]string{"3a:00:00:00:00:04", derived6}},
		{"under another VNI", subnet.Attrs{BackendType: "vxlan", BackendData: subnet.Pair[string]{`{"VNI":9,"VtepMAC":"3a:00:00:00:00:04"}`, ""}}, [2]string{"3a:00:00:00:00:04", derived6}},
		{"nothing", subnet.Attrs{}, [2]string{derived4, derived6}},
		{"for another backend", subnet.Attrs{BackendType: "wireguard", BackendData: subnet.Pair[string]{four, six}}, [2]string{derived4, derived6}},
		{"rubbish", subnet.Attrs{BackendType: "vxlan", BackendData: subnet.Pair[string]{`{"VtepMAC":"ff:ff:ff:ff:ff:ff"}`, `x`}}, [2]string{derived4, derived6}},
	} {
		h := testHost()
		h.Published = c.published
		for i, l := range links(t, newBackend(t, dual, ``, h)) {
			if l.MAC.String() != c.want[i] {
				t.Errorf("%s: %s has %s, want %s", c.name, l.Name, l.MAC, c.want[i])
			}
		}
	}
}

// TestHost checks the tunnel devices of each family, with their addresses and
// settings.
func TestHost(t *testing.T) {
	b := newBackend(t, dual, ``, testHost())
	four := []string{
		"link tulle.1 vxlan mtu 1450 group 84 mac a6:ff:cc:4e:45:bc local 198.18.0.1 vni 1 port 8472 learning false gbp false up",
		"addr 10.5.1.0/32 dev tulle.1",
		"sysctl net/ipv4/conf/tulle.1/forwarding=1", "sysctl net/ipv4/conf/tulle.1/rp_filter=2",
	}
	six := []string{
		"link tulle6.1 vxlan mtu 1430 group 84 mac 1a:0c:89:44:c4:e7 local fd00:18::1 vni 1 port 8472 learning false gbp false up",
		"addr fd00:5:0:1::/128 dev tulle6.1",
		"sysctl net/ipv6/conf/tulle6.1/disable_ipv6=0", "sysctl net/ipv6/conf/tulle6.1/accept_ra=0",
	}
	const uplink4 = "sysctl net/ipv4/conf/eth0/forwarding=1"
	forward4, forward6 := "sysctl net/ipv4/conf/all/forwarding=1", "sysctl net/ipv6/conf/all/forwarding=1"
	wantLines(t, "dual", b.Host(newLease(t, "10.5.1.0-24&fd00:5:0:1::-64", b)), append(append([]string{forward4, uplink4, forward6}, four...), six...)...)
	b = newBackend(t, v4, ``, testHost())
	wantLines(t, "IPv4", b.Host(newLease(t, "10.5.1.0-24", b)), append([]string{forward4, uplink4}, four...)...)
	b = newBackend(t, v4, `, "Offload": "off"`, testHost())
	wantLines(t, "offload", b.Host(newLease(t, "10.5.1.0-24", b)), append(append([]string{forward4, uplink4}, four...), "sysctl ethtool/tulle.1/tx-checksum=off")...)
	b = newBackend(t, v6, `, "VNI": 16777215, "Port": 4789, "Learning": true, "GBP": true`, testHost())
	wantLines(t, "IPv6", b.Host(newLease(t, "fd00:5:0:1::-64", b)), forward6,
		"link tulle6.16777215 vxlan mtu 1430 group 84 mac 1a:0c:89:44:c4:e7 local fd00:18::1 vni 16777215 port 4789 learning true gbp true up",
		"addr fd00:5:0:1::/128 dev tulle6.16777215",
		"sysctl net/ipv6/conf/tulle6.16777215/disable_ipv6=0", "sysctl net/ipv6/conf/tulle6.16777215/accept_ra=0")
	if name := links(t, b)[0].Name; len(name) > 15 {
		t.Errorf("%s is too long for a device", name)
	}
}

// TestAdoption checks which of the host's tunnels a family adopts. backend.TestAdopt
// checks the result.
func TestAdoption(t *testing.T) {
	h := testHost()
	foreign := netstate.Link{
		Name: "overlay0", Kind: "vxlan", MAC: netstate.MAC{2, 2}, MTU: 1450, Up: true,
		Local: h.Uplinks[subnet.IPv4].Address, VXLAN: netstate.VXLAN{VNI: 1, Port: 8472},
	}
	with := func(change func(*netstate.Link)) netstate.Link {
		l := foreign
		change(&l)
		return l
	}
	six := func(l *netstate.Link) { l.Local = h.Uplinks[subnet.IPv6].Address }
	const mine4, mine6 = "tulle.1", "tulle6.1"
	for _, c := range []struct {
		name string
		is   netstate.Link
		want [2]string // the devices' names
	}{
		{"fitting", foreign, [2]string{"overlay0", mine6}},
		{"fitting IPv6", with(six), [2]string{mine4, "overlay0"}},
		{"another VNI", with(func(l *netstate.Link) { l.VXLAN.VNI = 2 }), [2]string{mine4, mine6}},
		{"another port", with(func(l *netstate.Link) { l.VXLAN.Port = 4789 }), [2]string{mine4, mine6}},
		{"one far end", with(func(l *netstate.Link) { l.Remote = netip.MustParseAddr("198.18.0.9") }), [2]string{mine4, mine6}},
		{"flannel's", with(func(l *netstate.Link) { l.Name = "flannel.1" }), [2]string{"flannel.1", mine6}},
		{"flannel's for IPv6", with(func(l *netstate.Link) { six(l); l.Name = "flannel-v6.1" }), [2]string{mine4, "flannel-v6.1"}},
		{"flannel's at another address", with(func(l *netstate.Link) { l.Name, l.Local = "flannel.1", netip.MustParseAddr("192.0.2.1") }), [2]string{"flannel.1", mine6}},
		{"flannel's for IPv6 at another address", with(func(l *netstate.Link) { l.Name, l.Local = "flannel-v6.1", netip.MustParseAddr("fd00:99::1") }), [2]string{mine4, "flannel-v6.1"}},
		{"flannel's of another VNI", with(func(l *netstate.Link) { l.Name, l.VXLAN.VNI = "flannel.2", 2 }), [2]string{mine4, mine6}},
		// One device never serves both families.
		{"flannel's without an address", with(func(l *netstate.Link) { l.Name, l.Local = "flannel.1", netip.Addr{} }), [2]string{"flannel.1", mine6}},
		{"flannel's with a far end alone", with(func(l *netstate.Link) {
			l.Name, l.Local, l.Remote = "flannel-v6.1", netip.Addr{}, netip.MustParseAddr("ff05::1")
		}), [2]string{mine4, "flannel-v6.1"}},
		{"our own", with(func(l *netstate.Link) { l.Name = mine4 }), [2]string{mine4, mine6}},
	} {
		h.Tunnels = []netstate.Link{c.is}
		got := links(t, newBackend(t, dual, ``, h))
		if len(got) != 2 || got[0].Name != c.want[0] || got[1].Name != c.want[1] {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		for i, l := range got {
			if l.Local != h.Uplinks[i].Address || l.Remote.IsValid() || l.Group != netstate.Mark || !l.Up {
				t.Errorf("%s: %s", c.name, l)
			}
		}
	}
}

// TestAdoptionMAC checks that the device keeps its own MAC, which peers know, unless
// the node has published another since.
func TestAdoptionMAC(t *testing.T) {
	h := testHost()
	h.Tunnels = []netstate.Link{{
		Name: "flannel.1", Kind: "vxlan", MAC: netstate.MAC{0x3a, 1}, MTU: 1450, Up: true, Lower: "eth0",
		Local: h.Uplinks[subnet.IPv4].Address, VXLAN: netstate.VXLAN{VNI: 1, Port: 8472},
	}}
	b := newBackend(t, v4, ``, h)
	l := links(t, b)[0]
	if l.Name != "flannel.1" || l.MAC != h.Tunnels[0].MAC || l.Lower != "eth0" {
		t.Errorf("adopted as %s", l)
	}
	if got := b.Publish().BackendData[subnet.IPv4]; got != `{"VNI":1,"VtepMAC":"3a:01:00:00:00:00"}` {
		t.Errorf("it publishes %s", got)
	}
	h.Published = subnet.Attrs{BackendType: Type, BackendData: subnet.Pair[string]{`{"VNI":1,"VtepMAC":"3a:00:00:00:00:04"}`}}
	b = newBackend(t, v4, ``, h)
	if l := links(t, b)[0]; l.Name != "flannel.1" || l.MAC.String() != "3a:00:00:00:00:04" {
		t.Errorf("with a MAC that was published it is adopted as %s", l)
	}
	if got := b.Publish().BackendData; got != h.Published.BackendData {
		t.Errorf("it publishes %s", got)
	}
}

// far returns a peer that tulle or flannel published.
func far(t testing.TB, key string, ips ...string) subnet.Lease {
	t.Helper()
	subnets, err := subnet.ParseKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return subnet.Lease{Subnets: subnets, Attrs: subnet.Attrs{
		PublicIP: addresses(ips...), BackendType: Type,
		BackendData: subnet.Pair[string]{`{"VNI":1,"VtepMAC":"3a:00:00:00:02:04"}`, `{"VNI":1,"VtepMAC":"3a:00:00:00:02:06"}`},
	}}
}

var tunnelled = subnet.Pair[[]string]{
	{
		"neigh 10.5.2.0 mac 3a:00:00:00:02:04 dev tulle.1",
		"fdb 3a:00:00:00:02:04 dst 192.0.2.2 dev tulle.1",
		"route 10.5.2.0/24 via 10.5.2.0 dev tulle.1 onlink",
	},
	{
		"neigh fd00:5:0:2:: mac 3a:00:00:00:02:06 dev tulle6.1",
		"fdb 3a:00:00:00:02:06 dst fd00:99::2 dev tulle6.1",
		"route fd00:5:0:2::/64 via fd00:5:0:2:: dev tulle6.1 onlink",
	},
}

var both = append(append([]string{}, tunnelled[0]...), tunnelled[1]...)

// TestPeer checks the objects that reach peers, through the tunnel and directly.
func TestPeer(t *testing.T) {
	b := newBackend(t, dual, ``, testHost())
	own := newLease(t, "10.5.1.0-24&fd00:5:0:1::-64", b)
	const key = "10.5.2.0-24&fd00:5:0:2::-64"
	ips := []string{"192.0.2.2", "fd00:99::2"}
	smaller := far(t, key, ips...)
	smaller.Node.MTU = 1300
	same := far(t, key, ips...)
	same.Node.MTU = 1430
	early := far(t, key, ips...)
	early.BackendData = subnet.Pair[string]{`{"VtepMAC":"3a:00:00:00:02:04"}`, `{"VtepMAC":"3a:00:00:00:02:06"}`}
	withMTU := append([]string{}, both...)
	withMTU[2] += " mtu 1300"
	withMTU[5] += " mtu 1300"
	for _, c := range []struct {
		name string
		own  subnet.Lease
		peer subnet.Lease
		want []string
	}{
		{"dual", own, far(t, key, ips...), both},
		{"with a smaller MTU", own, smaller, withMTU},
		{"with the same MTU", own, same, both},
		{"of an early flannel", own, early, both},
		{"IPv4 alone", own, far(t, "10.5.2.0-24", ips...), tunnelled[0]},
		{"IPv6 alone", own, far(t, "fd00:5:0:2::-64", ips...), tunnelled[1]},
		{"of a node with IPv4 alone", newLease(t, "10.5.1.0-24", b), far(t, key, ips...), tunnelled[0]},
		{"of one address", own, far(t, "10.5.9.7-32", ips...), []string{
			"neigh 10.5.9.7 mac 3a:00:00:00:02:04 dev tulle.1",
			"fdb 3a:00:00:00:02:04 dst 192.0.2.2 dev tulle.1",
			"route 10.5.9.7/32 via 10.5.9.7 dev tulle.1 onlink",
		}},
		{"on the link, which counts for nothing", own, far(t, "10.5.2.0-24", "198.18.0.2"), []string{
			tunnelled[0][0], "fdb 3a:00:00:00:02:04 dst 198.18.0.2 dev tulle.1", tunnelled[0][2],
		}},
	} {
		got, err := b.Peer(c.own, c.peer, backend.PlainMetrics)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		wantLines(t, c.name, got, c.want...)
	}
}

func TestPeerThroughAnAdoptedDevice(t *testing.T) {
	h := testHost()
	for i, name := range []string{"flannel.1", "flannel-v6.1"} {
		h.Tunnels = append(h.Tunnels, netstate.Link{
			Name: name, Kind: "vxlan", MAC: netstate.MAC{0x3a, byte(i)}, Up: true,
			Local: h.Uplinks[i].Address, VXLAN: netstate.VXLAN{VNI: 1, Port: 8472},
		})
	}
	b := newBackend(t, dual, ``, h)
	var want []string
	for _, s := range both {
		s = strings.ReplaceAll(s, "dev tulle.1", "dev flannel.1")
		want = append(want, strings.ReplaceAll(s, "dev tulle6.1", "dev flannel-v6.1"))
	}
	got, err := b.Peer(newLease(t, "10.5.1.0-24&fd00:5:0:1::-64", b), far(t, "10.5.2.0-24&fd00:5:0:2::-64", "192.0.2.2", "fd00:99::2"), backend.PlainMetrics)
	if err != nil {
		t.Error(err)
	}
	wantLines(t, "the peer", got, want...)
}

func TestDirectRouting(t *testing.T) {
	h := testHost()
	h.OnLink = append(h.OnLink, netstate.Route{Dst: netip.MustParsePrefix("198.18.0.128/25"), Via: netip.MustParseAddr("198.18.0.254"), Link: "eth0", Protocol: 4})
	b := newBackend(t, dual, `, "DirectRouting": true`, h)
	own := newLease(t, "10.5.1.0-24&fd00:5:0:1::-64", b)
	const key = "10.5.2.0-24&fd00:5:0:2::-64"
	direct4, direct6 := "route 10.5.2.0/24 via 198.18.0.2 dev eth0", "route fd00:5:0:2::/64 via fd00:18::2 dev eth0"
	for _, c := range []struct {
		name string
		ips  []string
		want []string
	}{
		{"on the link", []string{"198.18.0.2", "fd00:18::2"}, []string{direct4, direct6}},
		{"with IPv4 on the link", []string{"198.18.0.2", "fd00:99::2"}, append([]string{direct4}, tunnelled[1]...)},
		{"with IPv6 on the link", []string{"192.0.2.2", "fd00:18::2"}, append(append([]string{}, tunnelled[0]...), direct6)},
		{"behind a router", []string{"192.0.2.2", "fd00:99::2"}, both},
		{"behind a router though of the link's network", []string{"198.18.0.130", "fd00:18::2"}, []string{
			tunnelled[0][0], "fdb 3a:00:00:00:02:04 dst 198.18.0.130 dev tulle.1", tunnelled[0][2], direct6,
		}},
	} {
		got, err := b.Peer(own, far(t, key, c.ips...), backend.PlainMetrics)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		wantLines(t, c.name, got, c.want...)
	}
	// On the link, the backend does not read the data.
	peer := far(t, key, "198.18.0.2", "fd00:18::2")
	peer.BackendData, peer.Node.MTU = subnet.Pair[string]{}, 1300
	got, err := b.Peer(own, peer, backend.PlainMetrics)
	if err != nil {
		t.Error(err)
	}
	wantLines(t, "a peer without data", got, direct4+" mtu 1300", direct6+" mtu 1300")
}

// TestUnusableData checks that a peer whose data is unusable in one family is reached
// in the other.
func TestUnusableData(t *testing.T) {
	b := newBackend(t, dual, ``, testHost())
	own := newLease(t, "10.5.1.0-24&fd00:5:0:1::-64", b)
	const key = "10.5.2.0-24&fd00:5:0:2::-64"
	bad := append([]string{`{"VNI":2,"VtepMAC":"3a:00:00:00:02:04"}`}, hostileData...)
	for _, f := range subnet.Families {
		for _, text := range append(bad, own.BackendData[f]) {
			peer := far(t, key, "192.0.2.2", "fd00:99::2")
			peer.BackendData[f] = text
			got, err := b.Peer(own, peer, backend.PlainMetrics)
			name := fmt.Sprintf("%s with %.60s", f, text)
			if !errors.Is(err, backend.ErrBackendData) || !strings.Contains(err.Error(), f.String()+": ") || strings.Contains(err.Error(), (1-f).String()) {
				t.Errorf("%s: %v", name, err)
			}
			wantLines(t, name, got, tunnelled[1-f]...)
		}
	}
	peer := far(t, key, "192.0.2.2", "fd00:99::2")
	peer.BackendData = subnet.Pair[string]{own.BackendData[0], `{"VNI":7,"VtepMAC":"3a:00:00:00:02:06"}`}
	got, err := b.Peer(own, peer, backend.PlainMetrics)
	wantLines(t, "nothing", got)
	for _, s := range []string{"IPv4: ", "is this node's own", "IPv6: ", "VNI 7, where this node has 1"} {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("got error %v, want %q in it", err, s)
		}
	}
}

// TestTheOtherFamilysMAC checks that a peer may have the MAC of this node's device of
// the other family.
func TestTheOtherFamilysMAC(t *testing.T) {
	b := newBackend(t, dual, ``, testHost())
	own := newLease(t, "10.5.1.0-24&fd00:5:0:1::-64", b)
	peer := far(t, "10.5.2.0-24&fd00:5:0:2::-64", "192.0.2.2", "fd00:99::2")
	peer.BackendData[0], peer.BackendData[1] = own.BackendData[1], own.BackendData[0]
	if got, err := b.Peer(own, peer, backend.PlainMetrics); err != nil || len(got) != 6 {
		t.Errorf("%v, %v", got, err)
	}
}
