package netstate_test

import (
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

var (
	pfx = netip.MustParsePrefix
	ip  = netip.MustParseAddr
)

func mac(last byte) MAC { return MAC{0x3a, 0, 0, 0, 0, last} }

func vxlan(name string, vni uint32) Link {
	return Link{
		Name: name, Kind: "vxlan", MAC: mac(1), MTU: 1450, Group: Mark, Up: true,
		Local: ip("192.0.2.1"), VXLAN: VXLAN{VNI: vni, Port: 8472},
	}
}

func ipip(name string) Link {
	return Link{Name: name, Kind: "ipip", MTU: 1480, Group: Mark, Up: true, Local: ip("192.0.2.1")}
}

// What an object and its key are called is what a person reads in a log, and
// what he may search for.
func TestString(t *testing.T) {
	gbp := vxlan("tulle.2", 2)
	gbp.Up, gbp.Lower, gbp.VXLAN.GBP, gbp.VXLAN.Learning = false, "eth0", true, true
	tests := []struct {
		object           Object
		wantKey, wantAll string
		wantLink         string
	}{
		{vxlan("tulle.1", 1), "link tulle.1",
			"link tulle.1 vxlan mtu 1450 group 84 mac 3a:00:00:00:00:01 local 192.0.2.1 vni 1 port 8472 learning false gbp false up", "tulle.1"},
		{gbp, "link tulle.2",
			"link tulle.2 vxlan mtu 1450 group 84 mac 3a:00:00:00:00:01 local 192.0.2.1 lower eth0 vni 2 port 8472 learning true gbp true down", "tulle.2"},
		{ipip("tulle.ipip"), "link tulle.ipip", "link tulle.ipip ipip mtu 1480 group 84 local 192.0.2.1 up", "tulle.ipip"},
		{Sysctl{"net/ipv4/conf/all/forwarding", "1"}, "sysctl net/ipv4/conf/all/forwarding", "sysctl net/ipv4/conf/all/forwarding=1", ""},
		{Sysctl{"net/ipv4/conf/tulle.1/rp_filter", "2"}, "sysctl net/ipv4/conf/tulle.1/rp_filter", "sysctl net/ipv4/conf/tulle.1/rp_filter=2", "tulle.1"},
		{Sysctl{"net/ipv6/conf/default/forwarding", "1"}, "sysctl net/ipv6/conf/default/forwarding", "sysctl net/ipv6/conf/default/forwarding=1", ""},
		{Sysctl{"net/ipv6/neigh/eth0/gc_stale_time", "9"}, "sysctl net/ipv6/neigh/eth0/gc_stale_time", "sysctl net/ipv6/neigh/eth0/gc_stale_time=9", "eth0"},
		{Sysctl{"net/ipv4/ip_forward", "1"}, "sysctl net/ipv4/ip_forward", "sysctl net/ipv4/ip_forward=1", ""},
		{Sysctl{"kernel/pid_max", "1"}, "sysctl kernel/pid_max", "sysctl kernel/pid_max=1", ""},
		{TxChecksum("tulle.1", "off"), "sysctl ethtool/tulle.1/tx-checksum", "sysctl ethtool/tulle.1/tx-checksum=off", "tulle.1"},
		{Sysctl{"ethtool/a/b/tx-checksum", "off"}, "sysctl ethtool/a/b/tx-checksum", "sysctl ethtool/a/b/tx-checksum=off", ""},
		{Sysctl{"ethtool//tx-checksum", "off"}, "sysctl ethtool//tx-checksum", "sysctl ethtool//tx-checksum=off", ""},
		{Sysctl{"ethtool/tx-checksum", "off"}, "sysctl ethtool/tx-checksum", "sysctl ethtool/tx-checksum=off", ""},
		{Addr{"tulle.1", pfx("10.1.0.0/32")}, "addr 10.1.0.0/32 dev tulle.1", "addr 10.1.0.0/32 dev tulle.1", "tulle.1"},
		{Neigh{"tulle.1", ip("10.1.2.0"), mac(2)}, "neigh 10.1.2.0 dev tulle.1", "neigh 10.1.2.0 mac 3a:00:00:00:00:02 dev tulle.1", "tulle.1"},
		{FDB{"tulle.1", mac(2), false, ip("192.0.2.2")}, "fdb 3a:00:00:00:00:02 dev tulle.1", "fdb 3a:00:00:00:00:02 dst 192.0.2.2 dev tulle.1", "tulle.1"},
		{wg("tulle-wg"), "link tulle-wg",
			"link tulle-wg wireguard mtu 1420 group 84 port 51820 key " + peerKey(1).String() + " up", "tulle-wg"},
		{WGPeer{Link: "tulle-wg", Peer: peerKey(2)}, "wgpeer AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= dev tulle-wg",
			"wgpeer AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= dev tulle-wg", "tulle-wg"},
		{WGPeer{Link: "tulle-wg", Peer: peerKey(2), Endpoint: netip.MustParseAddrPort("[2001:db8::2]:51820"), PSK: 7, Keepalive: 25, Roamed: true},
			"wgpeer AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= dev tulle-wg",
			"wgpeer AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= endpoint [2001:db8::2]:51820 roamed keepalive 25 psk dev tulle-wg", "tulle-wg"},
		{WGAllowed{"tulle-wg", pfx("10.1.2.0/24"), peerKey(2)}, "wgallowed 10.1.2.0/24 dev tulle-wg",
			"wgallowed 10.1.2.0/24 peer AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA= dev tulle-wg", "tulle-wg"},
		{udpLink("tulle.udp"), "link tulle.udp",
			"link tulle.udp tun mtu 1472 group 84 at 192.0.2.1:8285 network 10.1.0.0/16 source 10.1.0.0 up", "tulle.udp"},
		{UDPPeer{"tulle.udp", pfx("10.1.2.0/24"), netip.MustParseAddrPort("192.0.2.2:8285")}, "udppeer 10.1.2.0/24 dev tulle.udp",
			"udppeer 10.1.2.0/24 endpoint 192.0.2.2:8285 dev tulle.udp", "tulle.udp"},
		{Route{Dst: pfx("10.1.2.0/24"), Via: ip("10.1.2.0"), Link: "tulle.1", OnLink: true},
			"route 10.1.2.0/24", "route 10.1.2.0/24 via 10.1.2.0 dev tulle.1 onlink", "tulle.1"},
		{Route{Dst: pfx("fd00:2::/64"), Via: ip("2001:db8::2"), Link: "eth0", MTU: 1400, Metric: 77, Protocol: 3},
			"route fd00:2::/64 metric 77", "route fd00:2::/64 via 2001:db8::2 dev eth0 mtu 1400 metric 77 proto 3", "eth0"},
		{Route{Dst: pfx("10.1.4.0/24"), Drop: true, Metric: 9}, "route 10.1.4.0/24 metric 9", "route 10.1.4.0/24 drop metric 9", ""},
		{Route{Dst: pfx("10.1.3.0/24"), Link: "tulle.ipip"}, "route 10.1.3.0/24", "route 10.1.3.0/24 dev tulle.ipip", "tulle.ipip"},
		{Command{Name: "PostStartupCommand", Run: "secret"}, "PostStartupCommand", "PostStartupCommand", ""},
		{Command{Name: "SubnetAddCommand", Subnet: pfx("10.1.3.0/24"), Run: "secret", Env: "SUBNET=10.1.3.0/24\nPUBLIC_IP=192.0.2.3", Stdin: "$(reboot)", Stale: true},
			"SubnetAddCommand 10.1.3.0/24", "SubnetAddCommand 10.1.3.0/24 SUBNET=10.1.3.0/24 PUBLIC_IP=192.0.2.3 with 9 bytes of input stale", ""},
	}
	for _, test := range tests {
		if got := test.object.Key().String(); got != test.wantKey {
			t.Errorf("key is %q, want %q", got, test.wantKey)
		}
		if got := test.object.String(); got != test.wantAll {
			t.Errorf("object is %q, want %q", got, test.wantAll)
		}
		if got := LinkOf(test.object); got != test.wantLink {
			t.Errorf("%s is on link %q, want %q", test.object, got, test.wantLink)
		}
	}
}

func TestStringOfNumbers(t *testing.T) {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.String())
	}
	names = append(names, Kind(200).String(), Create.String(), Replace.String(), Delete.String(), Verb(9).String())
	want := "link sysctl addr neigh fdb wgpeer wgallowed udppeer route command kind(200) create replace delete verb(9)"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlanString(t *testing.T) {
	a := Addr{"tulle.1", pfx("10.1.0.0/32")}
	p := Plan{{Create, a}, {Delete, vxlan("tulle.1", 1)}}
	want := "create addr 10.1.0.0/32 dev tulle.1\n" +
		"delete link tulle.1 vxlan mtu 1450 group 84 mac 3a:00:00:00:00:01 local 192.0.2.1 vni 1 port 8472 learning false gbp false up\n"
	if got := p.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	sets, deletes := p.Split()
	if len(sets) != 1 || sets[0].Verb != Create || len(deletes) != 1 || deletes[0].Verb != Delete {
		t.Errorf("split into %v and %v", sets, deletes)
	}
	if sets, deletes := p[:1].Split(); len(sets) != 1 || len(deletes) != 0 {
		t.Errorf("split into %v and %v", sets, deletes)
	}
}

