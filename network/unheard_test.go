package network

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/subnet"
)

// TestUnheardNamesTheUplinksSetting checks that, if no peer answers, the report names
// the uplink's setting as the program calls it.
func TestUnheardNamesTheUplinksSetting(t *testing.T) {
	a, other := netip.MustParseAddr("192.0.2.1"), "eth1"
	var h hostif.Interfaces
	h.Uplinks[subnet.IPv4] = hostif.Uplink{Link: "eth0", Address: a, Public: a, Why: "default route"}
	v := View{uplinkSetting: "--uplink", Interfaces: h, Probes: &probes{Summary: probe.Summary{Failing: []probe.Result{{Finding: probe.Finding{Path: probe.Path{HostTo: netip.MustParseAddr("192.0.2.2")}}}}}}}
	v.Config.Pools[subnet.IPv4].Network = netip.MustParsePrefix("10.5.0.0/16")
	for _, link := range []*string{nil, &other} {
		v.Probes.link = link
		if got := v.whyUnheard(); !strings.HasSuffix(got, ", set --uplink") {
			t.Error(got)
		}
	}
}
