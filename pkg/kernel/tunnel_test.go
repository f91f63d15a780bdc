package kernel

import (
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

func TestEveryKindOfTunnelCanBeMade(t *testing.T) {
	for kind, tunnel := range netstate.Tunnels() {
		var w writer
		if made := w.newLink(netstate.Link{Name: "tulle.x", Kind: kind}, 0, 1); made == tunnel.UserSpace {
			t.Errorf("%s is made: %t", kind, made)
		}
	}
	var w writer
	if w.newLink(netstate.Link{Name: "tulle.x", Kind: "bridge"}, 0, 1) {
		t.Error("a bridge is made")
	}
}

// TestMessageSaysWhatIsWanted reads the messages that create links as one reads what the
// kernel answers, also those of kinds that this machine lacks.
func TestMessageSaysWhatIsWanted(t *testing.T) {
	four, six := netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("fd00:18::1")
	const lower = 7
	at := names{lower: "eth0"}
	for _, l := range []netstate.Link{
		{Kind: netstate.TunnelVXLAN, MTU: 1450, MAC: netstate.MAC{2, 1}, Lower: "eth0", Local: four, VXLAN: netstate.VXLAN{VNI: 1, Port: 8472}, Up: true},
		{Kind: netstate.TunnelVXLAN, MTU: 1430, MAC: netstate.MAC{2, 2}, Lower: "eth0", Local: six, VXLAN: netstate.VXLAN{VNI: 70000, Port: 4789, Learning: true, GBP: true}},
		{Kind: netstate.TunnelIPIP, MTU: 1480, Local: four, Up: true},
		{Kind: netstate.TunnelIP6, MTU: 1460, ByRoute: true, Up: true},
		{Kind: netstate.TunnelIP6, MTU: 1460, Local: six},
		{Kind: netstate.TunnelWireGuard, MTU: 1420},
	} {
		l.Name, l.Group = "tulle.x", netstate.Mark
		index := 0
		if l.Lower != "" {
			index = lower
		}
		var w writer
		if !w.newLink(l, index, 1) {
			t.Errorf("%s cannot be made", l)
			continue
		}
		unmark(w.buf[unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg:])
		if is, ok := decodeLink(w.buf[unix.NLMSG_HDRLEN:], at); !ok || is != l {
			t.Errorf("the message says\n%s\nand was to say\n%s", is, l)
		}
	}
}

// unmark clears the mark of attributes that have others inside. The kernel does not set it.
func unmark(b []byte) {
	for len(b) >= unix.SizeofRtAttr {
		n, typ := int(native.Uint16(b)), native.Uint16(b[2:])
		if typ&unix.NLA_F_NESTED != 0 {
			native.PutUint16(b[2:], typ&^unix.NLA_F_NESTED)
			unmark(b[unix.SizeofRtAttr:n])
		}
		b = b[min((n+3)&^3, len(b)):]
	}
}
