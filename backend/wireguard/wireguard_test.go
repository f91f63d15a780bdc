package wireguard

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

const ownKey, peerKey = "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=", "AgAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

func host(t *testing.T) backend.HostFacts {
	h := backendtest.Host()
	key, err := netstate.ParsePublicKey(ownKey)
	if err != nil {
		t.Fatal(err)
	}
	h.WireGuardKeys = func() (backend.WireGuardKeys, error) { return backend.WireGuardKeys{Device: key, Published: key}, nil }
	return h
}

func peerLease(t *testing.T, ips ...string) subnet.Lease {
	a := subnet.Attrs{BackendType: Type, PublicIP: backendtest.Addresses(ips...)}
	a.BackendData = subnet.Pair[string]{`{"PublicKey":"` + peerKey + `","Port":51820}`, `{"PublicKey":"` + peerKey + `","Port":51821}`}
	return backendtest.Lease(t, "10.5.2.0-24&fd00:5:0:2::-64", a)
}

// TestModes checks what is for the host and for a peer in each mode.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode string
		ips  []string
		want []string
	}{
		{separate, []string{"192.0.2.2", "2001:db8::2"}, []string{
			"wgpeer " + peerKey + " endpoint 192.0.2.2:51820 dev tulle-wg", "wgallowed 10.5.2.0/24 peer " + peerKey + " dev tulle-wg", "route 10.5.2.0/24 dev tulle-wg",
			"wgpeer " + peerKey + " endpoint [2001:db8::2]:51821 dev tulle6-wg", "wgallowed fd00:5:0:2::/64 peer " + peerKey + " dev tulle6-wg", "route fd00:5:0:2::/64 dev tulle6-wg",
		}},
		{auto, []string{"192.0.2.2", "2001:db8::2"}, []string{
			"wgpeer " + peerKey + " endpoint 192.0.2.2:51820 dev tulle-wg", "wgallowed 10.5.2.0/24 peer " + peerKey + " dev tulle-wg", "route 10.5.2.0/24 dev tulle-wg",
			"wgallowed fd00:5:0:2::/64 peer " + peerKey + " dev tulle-wg", "route fd00:5:0:2::/64 dev tulle-wg",
		}},
		{overIPv6, []string{"2001:db8::2"}, []string{
			"wgpeer " + peerKey + " endpoint [2001:db8::2]:51820 dev tulle-wg", "wgallowed 10.5.2.0/24 peer " + peerKey + " dev tulle-wg", "route 10.5.2.0/24 dev tulle-wg",
			"wgallowed fd00:5:0:2::/64 peer " + peerKey + " dev tulle-wg", "route fd00:5:0:2::/64 dev tulle-wg",
		}},
	} {
		t.Run(c.mode, func(t *testing.T) {
			b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, `, "Mode": "`+c.mode+`"`), host(t))
			own := backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())
			objects, err := b.Peer(own, peerLease(t, c.ips...), backend.PlainMetrics)
			if err != nil {
				t.Fatal(err)
			}
			backendtest.WantLines(t, "the peer", objects, c.want...)
			if b.MTU() != 1420 {
				t.Errorf("the MTU is %d", b.MTU())
			}
			drops := 0
			for _, o := range b.Host(own) {
				if r, ok := o.(netstate.Route); ok && r.Drop {
					drops++
				}
			}
			if drops != 2 {
				t.Errorf("%d of 2 networks fail closed", drops)
			}
		})
	}
}