// TestFailures checks the text of several failures, and that errors.Is finds each.
func TestFailures(t *testing.T) {
	f := Failures{}
	for i := range byte(5) {
		err := error(syscall.ENODEV)
		if i == 3 {
			err = syscall.EEXIST
		}
		f = append(f, &OpError{Op{Create, Neigh{"tulle.1", ip("10.1.2.0"), mac(i)}}, err})
	}
	var err error = f
	if !errors.Is(err, fs.ErrExist) || !errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EPERM) {
		t.Errorf("errors.Is does not see each failure of %v", err)
	}
	var one *OpError
	if !errors.As(err, &one) || one != f[0] {
		t.Errorf("errors.As found %v", one)
	}
	want := "create neigh 10.1.2.0 mac 3a:00:00:00:00:00 dev tulle.1: no such device; " +
		"create neigh 10.1.2.0 mac 3a:00:00:00:00:01 dev tulle.1: no such device; " +
		"create neigh 10.1.2.0 mac 3a:00:00:00:00:02 dev tulle.1: no such device; and 2 more"
	if err.Error() != want {
		t.Errorf("got  %q\nwant %q", err, want)
	}
}

func TestParseMAC(t *testing.T) {
	for _, s := range []string{"3a:00:00:00:00:01", "3A-00-00-00-00-01", "3a00.0000.0001"} {
		if m, err := ParseMAC(s); err != nil || m != mac(1) {
			t.Errorf("%s: got %v, %v", s, m, err)
		}
	}
	for _, s := range []string{"", "3a:00:00:00:00", "00:00:00:00:fe:80:00:00", "x"} {
		if m, err := ParseMAC(s); err == nil || !m.IsZero() {
			t.Errorf("%q: got %v, want an error", s, m)
		}
	}
}

