package udp

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

// TestConfig checks which keys a config may have.
func TestConfig(t *testing.T) {
	for keys, want := range map[string]uint16{``: 8285, `, "Port": 0`: 8285, `, "Port": null`: 8285, `, "port": 8286`: 8286, `, "VNI": "of another backend"`: 8285} {
		if got := newBackend(t, dual, keys, testHost()).Settings().(config).Port; got != want {
			t.Errorf("%s: Port is %d", keys, got)
		}
	}
	for _, value := range []string{`-1`, `65536`, `"8285"`, `1.5`, `[]`} {
		_, err := New(parseConfig(t, dual, `, "Port": `+value), testHost())
		var refusal *subnet.ConfigError
		if !errors.As(err, &refusal) || refusal.Key != "Backend.Port" {
			t.Errorf("%s is refused with %v", value, err)
		}
	}
}

func TestMTU(t *testing.T) {
	for _, c := range []struct {
		families   string
		link, want int
	}{{v4, 1500, 1472}, {v6, 1500, 1452}, {dual, 1500, 1452}, {dual, 9000, 8952}} {
		h := testHost()
		h.Uplinks[0].MTU, h.Uplinks[1].MTU = c.link, c.link
		if b := newBackend(t, c.families, ``, h); b.MTU() != c.want || b.Publish().Node.MTU != c.want {
			t.Errorf("a link of %d for %s gives %d", c.link, c.families, b.MTU())
		}
	}
	h := testHost()
	h.Uplinks[0].MTU = 603
	if _, err := New(parseConfig(t, v4, ``), h); !errors.Is(err, backend.ErrLinkMTU) {
		t.Errorf("a link of 603: %v", err)
	}
}

// TestPublish checks what a node publishes, behind NAT: its address and no data, as
// flannel.
func TestPublish(t *testing.T) {
	h := testHost()
	h.Uplinks = uplinks(1500, addresses("198.18.0.1", "fd00:18::1"), addresses("192.0.2.1", "2001:db8::1"))
	text, err := subnet.FormatAttrs(newBackend(t, v4, ``, h).Publish())
	if err != nil || strings.Contains(string(text), "BackendData") || !strings.Contains(string(text), `"PublicIP":"192.0.2.1"`) || !strings.Contains(string(text), `"BackendType":"udp"`) {
		t.Errorf("it publishes %s, %v", text, err)
	}
}

// TestHost checks the devices of each family, with their addresses, settings and routes.
func TestHost(t *testing.T) {
	four := []string{
		"link tulle.udp tun mtu 1472 group 84 at 198.18.0.1:8285 network 10.5.0.0/16 source 10.5.0.0 own 10.5.1.0/24 up",
		"addr 10.5.1.0/32 dev tulle.udp",
		"sysctl net/ipv4/conf/tulle.udp/forwarding=1", "sysctl net/ipv4/conf/tulle.udp/rp_filter=2",
	}
	six := []string{
		"link tulle6.udp tun mtu 1452 group 84 at [fd00:18::1]:8285 network fd00:5::/48 source fd00:5:: own fd00:5:0:1::/64 up",
		"addr fd00:5:0:1::/128 dev tulle6.udp",
		"sysctl net/ipv6/conf/tulle6.udp/disable_ipv6=0", "sysctl net/ipv6/conf/tulle6.udp/accept_ra=0",
	}
	const route4, route6 = "route 10.5.0.0/16 dev tulle.udp", "route fd00:5::/48 dev tulle6.udp"
	forward := []string{"sysctl net/ipv4/conf/all/forwarding=1", "sysctl net/ipv4/conf/eth0/forwarding=1", "sysctl net/ipv6/conf/all/forwarding=1"}
	join := func(lists ...[]string) (all []string) {
		for _, l := range lists {
			all = append(all, l...)
		}
		return all
	}
	h := testHost()
	h.Checksums = backend.ChecksumsBroken
	for _, host := range []backend.HostFacts{testHost(), h} {
		wantLines(t, "dual", newBackend(t, dual, ``, host).Host(newLease(t, ownKey)), join(forward, four, six, []string{route4, route6})...)
		wantLines(t, "IPv4", newBackend(t, v4, ``, host).Host(newLease(t, "10.5.1.0-24")), join(forward[:2], four, []string{route4})...)
		wantLines(t, "IPv6", newBackend(t, v6, ``, host).Host(newLease(t, "fd00:5:0:1::-64")), join(forward[2:], six, []string{route6})...)
	}
}

// TestPeer checks what reaches peers.
func TestPeer(t *testing.T) {
	own := newLease(t, ownKey)
	own.Node.MTU = 1452
	four := []string{"udppeer 10.5.2.0/24 endpoint 192.0.2.2:8285 dev tulle.udp", "route 10.5.2.0/24 dev tulle.udp"}
	six := []string{"udppeer fd00:5:0:2::/64 endpoint [fd00:99::2]:8285 dev tulle6.udp", "route fd00:5:0:2::/64 dev tulle6.udp"}
	for _, c := range []struct {
		name string
		peer subnet.Lease
		want []string
		err  error
	}{
		{"dual", newLease(t, peerKey, "192.0.2.2", "fd00:99::2"), append(append([]string{}, four...), six...), nil},
		{"IPv4 alone", newLease(t, "10.5.2.0-24", "192.0.2.2", "fd00:99::2"), four, nil},
		{"IPv6 alone", newLease(t, "fd00:5:0:2::-64", "fd00:99::2"), six, nil},
		{"no IPv6 address", newLease(t, peerKey, "192.0.2.2"), four, backend.ErrNoPublicIP},
		{"our address", newLease(t, peerKey, "198.18.0.1", "fd00:99::2"), six, subnet.ErrPublicIP},
	} {
		got, err := newBackend(t, dual, ``, testHost()).Peer(own, c.peer, backend.PlainMetrics)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", c.name, err, c.err)
		}
		wantLines(t, c.name, got, c.want...)
	}
	small := newLease(t, "10.5.2.0-24", "192.0.2.2")
	small.Node.MTU = 1400
	got, err := newBackend(t, dual, `, "Port": 9`, testHost()).Peer(own, small, backend.PlainMetrics)
	if err != nil {
		t.Error(err)
	}
	wantLines(t, "a small MTU and another port", got, "udppeer 10.5.2.0/24 endpoint 192.0.2.2:9 dev tulle.udp", "route 10.5.2.0/24 dev tulle.udp mtu 1400")
}