// TestImplementationIsTheKindOfDevice checks who moves the packets, by whether the kernel
// could.
func TestImplementationIsTheKindOfDevice(t *testing.T) {
	const kernel, tun = netstate.TunnelWireGuard, netstate.TunnelWireGuardTUN
	for _, c := range []struct {
		keys       string
		able       bool
		kind, says string
	}{
		{"", true, kernel, inKernel},
		{"", false, tun, userSpace},
		{`, "Implementation": "auto"`, false, tun, userSpace},
		{`, "Implementation": "kernel"`, false, kernel, inKernel},
		{`, "Implementation": "userspace"`, true, tun, userSpace},
	} {
		h := host(t)
		h.KernelWireGuard = func() bool { return c.able }
		b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, c.keys), h)
		if got := b.Settings().(config).Implementation; got != c.says {
			t.Errorf("%q, able %t: it says %q", c.keys, c.able, got)
		}
		own := backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())
		devices := 0
		for _, o := range b.Host(own) {
			if l, ok := o.(netstate.Link); ok {
				if devices++; l.Kind != c.kind {
					t.Errorf("%q, able %t: %s", c.keys, c.able, l)
				}
			}
		}
		if devices != 2 {
			t.Errorf("%d devices", devices)
		}
	}
}

// TestPublishedDataIsFlannels compares what is published with flannel's bytes.
func TestPublishedDataIsFlannels(t *testing.T) {
	b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, ""), host(t))
	want := subnet.Pair[string]{`{"PublicKey":"` + ownKey + `","Port":51820}`, `{"PublicKey":"` + ownKey + `","Port":51821}`}
	if got := b.Publish().BackendData; got != want {
		t.Errorf("got %v", got)
	}
}

// TestUnusablePeers checks which peers get nothing, and why.
func TestUnusablePeers(t *testing.T) {
	other := "AwAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	for _, c := range []struct{ mode, four, six, want string }{
		{separate, ownKey, ownKey, "this node's own; do two machines share a key?"},
		{auto, ownKey, ownKey, "this node's own; do two machines share a key?"},
		{auto, peerKey, other, "where one device serves both"},
		{separate, "x", "x", "not a WireGuard public key"},
	} {
		b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, `, "Mode": "`+c.mode+`"`), host(t))
		own := backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())
		peer := peerLease(t, "192.0.2.2", "2001:db8::2")
		peer.BackendData = subnet.Pair[string]{`{"PublicKey":"` + c.four + `","Port":1}`, `{"PublicKey":"` + c.six + `","Port":1}`}
		objects, err := b.Peer(own, peer, backend.PlainMetrics)
		if len(objects) != 0 || !errors.Is(err, backend.ErrBackendData) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s, %s and %s: got %v, %v", c.mode, c.four, c.six, objects, err)
		}
	}
	// Two subnets with two keys are fine where each has a device.
	b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, ""), host(t))
	own := backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())
	if objects, err := b.Peer(own, peerLease(t, "192.0.2.2"), backend.PlainMetrics); len(objects) != 3 || !errors.Is(err, backend.ErrNoPublicIP) {
		t.Errorf("without an IPv6 address: %v, %v", objects, err)
	}
}

func TestInvalidConfigs(t *testing.T) {
	for keys, want := range map[string]string{
		`, "Mode": "fast"`:                    "Backend.Mode",
		`, "ListenPort": 0`:                   "Backend.ListenPort",
		`, "ListenPortV6": 0`:                 "Backend.ListenPortV6",
		`, "ListenPort": 51821`:               "two devices need two ports",
		`, "ListenPort": 70000`:               "Backend.ListenPort",
		`, "MTU": 1300`:                       "Backend.MTU",
		`, "PSK": "AAAA"`:                     "wg genpsk",
		`, "PersistentKeepaliveInterval": -1`: "Backend.PersistentKeepaliveInterval",
		`, "KeyDays": -1`:                     "Backend.KeyDays",
		`, "KeyDays": 3651`:                   "Backend.KeyDays",
		`, "KeyDays": "90"`:                   "Backend.KeyDays",
	} {
		_, err := New(backendtest.Config(t, Type, backendtest.Dual, keys), host(t))
		var refused *subnet.ConfigError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", keys, err)
		}
	}
}

// TestModesNeedTheirFamily rejects a mode whose addresses no node publishes.
func TestModesNeedTheirFamily(t *testing.T) {
	_, err := New(backendtest.Config(t, Type, backendtest.V4, `, "Mode": "ipv6"`), host(t))
	if err == nil || !strings.Contains(err.Error(), "set EnableIPv6 to true") {
		t.Errorf("got %v", err)
	}
}

