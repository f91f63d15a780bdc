package backend_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// TestForwarding checks which settings a host needs to forward packets, by family.
func TestForwarding(t *testing.T) {
	const (
		four = "sysctl net/ipv4/conf/all/forwarding=1"
		eth0 = "sysctl net/ipv4/conf/eth0/forwarding=1"
		six  = "sysctl net/ipv6/conf/all/forwarding=1"
		// It comes before six: a host that begins to forward forgets its routers.
		routers = "sysctl net/ipv6/conf/eth0/accept_ra=2"
	)
	for _, c := range []struct {
		key     string
		accepts bool
		want    []string
	}{
		{"10.5.1.0-24", false, []string{four, eth0}},
		{"10.5.1.0-24", true, []string{four, eth0}},
		{"fd00:5:0:1::-64", false, []string{six}},
		{"fd00:5:0:1::-64", true, []string{routers, six}},
		{"10.5.1.0-24&fd00:5:0:1::-64", false, []string{four, eth0, six}},
		{"10.5.1.0-24&fd00:5:0:1::-64", true, []string{four, eth0, routers, six}},
	} {
		h := plainHost()
		h.Uplinks[subnet.IPv6].TakesRouterAdvertisements = c.accepts
		wantLines(t, c.key, h.Forwarding(lease(t, c.key)), c.want...)
	}
	wantLines(t, "no subnet", plainHost().Forwarding(subnet.Lease{}))
}

func TestDevicesHost(t *testing.T) {
	d := backend.Devices{
		subnet.IPv4: {Name: "a4", Kind: "ipip", MTU: 1480, Up: true},
		subnet.IPv6: {Name: "a6", Kind: "ip6tnl", MTU: 1460, Up: true},
	}
	four := []string{"link a4 ipip mtu 1480 group 0 up", "addr 10.5.1.0/32 dev a4", "sysctl net/ipv4/conf/a4/forwarding=1", "sysctl net/ipv4/conf/a4/rp_filter=2"}
	six := []string{"link a6 ip6tnl mtu 1460 group 0 up", "addr fd00:5:0:1::/128 dev a6", "sysctl net/ipv6/conf/a6/disable_ipv6=0", "sysctl net/ipv6/conf/a6/accept_ra=0"}
	forward := []string{"sysctl net/ipv4/conf/all/forwarding=1", "sysctl net/ipv4/conf/eth0/forwarding=1", "sysctl net/ipv6/conf/all/forwarding=1"}
	h := plainHost()
	wantLines(t, "dual", d.Host(lease(t, "10.5.1.0-24&fd00:5:0:1::-64"), h, backend.OffloadAuto), slices.Concat(forward, four, six)...)
	wantLines(t, "IPv4", d.Host(lease(t, "10.5.1.0-24"), h, backend.OffloadAuto), slices.Concat(forward[:2], four)...)
	wantLines(t, "IPv6", d.Host(lease(t, "fd00:5:0:1::-64"), h, backend.OffloadAuto), slices.Concat(forward[2:], six)...)
	d[subnet.IPv6] = netstate.Link{}
	wantLines(t, "without an IPv6 device", d.Host(lease(t, "10.5.1.0-24&fd00:5:0:1::-64"), h, backend.OffloadAuto), slices.Concat(forward, four)...)
}

func TestDevicesMTU(t *testing.T) {
	four, six := netstate.Link{Name: "a", MTU: 1450}, netstate.Link{Name: "b", MTU: 1430}
	for _, c := range []struct {
		devices backend.Devices
		want    int
	}{
		{backend.Devices{four, six}, 1430},
		{backend.Devices{six, four}, 1430},
		{backend.Devices{four, {}}, 1450},
		{backend.Devices{{}, six}, 1430},
		{backend.Devices{}, 0},
	} {
		if got := c.devices.MTU(); got != c.want {
			t.Errorf("%v: %d, want %d", c.devices, got, c.want)
		}
	}
}

func TestMakeDevices(t *testing.T) {
	devices := func(linkMTU int, families string) (backend.Devices, error) {
		h := plainHost()
		h.Uplinks[0].MTU, h.Uplinks[1].MTU = linkMTU, linkMTU
		return h.MakeDevices(parseConfig(t, families, `{"Type": "x"}`), func(f subnet.Family) netstate.Link {
			return netstate.Link{Name: f.String(), MTU: linkMTU - 100}
		})
	}
	for families, want := range map[string]backend.Devices{
		v4:   {{Name: "IPv4", MTU: 1400}, {}},
		v6:   {{}, {Name: "IPv6", MTU: 1400}},
		dual: {{Name: "IPv4", MTU: 1400}, {Name: "IPv6", MTU: 1400}},
	} {
		if got, err := devices(1500, families); got != want || err != nil {
			t.Errorf("%s: %v, %v", families, got, err)
		}
	}
	for _, c := range []struct {
		linkMTU  int
		families string
		least    string // "" if it is enough
	}{
		{676, v4, ""}, {675, v4, "676"}, {1, v4, "676"},
		{1380, v6, ""}, {1379, v6, "1380"},
		{1380, dual, ""}, {1379, dual, "1380"}, {675, dual, "676"},
		{0, dual, ""}, // unknown
	} {
		_, err := devices(c.linkMTU, c.families)
		if c.least == "" {
			wantErrors(t, c.families, err)
			continue
		}
		wantErrors(t, c.families, err, backend.ErrLinkMTU)
		for _, s := range []string{"eth0", c.least} {
			if err != nil && !strings.Contains(err.Error(), s) {
				t.Errorf("%d for %s: got error %v, want %q in it", c.linkMTU, c.families, err, s)
			}
		}
	}
}
