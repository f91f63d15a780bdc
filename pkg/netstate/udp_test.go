package netstate_test

import (
	"net/netip"
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

func udpLink(name string) Link {
	return Link{
		Name: name, Kind: TunnelUDP, MTU: 1472, Group: Mark, Up: true,
		UDP: UDP{Local: netip.MustParseAddrPort("192.0.2.1:8285"), Network: pfx("10.1.0.0/16"), Source: ip("10.1.0.0")},
	}
}

// TestMovedPrefixIsOneReplacement: a prefix never is with two peers, nor with none.
func TestMovedPrefixIsOneReplacement(t *testing.T) {
	link := udpLink("tulle.udp")
	at := func(endpoint string) UDPPeer {
		return UDPPeer{link.Name, pfx("10.1.2.0/24"), netip.MustParseAddrPort(endpoint)}
	}
	plan := Diff(Of(link, at("192.0.2.3:8285")), []Object{link, at("192.0.2.2:8285")})
	if want := "replace udppeer 10.1.2.0/24 endpoint 192.0.2.3:8285 dev tulle.udp\n"; plan.String() != want {
		t.Errorf("plan is\n%s\nwant\n%s", plan, want)
	}
}

// TestLinkWithoutItsProgramIsChangedInPlace: the device stays, with its routes.
func TestLinkWithoutItsProgramIsChangedInPlace(t *testing.T) {
	link := udpLink("tulle.udp")
	route := Route{Dst: pfx("10.1.2.0/24"), Link: link.Name}
	idle := link
	idle.UDP = UDP{}
	plan := Diff(Of(link, route), []Object{idle, route})
	if want := "replace " + link.String() + "\n"; plan.String() != want {
		t.Errorf("plan is\n%s\nwant\n%s", plan, want)
	}
}
