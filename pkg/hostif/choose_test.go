package hostif

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const (
	plain = `
		link lo 65536 127.0.0.1/8 ::1/128
		link eth0 1500 192.0.2.7/24 2001:db8::7/64
		default eth0 0 via 192.0.2.1
		default eth0 1024 via fe80::1`
	// vagrant has the same address on every machine, behind NAT, on the
	// interface of the default route.
	vagrant = `
		link lo 65536 127.0.0.1/8 ::1/128
		link eth0 1500 10.0.2.15/24,dynamic
		link eth1 9000 192.168.56.11/24 fd00:56::11/64
		default eth0 100 via 10.0.2.2`
	twoCables = `
		link lo 65536 127.0.0.1/8 ::1/128
		link eth0 1500 192.0.2.7/24
		link eth1 1400 2001:db8::7/64
		default eth0 0 via 192.0.2.1
		default eth1 1024 via fe80::1`
)

// TestChoose checks the choice on hosts of many kinds, with each setting.
func TestChoose(t *testing.T) {
	a := netip.MustParseAddr
	for _, c := range []struct {
		name   string
		host   string
		on     string // families
		spec   Spec
		v4, v6 string // "LINK ADDRESS"; with " public PUBLIC" if that differs
		why    string // of the first family that is on
	}{
		{name: "default route", host: plain, on: "46", v4: "eth0 192.0.2.7", v6: "eth0 2001:db8::7", why: "default route"},
		{name: "one family off", host: plain, on: "4", v4: "eth0 192.0.2.7"},
		{name: "IPv6 alone", host: plain, on: "6", v6: "eth0 2001:db8::7", why: "default route"},
		{name: "a host without IPv4", on: "6", v6: "eth0 2001:db8::7", host: `
			link lo 65536 127.0.0.1/8 ::1/128
			link eth0 1500 2001:db8::7/64,dynamic
			default eth0 1024 via fe80::1`},
		{name: "each family on its own interface", host: twoCables, on: "46", v4: "eth0 192.0.2.7", v6: "eth1 2001:db8::7"},

		{name: "Vagrant, no flag", host: vagrant, on: "4", v4: "eth0 10.0.2.15"},
		{name: "by name", host: vagrant, on: "46", spec: Spec{Ifaces: []string{"eth1"}},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11", why: "uplink=eth1"},
		{name: "by address, for both families", host: vagrant, on: "46", spec: Spec{Ifaces: []string{"192.168.56.11"}},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11", why: "uplink=192.168.56.11"},
		{name: "by IPv4-mapped address", host: vagrant, on: "4", spec: Spec{Ifaces: []string{"::ffff:192.168.56.11"}}, v4: "eth1 192.168.56.11"},
		{name: "by regex on the address", host: vagrant, on: "46", spec: Spec{IfaceRegexes: []string{`^192\.168\.`}},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11", why: `uplink regex=^192\.168\. (by address)`},
		{name: "by regex on the name", host: vagrant, on: "46", spec: Spec{IfaceRegexes: []string{`eth[1-9]`}},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11", why: "uplink regex=eth[1-9] (by name)"},
		{name: "by regexes in order", host: vagrant, on: "4", spec: Spec{IfaceRegexes: []string{"^wlan", "^eth1$", "^eth0$"}}, v4: "eth1 192.168.56.11"},
		{name: "an address before a name", host: vagrant, on: "4", spec: Spec{IfaceRegexes: []string{"eth0|192"}}, v4: "eth1 192.168.56.11"},
		{name: "the first of those that fit", host: vagrant, on: "4", spec: Spec{IfaceRegexes: []string{"."}}, v4: "eth0 10.0.2.15"},
		{name: "by what can be reached", host: vagrant + "\nreach eth1 192.168.56.11", on: "46", spec: Spec{CanReach: a("192.168.56.1")},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11", why: "uplink that reaches=192.168.56.1"},
		{name: "by what is its own", host: vagrant + "\nreach lo 192.168.56.11", on: "46", spec: Spec{CanReach: a("192.168.56.11")},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11"},
		{name: "by its public address", host: vagrant, on: "46", spec: Spec{PublicIP: subnet.Pair[netip.Addr]{a("192.168.56.11")}},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11", why: "public IPv4 address=192.168.56.11"},

		{name: "by the Node's address", host: vagrant, on: "46", spec: Spec{FromNodeIP: true, NodeIP: subnet.Pair[netip.Addr]{a("192.168.56.11")}},
			v4: "eth1 192.168.56.11", v6: "eth1 fd00:56::11", why: "uplink from the Node's IP (192.168.56.11)"},
		{name: "by the Node's address, each family at its own", host: twoCables, on: "46",
			spec: Spec{FromNodeIP: true, NodeIP: subnet.Pair[netip.Addr]{a("192.0.2.7"), a("2001:db8::7")}}, v4: "eth0 192.0.2.7", v6: "eth1 2001:db8::7"},
		{name: "the Node's address not asked for", host: vagrant, on: "4", spec: Spec{NodeIP: subnet.Pair[netip.Addr]{a("192.168.56.11")}}, v4: "eth0 10.0.2.15"},
		{name: "published whatever there is", host: vagrant, on: "4", v4: "eth0 10.0.2.15 public 192.168.56.11",
			spec: Spec{Published: subnet.Pair[netip.Addr]{a("192.168.56.11")}}, why: "default route"},
		{name: "published before a public address", host: vagrant, on: "4", v4: "eth1 192.168.56.11 public 203.0.113.5",
			spec: Spec{Published: subnet.Pair[netip.Addr]{a("203.0.113.5")}, PublicIP: subnet.Pair[netip.Addr]{a("192.168.56.11")}}},

		{name: "behind NAT", host: vagrant, on: "4", spec: Spec{PublicIP: subnet.Pair[netip.Addr]{a("203.0.113.5")}},
			v4: "eth0 10.0.2.15 public 203.0.113.5", why: "default route"},
		{name: "behind NAT on a named interface", host: vagrant, on: "4", spec: Spec{Ifaces: []string{"eth0"}, PublicIP: subnet.Pair[netip.Addr]{a("192.168.56.11")}},
			v4: "eth0 10.0.2.15 public 192.168.56.11"},
		{name: "each family's public address", host: twoCables, on: "46", spec: Spec{PublicIP: subnet.Pair[netip.Addr]{a("192.0.2.7"), a("2001:db8::7")}},
			v4: "eth0 192.0.2.7", v6: "eth1 2001:db8::7"},
		{name: "the other family's public address says little", host: twoCables, on: "46", spec: Spec{PublicIP: subnet.Pair[netip.Addr]{a("192.0.2.7")}},
			v4: "eth0 192.0.2.7", v6: "eth1 2001:db8::7"},

		{name: "tried in order", host: vagrant, on: "4", spec: Spec{Ifaces: []string{"eth7", "10.9.9.9", "eth1", "eth0"}}, v4: "eth1 192.168.56.11"},
		{name: "names before regexes before reach", host: vagrant + "\nreach eth1 192.168.56.11", on: "4",
			spec: Spec{Ifaces: []string{"eth7"}, IfaceRegexes: []string{"eth0"}, CanReach: a("192.168.56.1")}, v4: "eth0 10.0.2.15"},
		{name: "reach comes last", host: vagrant + "\nreach eth1 192.168.56.11", on: "4",
			spec: Spec{Ifaces: []string{"eth7"}, IfaceRegexes: []string{"wlan"}, CanReach: a("192.168.56.1")}, v4: "eth1 192.168.56.11"},
		{name: "each family at its own address", host: vagrant + "\nlink eth2 1500 fd00:57::1/64", on: "46",
			spec: Spec{Ifaces: []string{"192.168.56.11", "fd00:57::1"}}, v4: "eth1 192.168.56.11", v6: "eth2 fd00:57::1"},
		{name: "one interface a family", host: twoCables, on: "46", spec: Spec{Ifaces: []string{"eth0", "eth1"}}, v4: "eth0 192.0.2.7", v6: "eth1 2001:db8::7"},
		{name: "an empty flag is none", host: vagrant, on: "4", spec: Spec{Ifaces: []string{""}}, v4: "eth0 10.0.2.15", why: "default route"},

		{name: "the lowest metric", on: "4", v4: "eth1 192.0.2.9", host: `
			link eth0 1500 198.51.100.7/24
			link eth1 1500 192.0.2.9/24
			default eth0 600 via 198.51.100.1
			default eth1 100 via 192.0.2.1`},
		{name: "a cable that is out comes last", on: "4", v4: "eth0 198.51.100.7", host: `
			link eth0 1500 198.51.100.7/24
			link eth1 1500 192.0.2.9/24
			default eth0 600 via 198.51.100.1
			default eth1 100 via 192.0.2.1 down`},
		{name: "and is better than none", on: "4", v4: "eth1 192.0.2.9", host: `
			link eth1 1500 192.0.2.9/24
			default eth1 100 via 192.0.2.1 down`},
		{name: "a link without an address is passed over", on: "4", v4: "eth1 192.0.2.9", host: `
			link eth0 1500
			link eth1 1500 192.0.2.9/24
			default eth0 100
			default eth1 200 via 192.0.2.1`},
		{name: "between equals the first", on: "4", v4: "eth0 198.51.100.7", host: `
			link eth0 1500 198.51.100.7/24
			link eth1 1500 192.0.2.9/24
			default eth0 100 via 198.51.100.1
			default eth1 100 via 192.0.2.1`},
		{name: "between equals the last choice", on: "4", spec: Spec{Last: subnet.Pair[netip.Addr]{a("192.0.2.9")}}, v4: "eth1 192.0.2.9", host: `
			link eth0 1500 198.51.100.7/24
			link eth1 1500 192.0.2.9/24
			default eth0 100 via 198.51.100.1
			default eth1 100 via 192.0.2.1`},
		{name: "the source that the route prescribes", on: "4", v4: "eth0 192.0.2.9", host: `
			link eth0 1500 192.0.2.7/24 192.0.2.9/24,secondary
			default eth0 0 via 192.0.2.1 src 192.0.2.9`},
		{name: "the address in the router's network", on: "4", v4: "eth0 192.0.2.7", host: `
			link eth0 1500 198.51.100.7/24 192.0.2.7/24
			default eth0 0 via 192.0.2.1`},
		{name: "a routed fabric, address on lo", on: "46", v4: "eth0 192.0.2.7", v6: "eth1 2001:db8::7", host: `
			link lo 65536 127.0.0.1/8 192.0.2.7/32 ::1/128 2001:db8::7/128
			link eth0 1500
			link eth1 1500
			default eth0 20 src 192.0.2.7
			default eth1 20 via fe80::1`, why: "default route"},
		{name: "a routed fabric, no source", on: "4", v4: "eth0 192.0.2.7", why: "default route, with an address of lo", host: `
			link lo 65536 127.0.0.1/8 192.0.2.7/32
			link eth0 1500
			default eth0 20`},

		{name: "a routed fabric, lo by name", on: "4", v4: "eth1 192.0.2.7", spec: Spec{Ifaces: []string{"lo"}}, host: `
			link lo 65536 127.0.0.1/8 192.0.2.7/32
			link eth0 1500 198.51.100.1/31
			link eth1 1500 198.51.100.3/31
			default eth0 20 via 198.51.100.0 down
			default eth1 20 via 198.51.100.2`},
		{name: "a routed fabric, lo by address", on: "4", v4: "eth0 192.0.2.7", spec: Spec{Ifaces: []string{"192.0.2.7"}}, host: `
			link lo 65536 127.0.0.1/8 192.0.2.7/32
			link eth0 1500 198.51.100.1/31
			default eth0 20 via 198.51.100.0`},
		{name: "a routed fabric without a default route, lo by name", on: "4", v4: "lo 192.0.2.7", spec: Spec{Ifaces: []string{"lo"}}, host: `
			link lo 65536 127.0.0.1/8 192.0.2.7/32
			link eth0 1500 198.51.100.1/31`},
		{name: "two links with the last address", on: "4", v4: "eth0 192.0.2.7", spec: Spec{Last: subnet.Pair[netip.Addr]{a("192.0.2.7")}}, host: `
			link lo 65536 127.0.0.1/8
			link eth0 1500 192.0.2.7/32
			link eth1 1500 192.0.2.9/24 192.0.2.7/32
			default eth1 20
			default eth0 20`},

		{name: "a VRRP address", on: "4", v4: "eth0 192.0.2.7", spec: Spec{Ifaces: []string{"eth0"}}, host: `
			link eth0 1500 192.0.2.100/32 192.0.2.7/24,dynamic`},
		{name: "a VRRP address with its network's length", on: "4", v4: "eth0 192.0.2.7", spec: Spec{Ifaces: []string{"eth0"}}, host: `
			link eth0 1500 192.0.2.7/24,dynamic 192.0.2.100/24,secondary`},
		{name: "a cloud's /32", on: "4", v4: "eth0 192.0.2.7", host: `
			link eth0 1460 192.0.2.7/32,dynamic 203.0.113.9/32
			default eth0 100 via 192.0.2.1`},
		{name: "a single /32 set by hand", on: "4", v4: "eth0 192.0.2.7", host: `
			link eth0 1460 192.0.2.7/32
			default eth0 100 via 192.0.2.1`},
		{name: "an address by name though it floats", on: "4", v4: "eth0 192.0.2.100", spec: Spec{Ifaces: []string{"192.0.2.100"}}, host: `
			link eth0 1500 192.0.2.7/24 192.0.2.100/32`},
		{name: "IPv4 link-local for want of better", on: "4", v4: "eth0 169.254.7.7", spec: Spec{Ifaces: []string{"eth0"}}, host: `
			link eth0 1500 169.254.7.7/16`},
		{name: "IPv4 link-local comes last", on: "4", v4: "eth0 192.0.2.7", spec: Spec{Ifaces: []string{"eth0"}}, host: `
			link eth0 1500 169.254.7.7/16 192.0.2.7/24,dynamic`},

		{name: "no temporary address", on: "6", v6: "eth0 2001:db8::7", host: `
			link eth0 1500 2001:db8::aaaa/64,dynamic,temporary 2001:db8::7/64,dynamic
			default eth0 1024 via fe80::1`},
		{name: "no deprecated address", on: "6", v6: "eth0 2001:db8::bbbb", host: `
			link eth0 1500 2001:db8::7/64,deprecated 2001:db8::aaaa/64,deprecated,temporary 2001:db8::bbbb/64,dynamic,temporary
			default eth0 1024 via fe80::1`},
		{name: "a deprecated address for want of better", on: "6", v6: "eth0 2001:db8::7", host: `
			link eth0 1500 2001:db8::aaaa/64,deprecated,temporary 2001:db8::7/64,deprecated
			default eth0 1024 via fe80::1`},
		{name: "one set by hand before one from a router", on: "6", v6: "eth0 2001:db8::7", host: `
			link eth0 1500 2001:db8::cccc/64,dynamic 2001:db8::7/64
			default eth0 1024 via fe80::1`},
		{name: "DHCPv6's is no floating one", on: "6", v6: "eth0 2001:db8::7", host: `
			link eth0 1500 2001:db8::7/128,dynamic 2001:db8::cccc/64,dynamic
			default eth0 1024 via fe80::1`},
		{name: "the last of equal addresses stays", on: "6", v6: "eth0 2001:db8::7", spec: Spec{Last: subnet.Pair[netip.Addr]{{}, a("2001:db8::7")}}, host: `
			link eth0 1500 2001:db8::8/64 2001:db8::7/64
			default eth0 1024 via fe80::1`},
		{name: "but not against a better one", on: "6", v6: "eth0 2001:db8::8", spec: Spec{Last: subnet.Pair[netip.Addr]{{}, a("2001:db8::7")}}, host: `
			link eth0 1500 2001:db8::8/64 2001:db8::7/64,deprecated
			default eth0 1024 via fe80::1`},
		{name: "no duplicate address", on: "6", v6: "eth0 2001:db8::8", host: `
			link eth0 1500 2001:db8::7/64,duplicate 2001:db8::8/64,dynamic
			default eth0 1024 via fe80::1`},

		{name: "never the overlay's bridge", on: "46", v4: "eth0 192.0.2.7", v6: "eth0 2001:db8::7", spec: Spec{IfaceRegexes: []string{"."}}, host: `
			link lo 65536 127.0.0.1/8 ::1/128
			link cni0 1450 10.5.34.1/24 fd00:5:0:22::1/64
			link tulle.1 1450 10.5.34.0/32 fd00:5:0:22::/128
			link eth0 1500 192.0.2.7/24 2001:db8::7/64`},
		{name: "never a bridge of containers", on: "46", v4: "eth0 192.0.2.7", v6: "eth0 2001:db8::7", spec: Spec{Ifaces: []string{"docker0", "172.17.0.1"}, IfaceRegexes: []string{"172|docker", "."}, Bridges: []string{"docker0"}}, host: `
			link lo 65536 127.0.0.1/8 ::1/128
			link docker0 1500 172.17.0.1/16 2001:db8:d::1/64
			link eth0 1500 192.0.2.7/24 2001:db8::7/64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Networks = networks(c.on)
			view := viewOf(t, c.host)
			got, err := Choose(view, c.spec)
			if err != nil {
				t.Fatal(err)
			}
			want := subnet.Pair[string]{c.v4, c.v6}
			for f, want := range want {
				if text := short(got[f]); text != want {
					t.Errorf("%s: %q, want %q", subnet.Family(f), text, want)
				}
			}
			if u := got[strings.Index("46", c.on[:1])]; c.why != "" && u.Why != c.why {
				t.Errorf("why: %q, want %q", u.Why, c.why)
			}
			for f, u := range got {
				c.spec.Last[f] = u.Address
			}
			if again, err := Choose(view, c.spec); err != nil || again != got {
				t.Errorf("chosen again, knowing the last: %+v, %v", again, err)
			}
		})
	}
}

func short(u Uplink) string {
	if !u.IsValid() {
		return ""
	}
	text := u.Link + " " + u.Address.String()
	if u.Public != u.Address {
		text += " public " + u.Public.String()
	}
	return text
}

func TestUplinkTellsOfItsLink(t *testing.T) {
	got, err := Choose(viewOf(t, "link ra0 9000 2001:db8::7/64,dynamic\ndefault ra0 1024 via fe80::1"), Spec{Networks: networks("6")})
	ip := netip.MustParseAddr("2001:db8::7")
	want := Uplink{Link: "ra0", MTU: 9000, Address: ip, Public: ip, TakesRouterAdvertisements: true, Why: "default route"}
	if err != nil || got[subnet.IPv6] != want {
		t.Errorf("got %+v, %v; want %+v", got[subnet.IPv6], err, want)
	}
}

func TestNoUplink(t *testing.T) {
	for _, c := range []struct {
		name, host, on string
		spec           Spec
		want           string
	}{
		{name: "no default route", on: "4", host: "link lo 65536 127.0.0.1/8\nlink eth0 1500 192.0.2.7/24",
			want: "no IPv4 uplink: default route: not found; " +
				"the host has lo (127.0.0.1/8), eth0 (192.0.2.7/24); " +
				"set uplink to an interface or an address, or EnableIPv4 to false in the network's config"},
		{name: "a bare host", on: "6", host: "link eth0 1500\ndefault eth0 0 6",
			want: "no IPv6 uplink: default route: eth0 has no usable IPv6 address; " +
				"the host has 1 without an address; " +
				"set uplink to an interface or an address, or EnableIPv6 to false in the network's config"},
		{name: "nothing fits", on: "4", host: vagrant,
			spec: Spec{Ifaces: []string{"eth7", "lo", "127.0.0.1", "10.9.9.9"}, IfaceRegexes: []string{"wlan"}, CanReach: netip.MustParseAddr("203.0.113.1")},
			want: "no IPv4 uplink: uplink=eth7: not found; uplink=lo: lo has no usable IPv4 address; " +
				"uplink=127.0.0.1: 127.0.0.1 is not usable; uplink=10.9.9.9: not found; uplink regex=wlan: not found; " +
				"uplink that reaches=203.0.113.1: not found; " +
				"the host has lo (127.0.0.1/8 ::1/128), eth0 (10.0.2.15/24), eth1 (192.168.56.11/24 fd00:56::11/64); " +
				"set uplink to an interface or an address, or EnableIPv4 to false in the network's config"},
		{name: "only the overlay's", on: "4", host: "link cni0 1450 10.5.34.1/24", spec: Spec{Ifaces: []string{"cni0"}},
			want: "no IPv4 uplink: uplink=cni0: cni0 has no usable IPv4 address; the host has cni0 (10.5.34.1/24); " +
				"set uplink to an interface or an address, or EnableIPv4 to false in the network's config"},
		{name: "a bridge of containers", on: "4", host: "link docker0 1500 172.17.0.1/16\nlink lo 65536 192.0.2.7/32\ndefault docker0 0", spec: Spec{Bridges: []string{"docker0"}},
			want: "no IPv4 uplink: default route: docker0 is a bridge of containers; " +
				"default route, with an address of lo: docker0 is a bridge of containers; " +
				"the host has docker0 (172.17.0.1/16), lo (192.0.2.7/32); " +
				"set uplink to an interface or an address, or EnableIPv4 to false in the network's config"},
		{name: "a named interface of the other family", on: "46", host: twoCables, spec: Spec{Ifaces: []string{"192.0.2.7"}},
			want: "no IPv6 uplink: uplink=192.0.2.7: eth0 has no usable IPv6 address; " +
				"the host has lo (127.0.0.1/8 ::1/128), eth0 (192.0.2.7/24), eth1 (2001:db8::7/64); " +
				"set uplink to an interface or an address, or EnableIPv6 to false in the network's config"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.spec.Networks = networks(c.on)
			_, err := Choose(viewOf(t, c.host), c.spec)
			var missing *NoUplinkError
			if !errors.As(err, &missing) || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// TestOneFamilyFails checks that the other's uplink is returned.
func TestOneFamilyFails(t *testing.T) {
	got, err := Choose(viewOf(t, vagrant), Spec{Networks: networks("46")})
	if short(got[subnet.IPv4]) != "eth0 10.0.2.15" || got[subnet.IPv6].IsValid() || err == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestErrorStaysShort(t *testing.T) {
	var host strings.Builder
	for i := range 500 {
		fmt.Fprintf(&host, "link veth%d 1450\n", i)
		fmt.Fprintf(&host, "link br%d 1450 172.16.%d.1/24\n", i, i%256)
	}
	_, err := Choose(viewOf(t, host.String()), Spec{Networks: networks("4")})
	if err == nil || len(err.Error()) > 800 || !strings.Contains(err.Error(), "br9 (172.16.9.1/24), 490 more, 500 without an address;") {
		t.Errorf("got %v", err)
	}
	_, err = Choose(viewOf(t, host.String()), Spec{Networks: networks("4"), IfaceRegexes: []string{"veth", strings.Repeat("x", longestRegex)}})
	if err == nil || len(err.Error()) > 1500 || !strings.Contains(err.Error(), "veth9 has no usable IPv4 address; 491 more;") {
		t.Errorf("got %v", err)
	}
}

// TestCheck checks that settings that make no sense on any host are errors.
func TestCheck(t *testing.T) {
	a := netip.MustParseAddr
	for _, c := range []struct {
		spec Spec
		want string // beginning of the error; "" if none
	}{
		{Spec{}, ""},
		{Spec{Ifaces: []string{"eth0", "192.0.2.7"}, IfaceRegexes: []string{"^eth"}, CanReach: a("192.0.2.1"), PublicIP: subnet.Pair[netip.Addr]{a("203.0.113.1"), a("2001:db8::1")}}, ""},
		{Spec{IfaceRegexes: []string{"^eth", "eth["}}, "uplink regex=eth[: error parsing regexp: missing closing ]"},
		{Spec{IfaceRegexes: []string{strings.Repeat("e", 1001)}}, "uplink regex=" + strings.Repeat("e", 100) + "…: longer than 1000 bytes; use one like"},
		{Spec{IfaceRegexes: []string{strings.Repeat("(", 500)}}, "uplink regex=" + strings.Repeat("(", 100) + "…: error parsing regexp: "},
		{Spec{IfaceRegexes: []string{"a{1001}"}}, "uplink regex=a{1001}: error parsing regexp: invalid repeat count"},
		{Spec{IfaceRegexes: []string{"eth\xff"}}, `uplink regex="eth\xff": "error parsing regexp: invalid UTF-8`},
		{Spec{IfaceRegexes: []string{"eth\x1b"}}, ""},
		{Spec{Ifaces: []string{"", "eth0.100", "br-0123456789ab", "wg_0@x", "127.0.0.1", "10.5.34.1", "ethernet\x1b[0m"}, Networks: networks("4")}, ""},
		{Spec{Ifaces: []string{"eth0", "ethernet-0123456"}}, "uplink=ethernet-0123456: longer than the 15 bytes of an interface name; use"},
		{Spec{Ifaces: []string{strings.Repeat("é", 100000)}}, "uplink=" + strings.Repeat("é", 50) + "…: longer than"},
		{Spec{Ifaces: []string{"192.0.2.7/24"}}, "uplink=192.0.2.7/24: not an interface name; use an interface's name, or its address without a prefix length"},
		{Spec{Ifaces: []string{".."}}, "uplink=..: not an interface name"},
		{Spec{Ifaces: []string{"eth0 eth1"}}, "uplink=eth0 eth1: not an interface name"},
		{Spec{Ifaces: []string{"eth0\n"}}, `uplink="eth0\n": not an interface name`},
		{Spec{Ifaces: []string{"eth\x00"}}, `uplink="eth\x00": not an interface name`},
		{Spec{Ifaces: []string{"fe80::1%eth0"}}, "uplink=fe80::1%eth0: not reachable from other hosts"},
		{Spec{Ifaces: []string{"::"}}, "uplink=::: not reachable from other hosts"},
		{Spec{Ifaces: []string{"224.0.0.1"}}, "uplink=224.0.0.1: not reachable from other hosts"},
		{Spec{CanReach: a("0.0.0.0")}, "uplink that reaches=0.0.0.0: not the address of a single host"},
		{Spec{CanReach: a("ff02::1")}, "uplink that reaches=ff02::1: "},
		{Spec{CanReach: a("fe80::1%eth0")}, "uplink that reaches=fe80::1%eth0: "},
		{Spec{PublicIP: subnet.Pair[netip.Addr]{a("2001:db8::1")}}, "public IPv4 address=2001:db8::1: not an IPv4 address; use the IPv4 address at which"},
		{Spec{PublicIP: subnet.Pair[netip.Addr]{subnet.IPv6: a("192.0.2.7")}}, "public IPv6 address=192.0.2.7: not an IPv6 address"},
		{Spec{PublicIP: subnet.Pair[netip.Addr]{subnet.IPv6: a("::ffff:192.0.2.7")}}, "public IPv6 address=::ffff:192.0.2.7: not an IPv6 address"},
		{Spec{PublicIP: subnet.Pair[netip.Addr]{a("127.0.0.1")}}, "public IPv4 address=127.0.0.1: not reachable from other hosts"},
		{Spec{PublicIP: subnet.Pair[netip.Addr]{subnet.IPv6: a("fe80::1")}}, "public IPv6 address=fe80::1: not reachable from other hosts"},
		{Spec{PublicIP: subnet.Pair[netip.Addr]{a("10.5.34.1")}, Networks: networks("4")}, "public IPv4 address=10.5.34.1: inside the overlay network"},
	} {
		err := c.spec.Check()
		var refusal *SettingError
		if (err == nil) != (c.want == "") || err != nil && (!errors.As(err, &refusal) || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%+v: got %v, want %s", c.spec, err, c.want)
		}
		if _, chosen := Choose(View{}, c.spec); err != nil && chosen == nil {
			t.Errorf("%+v: Choose did not refuse it", c.spec)
		}
	}
}

// TestChooseProperties creates random hosts and flags. What is chosen is the host's,
// of the right family, no other host's and not the overlay's. It is chosen again if
// it was the last choice.
func TestChooseProperties(t *testing.T) {
	chosen := 0
	for seed := range uint64(20000) {
		r := rand.New(rand.NewPCG(seed, 84))
		view, spec := randomHost(r), randomSpec(r)
		got, err := Choose(view, spec)
		for f, u := range got {
			if !u.IsValid() {
				if spec.Networks[f].IsValid() && err == nil {
					t.Fatalf("seed %d: %s is on, has no uplink and no error", seed, subnet.Family(f))
				}
				continue
			}
			chosen++
			s := search{view, spec, subnet.Family(f)}
			l, h := s.link(u.Link), s.holder(u.Address)
			switch {
			case !spec.Networks[f].IsValid():
				t.Fatalf("seed %d: %s is off and has %+v", seed, subnet.Family(f), u)
			case l == nil || h == nil || l.MTU != u.MTU || u.Why == "" || !u.Public.IsValid():
				t.Fatalf("seed %d: %+v is not the host's", seed, u)
			case spec.isBridge(u.Link) || !slices.ContainsFunc(view.Links, func(l netstate.HostLink) bool { return hasAddr(l, u.Address) && !spec.isBridge(l.Name) }):
				t.Fatalf("seed %d: %+v is a bridge of containers", seed, u)
			case subnet.FamilyOf(u.Address) != subnet.Family(f) || u.Address.IsLoopback() || spec.overlay(u.Address):
				t.Fatalf("seed %d: %+v cannot face other hosts", seed, u)
			}
			spec.Last[f] = u.Address
		}
		if again, _ := Choose(view, spec); again != got {
			t.Fatalf("seed %d: chosen %+v, then %+v", seed, got, again)
		}
	}
	if chosen < 5000 {
		t.Errorf("only %d choices: the hosts are too poor", chosen)
	}
}

func randomHost(r *rand.Rand) View {
	var v View
	for i := range 1 + r.IntN(4) {
		l := netstate.HostLink{Link: netstate.Link{Name: []string{"lo", "eth0", "eth1", "cni0"}[i], MTU: 1500}}
		for range r.IntN(4) {
			l.Addrs = append(l.Addrs, netstate.HostAddr{
				Prefix:     netip.PrefixFrom(randomAddr(r), []int{24, 32}[r.IntN(2)]),
				Secondary:  r.IntN(4) == 0,
				Deprecated: r.IntN(4) == 0,
				Duplicate:  r.IntN(8) == 0,
				Dynamic:    r.IntN(2) == 0,
			})
		}
		v.Links = append(v.Links, l)
	}
	for range r.IntN(4) {
		d := netstate.DefaultRoute{Priority: uint32(r.IntN(2)), Down: r.IntN(4) == 0}
		d.Dst = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}[r.IntN(2)]
		d.Link = []string{"eth0", "eth1", "gone"}[r.IntN(3)]
		if r.IntN(3) == 0 {
			d.Source = randomAddr(r)
		}
		v.Defaults = append(v.Defaults, d)
	}
	v.Reach = netstate.Path{Link: []string{"", "lo", "eth1"}[r.IntN(3)], Source: randomAddr(r)}
	return v
}

func randomSpec(r *rand.Rand) Spec {
	s := Spec{Networks: networks([]string{"4", "6", "46"}[r.IntN(3)])}
	if r.IntN(3) == 0 {
		s.Ifaces = []string{[]string{"eth0", "gone", "", randomAddr(r).String()}[r.IntN(4)]}
	}
	if r.IntN(3) == 0 {
		s.IfaceRegexes = []string{[]string{"eth", "^2", "."}[r.IntN(3)]}
	}
	if r.IntN(4) == 0 {
		s.CanReach = netip.MustParseAddr("192.0.2.77")
	}
	if r.IntN(4) == 0 {
		s.Bridges = []string{[]string{"cni0", "eth1"}[r.IntN(2)]}
	}
	if r.IntN(3) == 0 {
		s.PublicIP[subnet.IPv4] = netip.MustParseAddr("192.0.2.1")
	}
	return s
}

func randomAddr(r *rand.Rand) netip.Addr {
	return netip.MustParseAddr([]string{
		"192.0.2.1", "192.0.2.2", "198.51.100.1", "10.5.34.1", "127.0.0.1", "169.254.1.1",
		"2001:db8::1", "2001:db8::2", "fd00:5:0:22::1", "fe80::1", "::1",
	}[r.IntN(11)])
}