// The order of keys is total, and that of the kinds first.
func TestCompare(t *testing.T) {
	objects := []Object{
		vxlan("tulle.1", 1), ipip("tulle.2"),
		Sysctl{"a", "1"}, Sysctl{"b", "1"},
		Addr{"tulle.1", pfx("10.0.0.0/24")}, Addr{"tulle.1", pfx("10.0.0.0/32")}, Addr{"tulle.2", pfx("10.0.0.0/24")},
		Neigh{"tulle.1", ip("10.0.0.1"), mac(9)}, Neigh{"tulle.1", ip("10.0.0.2"), mac(1)}, Neigh{"tulle.1", ip("fd00::1"), mac(1)},
		FDB{"tulle.1", mac(1), false, ip("192.0.2.9")}, FDB{"tulle.1", mac(2), false, ip("192.0.2.1")},
		WGPeer{Link: "tulle-wg", Peer: peerKey(1), Keepalive: 9}, WGPeer{Link: "tulle-wg", Peer: peerKey(2)}, WGPeer{Link: "tulle6-wg", Peer: peerKey(1)},
		WGAllowed{"tulle-wg", pfx("10.0.0.0/24"), peerKey(2)}, WGAllowed{"tulle-wg", pfx("10.0.0.0/25"), peerKey(1)}, WGAllowed{"tulle6-wg", pfx("10.0.0.0/24"), peerKey(1)},
		UDPPeer{"tulle.udp", pfx("10.0.0.0/24"), netip.MustParseAddrPort("192.0.2.9:9")}, UDPPeer{Link: "tulle.udp", Prefix: pfx("10.0.0.0/25")}, UDPPeer{Link: "tulle6.udp", Prefix: pfx("10.0.0.0/24")},
		Route{Dst: pfx("10.0.0.0/24"), Link: "z"}, Route{Dst: pfx("10.0.0.0/24"), Link: "a", Metric: 2}, Route{Dst: pfx("10.0.0.0/25")},
		Command{Name: "PostStartupCommand"}, Command{Name: "SubnetAddCommand", Subnet: pfx("10.0.0.0/24")}, Command{Name: "SubnetAddCommand", Subnet: pfx("10.0.1.0/24")},
	}
	for i, a := range objects {
		for j, b := range objects {
			got := a.Key().Compare(b.Key())
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s to %s: %d", a.Key(), b.Key(), got)
			}
		}
	}
	if got := Of(objects...).Sorted(); !slices.Equal(got, objects) {
		t.Errorf("sorted:\n%v", got)
	}
}
