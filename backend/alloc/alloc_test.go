package alloc

import (
	"net/netip"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/subnet"
)

// TestAlloc checks that the backend publishes the host's address and needs no
// objects.
func TestAlloc(t *testing.T) {
	cfg, err := subnet.ParseConfig([]byte(`{"Network": "10.5.0.0/16", "Backend": {"Type": "alloc", "VNI": "of another backend"}}`))
	if err != nil {
		t.Fatal(err)
	}
	host := backend.HostFacts{
		Uplinks: subnet.Pair[backend.Uplink]{{
			Link: "eth0", MTU: 1500, TakesRouterAdvertisements: true,
			Address: netip.MustParseAddr("198.18.0.1"), Public: netip.MustParseAddr("192.0.2.1"),
		}},
	}
	b, err := New(cfg, host)
	if err != nil {
		t.Fatal(err)
	}
	want := subnet.Attrs{PublicIP: host.Attrs("", 0).PublicIP, BackendType: "alloc", Node: subnet.Node{MTU: 1500}}
	if got := b.Publish(); got != want || b.MTU() != 1500 {
		t.Errorf("got %+v and an MTU of %d, want %+v", got, b.MTU(), want)
	}
	own := subnet.Lease{Subnets: subnet.Pair[netip.Prefix]{netip.MustParsePrefix("10.5.1.0/24")}, Attrs: want}
	if got := b.Host(own); len(got) != 0 {
		t.Errorf("the host needs %v", got)
	}
	peer := own
	peer.Subnets[subnet.IPv4] = netip.MustParsePrefix("10.5.2.0/24")
	for _, p := range []subnet.Lease{peer, {}} {
		if got, err := b.Peer(own, p, backend.PlainMetrics); len(got) != 0 || err != nil {
			t.Errorf("a peer needs %v, %v", got, err)
		}
	}
}
