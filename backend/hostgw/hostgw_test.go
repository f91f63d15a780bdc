package hostgw

import (
	"errors"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/subnet"
)

const (
	ownKey  = "10.5.1.0-24&fd00:5:0:1::-64"
	peerKey = "10.5.2.0-24&fd00:5:0:2::-64"
)

// TestPublish checks what a node publishes, behind NAT.
func TestPublish(t *testing.T) {
	h := testHost()
	h.Uplinks = uplinks(1500, addresses("198.18.0.1", "fd00:18::1"), addresses("192.0.2.1", "2001:db8::1"))
	b := newBackend(t, dual, `, "VNI": "of another backend"`, h)
	want := subnet.Attrs{PublicIP: h.Attrs("", 0).PublicIP, BackendType: "host-gw", Node: subnet.Node{MTU: 1500}}
	if got := b.Publish(); got != want || b.MTU() != 1500 {
		t.Errorf("got %+v and an MTU of %d, want %+v", got, b.MTU(), want)
	}
}

// TestHost checks that the host needs settings only.
func TestHost(t *testing.T) {
	h := testHost()
	h.Uplinks[subnet.IPv6].TakesRouterAdvertisements = true
	wantLines(t, "what a host needs", newBackend(t, dual, ``, h).Host(newLease(t, ownKey)),
		"sysctl net/ipv4/conf/all/forwarding=1", "sysctl net/ipv4/conf/eth0/forwarding=1", "sysctl net/ipv6/conf/eth0/accept_ra=2", "sysctl net/ipv6/conf/all/forwarding=1")
	wantLines(t, "with IPv4 alone", newBackend(t, v4, ``, h).Host(newLease(t, "10.5.1.0-24")), "sysctl net/ipv4/conf/all/forwarding=1", "sysctl net/ipv4/conf/eth0/forwarding=1")
	wantLines(t, "with IPv6 alone", newBackend(t, v6, ``, testHost()).Host(newLease(t, "fd00:5:0:1::-64")), "sysctl net/ipv6/conf/all/forwarding=1")
}

// TestPeer checks the routes to peers, and the errors for unreachable ones.
func TestPeer(t *testing.T) {
	own := newLease(t, ownKey)
	own.Node.MTU = 1500
	near4, near6 := "route 10.5.2.0/24 via 198.18.0.2 dev eth0", "route fd00:5:0:2::/64 via fd00:18::2 dev eth0"
	smaller := newLease(t, peerKey, "198.18.0.2", "fd00:18::2")
	smaller.Node.MTU = 1300
	for _, c := range []struct {
		name string
		own  subnet.Lease
		peer subnet.Lease
		want []string
		err  error
		say  []string
	}{
		{"dual", own, newLease(t, peerKey, "198.18.0.2", "fd00:18::2"), []string{near4, near6}, nil, nil},
		{"with a smaller MTU", own, smaller, []string{near4 + " mtu 1300", near6 + " mtu 1300"}, nil, nil},
		{"IPv4 alone", own, newLease(t, "10.5.2.0-24", "198.18.0.2", "fd00:18::2"), []string{near4}, nil, nil},
		{"of a node with IPv6 alone", newLease(t, "fd00:5:0:1::-64"), newLease(t, peerKey, "198.18.0.2", "fd00:18::2"), []string{near6}, nil, nil},
		{"behind a router", own, newLease(t, peerKey, "192.0.2.2", "fd00:99::2"), nil, backend.ErrNotOnLink, []string{"IPv4: 192.0.2.2", "IPv6: fd00:99::2", "vxlan"}},
		{"with IPv4 behind a router", own, newLease(t, peerKey, "192.0.2.2", "fd00:18::2"), []string{near6}, backend.ErrNotOnLink, []string{"IPv4: 192.0.2.2"}},
		{"behind a router of the link's network", own, newLease(t, "10.5.2.0-24", "198.18.0.130"), nil, backend.ErrNotOnLink, []string{"198.18.0.130"}},
		{"without an address", own, newLease(t, peerKey, "198.18.0.2"), []string{near4}, backend.ErrNoPublicIP, []string{"IPv6: "}},
		{"at the broadcast address", own, newLease(t, peerKey, "198.18.0.255", "fd00:18::2"), []string{near6}, subnet.ErrPublicIP, []string{"198.18.0.255"}},
	} {
		got, err := newBackend(t, dual, ``, testHost()).Peer(c.own, c.peer, backend.PlainMetrics)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.err)
		}
		for _, s := range c.say {
			if err == nil || !strings.Contains(err.Error(), s) {
				t.Errorf("%s: got error %v, want %q in it", c.name, err, s)
			}
		}
		wantLines(t, c.name, got, c.want...)
	}
}