// TestStrict confines packets to the devices by default.
func TestStrict(t *testing.T) {
	for keys, want := range map[string]subnet.Pair[[2]string]{
		"":                                  {{"tulle-wg", "tulle-wg2"}, {"tulle6-wg", "tulle6-wg2"}},
		`, "Mode": "auto"`:                  {{"tulle-wg", "tulle-wg2"}, {"tulle-wg", "tulle-wg2"}},
		`, "Mode": "auto", "Strict": false`: {},
	} {
		b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, keys), host(t)).(backend.Confiner)
		if got := b.Confined(); got != want {
			t.Errorf("%s: got %v", keys, got)
		}
		drops := 0
		for _, o := range b.Host(backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())) {
			if r, ok := o.(netstate.Route); ok && r.Drop {
				drops++
			}
		}
		if strict := want != (subnet.Pair[[2]string]{}); (drops == 2) != strict {
			t.Errorf("%s: %d routes that drop", keys, drops)
		}
	}
}

// TestKeyFailureStopsTheBackend passes the reason on.
func TestKeyFailureStopsTheBackend(t *testing.T) {
	h := host(t)
	why := errors.New("the disk is full")
	h.WireGuardKeys = func() (backend.WireGuardKeys, error) { return backend.WireGuardKeys{}, why }
	if _, err := New(backendtest.Config(t, Type, backendtest.V4, ""), h); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
}

// TestFlannelsDevicesAreAdopted keeps their names, and no other program's device.
func TestFlannelsDevicesAreAdopted(t *testing.T) {
	h := host(t)
	wg := func(name string) netstate.Link {
		return netstate.Link{Name: name, Kind: netstate.TunnelWireGuard, MTU: 1420}
	}
	for _, c := range []struct {
		there []netstate.Link
		mode  string
		want  [2]string
	}{
		{nil, separate, [2]string{"tulle-wg", "tulle6-wg"}},
		{[]netstate.Link{wg("wg0"), wg("flannel-wg-v6"), wg("flannel-wg")}, separate, [2]string{"flannel-wg", "flannel-wg-v6"}},
		{[]netstate.Link{wg("wg0"), wg("flannel-wg-v6"), wg("flannel-wg")}, auto, [2]string{"flannel-wg", "flannel-wg"}},
		{[]netstate.Link{wg("flannel-wg"), wg("tulle-wg")}, auto, [2]string{"tulle-wg", "tulle-wg"}},
	} {
		h.Tunnels = c.there
		b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, `, "Mode": "`+c.mode+`"`), h).(wireguard)
		if got := [2]string{b.devices[0].Name, b.devices[1].Name}; got != c.want {
			t.Errorf("%s with %v has %v", c.mode, c.there, got)
		}
	}
}

// TestPSKIsNotShown plants a preshared key.
func TestPSKIsNotShown(t *testing.T) {
	cfg := backendtest.Config(t, Type, backendtest.V4, `, "PSK": "`+peerKey+`"`)
	b := backendtest.New(t, New, cfg, host(t))
	text, err := json.Marshal(b.Settings())
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{string(text), fmt.Sprintf("%v %+v %#v %s %q", b, b, b, b.Settings(), b.Settings())} {
		if strings.Contains(shown, peerKey[:6]) || !strings.Contains(shown, "(set)") {
			t.Errorf("it is shown as %s", shown)
		}
	}
	if k := b.(backend.Keyed).PresharedKey(); k.Reveal() != peerKey || k.String() != "(set)" {
		t.Errorf("the kernel would get %q", k.Reveal())
	}
	cfg = backendtest.Config(t, Type, backendtest.V4, `, "PSK": "secretsecret"`)
	if _, err := New(cfg, host(t)); err == nil || strings.Contains(err.Error(), "secretsecret") {
		t.Errorf("got %v", err)
	}
}
