package backend_test

import (
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// TestAdopt tests one device among the host's tunnels. Each backend decides and tests
// what makes two devices the same tunnel.
func TestAdopt(t *testing.T) {
	local := netip.MustParseAddr("198.18.0.1")
	want := netstate.Link{
		Name: "tulle.1", Kind: "vxlan", MAC: netstate.MAC{2, 1}, MTU: 1450, Group: netstate.Mark, Up: true,
		Local: local, VXLAN: netstate.VXLAN{VNI: 1, Port: 8472},
	}
	foreign := want
	foreign.Name, foreign.MAC, foreign.MTU, foreign.Group, foreign.Up = "overlay0", netstate.MAC{2, 2}, 9000, 0, false
	with := func(change func(*netstate.Link)) netstate.Link {
		l := foreign
		change(&l)
		return l
	}
	// An adopted device keeps this of want: the name and the MAC.
	as := func(name string) netstate.Link {
		l := want
		l.Name, l.MAC = name, foreign.MAC
		return l
	}
	lower := func(l netstate.Link, name string) netstate.Link {
		l.Lower = name
		return l
	}
	same := func(l netstate.Link) bool { return l.VXLAN.VNI == 1 }

	for _, c := range []struct {
		name string
		is   netstate.Link
		want netstate.Link
	}{
		{"foreign and fitting", foreign, as("overlay0")},
		{"foreign, bound to the host's interface", lower(foreign, "eth0"), lower(as("overlay0"), "eth0")},
		{"foreign, bound to another", lower(foreign, "eth1"), want},
		{"foreign, another tunnel", with(func(l *netstate.Link) { l.VXLAN.VNI = 2 }), want},
		{"foreign, of another kind", with(func(l *netstate.Link) { l.Kind = "geneve" }), want},
		{"foreign, one far end", with(func(l *netstate.Link) { l.Remote = netip.MustParseAddr("198.18.0.9") }), want},
		{"foreign, another local address", with(func(l *netstate.Link) { l.Local = netip.MustParseAddr("198.18.0.9") }), want},
		{"foreign, no local address", with(func(l *netstate.Link) { l.Local = netip.Addr{} }), want},
		{"foreign, learning", with(func(l *netstate.Link) { l.VXLAN.Learning = true }), want},
		{"foreign, with GBP", with(func(l *netstate.Link) { l.VXLAN.GBP = true }), want},

		{"flannel's", with(func(l *netstate.Link) { l.Name = "flannel.1" }), as("flannel.1")},
		{"flannel's, bound to the host's interface", lower(with(func(l *netstate.Link) { l.Name = "flannel.1" }), "eth0"), lower(as("flannel.1"), "eth0")},
		{"flannel's, bound to another", lower(with(func(l *netstate.Link) { l.Name = "flannel.1" }), "eth1"), as("flannel.1")},
		{"flannel's, another local address", with(func(l *netstate.Link) { l.Name, l.Local = "flannel.1", netip.MustParseAddr("198.18.0.9") }), as("flannel.1")},
		{"flannel's, learning", with(func(l *netstate.Link) { l.Name, l.VXLAN.Learning = "flannel.1", true }), as("flannel.1")},
		{"flannel's, another tunnel", with(func(l *netstate.Link) { l.Name, l.VXLAN.VNI = "flannel.2", 2 }), want},
		{"flannel's, of another kind", with(func(l *netstate.Link) { l.Name, l.Kind = "flannel-wg", "wireguard" }), want},

		{"adopted before", with(func(l *netstate.Link) { l.Group = netstate.Mark }), as("overlay0")},
		{"adopted before, at another address", with(func(l *netstate.Link) { l.Group, l.Local = netstate.Mark, netip.MustParseAddr("198.18.0.9") }), as("overlay0")},
		{"adopted before, another tunnel now", with(func(l *netstate.Link) { l.Group, l.VXLAN.VNI = netstate.Mark, 2 }), want},

		{"our own", want, want},
		{"our own with another MAC", with(func(l *netstate.Link) { l.Name = want.Name }), want},
		{"our own, unfitting", with(func(l *netstate.Link) { l.Name, l.Local = want.Name, netip.Addr{} }), want},
		{"our own, bound", lower(with(func(l *netstate.Link) { l.Name = want.Name }), "eth0"), want},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := plainHost()
			h.Tunnels = []netstate.Link{c.is}
			if got := h.Adopt(subnet.IPv4, want, same); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			other := with(func(l *netstate.Link) { l.Name, l.VXLAN.VNI = "vx7", 7 })
			h.Tunnels = []netstate.Link{other, c.is, other}
			if got := h.Adopt(subnet.IPv4, want, same); got != c.want {
				t.Errorf("among others: got  %s\nwant %s", got, c.want)
			}
		})
	}
	if got := (backend.HostFacts{}).Adopt(subnet.IPv4, want, same); got != want {
		t.Errorf("of no device: %s", got)
	}
}
