package netstate

import (
	"net/netip"
	"testing"
)

func TestTrafficIsWhatFirewallsCallIt(t *testing.T) {
	for want, l := range map[string]Link{
		"UDP port 8472":  {Kind: TunnelVXLAN, VXLAN: VXLAN{Port: 8472}},
		"IP protocol 4":  {Kind: TunnelIPIP},
		"IP protocol 41": {Kind: TunnelIP6},
		"UDP port 51820": {Kind: TunnelWireGuard, WireGuard: WireGuard{Port: 51820}},
		"UDP port 51821": {Kind: TunnelWireGuardTUN, WireGuard: WireGuard{Port: 51821}},
		"UDP port 8285":  {Kind: TunnelUDP, UDP: UDP{Local: netip.MustParseAddrPort("192.0.2.1:8285")}},
		"device":         {Kind: "device"},
		"":               {},
	} {
		if got := l.Traffic(); got != want {
			t.Errorf("%s is %q, not %q", l.Kind, got, want)
		}
		if got := l.IsTunnel(); got != (want != "device" && want != "") {
			t.Errorf("%s is a tunnel: %t", l.Kind, got)
		}
	}
}
