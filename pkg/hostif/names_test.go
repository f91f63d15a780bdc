package hostif

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/subnet"
)

// TestTextsUseTheCallersNames checks that errors and reasons call a setting what the
// caller calls it.
func TestTextsUseTheCallersNames(t *testing.T) {
	a := netip.MustParseAddr
	named := Names{Iface: "--if", IfaceRegex: "--re", CanReach: "--reach", FromNodeIP: "--node", PublicIP: subnet.Pair[string]{"--ip", "--ipv6"}}
	for want, spec := range map[string]Spec{
		"--if=..: ":         {Ifaces: []string{".."}},
		"--re=[: ":          {IfaceRegexes: []string{"["}},
		"--reach=0.0.0.0: ": {CanReach: a("0.0.0.0")},
		"--ip=127.0.0.1: ":  {PublicIP: subnet.Pair[netip.Addr]{a("127.0.0.1")}},
		"--ipv6=fe80::1: ":  {PublicIP: subnet.Pair[netip.Addr]{subnet.IPv6: a("fe80::1")}},
	} {
		spec.Names = named
		if err := spec.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	_, err := Choose(viewOf(t, plain), Spec{Names: named, Networks: networks("4"), Ifaces: []string{"eth7"}, IfaceRegexes: []string{"wlan"}, CanReach: a("203.0.113.1"), FromNodeIP: true})
	if err == nil {
		t.Fatal("chose an uplink")
	}
	for _, want := range []string{"--if=eth7: ", "--re=wlan: ", "--reach=203.0.113.1: ", "--node (the Node ", "set --if to "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
	for want, spec := range map[string]Spec{
		"--ip=192.0.2.7":     {PublicIP: subnet.Pair[netip.Addr]{a("192.0.2.7")}},
		"--node (192.0.2.7)": {FromNodeIP: true, NodeIP: subnet.Pair[netip.Addr]{a("192.0.2.7")}},
	} {
		spec.Names, spec.Networks = named, networks("4")
		if u, err := Choose(viewOf(t, plain), spec); err != nil || u[subnet.IPv4].Why != want {
			t.Errorf("%+v, %v; want %s", u, err, want)
		}
	}
}
