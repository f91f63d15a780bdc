package wireguard

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/backendtest"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// keyText returns a public key in base64 whose first byte is b.
func keyText(b byte) string {
	return base64.StdEncoding.EncodeToString(append([]byte{b}, make([]byte, 31)...))
}

func key(t *testing.T, b byte) netstate.PublicKey {
	t.Helper()
	k, err := netstate.ParsePublicKey(keyText(b))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// rotating returns a backend in dual stack on a host with these keys, and its lease.
func rotating(t *testing.T, keys string, device, published, second byte, offered bool) (backend.Rotator, subnet.Lease) {
	t.Helper()
	h := backendtest.Host()
	k := backend.WireGuardKeys{Device: key(t, device), Published: key(t, published)}
	if second != 0 {
		k.Second = key(t, second)
	}
	h.WireGuardKeys = func() (backend.WireGuardKeys, error) { return k, nil }
	h.SecondTunnel = offered
	b := backendtest.New(t, New, backendtest.Config(t, Type, backendtest.Dual, keys), h).(backend.Rotator)
	return b, backendtest.Lease(t, "10.5.1.0-24&fd00:5:0:1::-64", b.Publish())
}

// peerWith returns the lease of a node of tulle with this data in both families.
func peerWith(t *testing.T, data string) subnet.Lease {
	t.Helper()
	l := peerLease(t, "192.0.2.2", "2001:db8::2")
	l.Node.ID = "other"
	l.BackendData = subnet.Pair[string]{data, data}
	return l
}

func objects(t *testing.T, b backend.Backend, own, peer subnet.Lease) []netstate.Object {
	t.Helper()
	all, err := b.Peer(own, peer, backend.PlainMetrics)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestPublishesBothTunnels in each step of this node's rotation from key 1 to key 7.
func TestPublishesBothTunnels(t *testing.T) {
	for _, c := range []struct {
		step                      string
		device, published, second byte
		want                      string
	}{
		{"none", 1, 1, 0, `{"PublicKey":"` + keyText(1) + `","Port":51820}`},
		{"move", 1, 1, 1, `{"PublicKey":"` + keyText(1) + `","Port":51820,"Second":{"PublicKey":"` + keyText(1) + `","Port":51822}}`},
		{"publish", 1, 7, 1, `{"PublicKey":"` + keyText(7) + `","Port":51820,"Second":{"PublicKey":"` + keyText(1) + `","Port":51822}}`},
		{"return", 7, 7, 1, `{"PublicKey":"` + keyText(7) + `","Port":51820,"Second":{"PublicKey":"` + keyText(1) + `","Port":51822}}`},
	} {
		for _, mode := range []string{separate, auto} {
			b, own := rotating(t, `, "Mode": "`+mode+`"`, c.device, c.published, c.second, false)
			if got := own.BackendData[subnet.IPv4]; got != c.want {
				t.Errorf("%s, %s: got %s", c.step, mode, got)
			}
			want6 := c.want
			if mode == separate {
				want6 = strings.NewReplacer("51820", "51821", "51822", "51823").Replace(want6)
			}
			if got := own.BackendData[subnet.IPv6]; got != want6 {
				t.Errorf("%s, %s: for IPv6 %s", c.step, mode, got)
			}
			links := make(map[string]netstate.WireGuard)
			addresses := 0
			for _, o := range b.Host(own) {
				switch o := o.(type) {
				case netstate.Link:
					links[o.Name] = o.WireGuard
				case netstate.Addr:
					if strings.HasSuffix(o.Link, "2") {
						addresses++
					}
				}
			}
			wanted := map[string]netstate.WireGuard{"tulle-wg": {Key: key(t, c.device), Port: 51820}}
			if mode == separate {
				wanted["tulle6-wg"] = netstate.WireGuard{Key: key(t, c.device), Port: 51821}
			}
			if c.second != 0 {
				wanted["tulle-wg2"] = netstate.WireGuard{Key: key(t, c.second), Port: 51822}
				if mode == separate {
					wanted["tulle6-wg2"] = netstate.WireGuard{Key: key(t, c.second), Port: 51823}
				}
			}
			if len(links) != len(wanted) || (c.second != 0) != (addresses == 2) {
				t.Errorf("%s, %s: the devices are %v, with %d addresses on second ones", c.step, mode, links, addresses)
			}
			for name, want := range wanted {
				if links[name] != want {
					t.Errorf("%s, %s: %s has %v, not %v", c.step, mode, name, links[name], want)
				}
			}
		}
	}
}

// TestPeersHaveTwoTunnels while this node or the peer replaces its key, and the packets
// take the one that the lease says.
func TestPeersHaveTwoTunnels(t *testing.T) {
	plain := `{"PublicKey":"` + keyText(2) + `","Port":51820}`
	moving := `{"PublicKey":"` + keyText(2) + `","Port":51820,"Second":{"PublicKey":"` + keyText(2) + `","Port":4000}}`
	returning := `{"PublicKey":"` + keyText(3) + `","Port":51820,"Second":{"PublicKey":"` + keyText(2) + `"}}`
	for name, c := range map[string]struct {
		device, published, second byte
		offered                   bool
		peer                      string
		first, other              string // the lines of the peers in IPv4
		prefer                    bool
	}{
		"neither":           {1, 1, 0, false, plain, keyText(2) + " endpoint 192.0.2.2:51820", "", false},
		"another peer":      {1, 1, 0, true, plain, keyText(2) + " endpoint 192.0.2.2:51820", "", false},
		"the peer moves":    {1, 1, 0, true, moving, keyText(2) + " endpoint 192.0.2.2:51820", keyText(2) + " endpoint 192.0.2.2:4000 keepalive 5", true},
		"the peer returns":  {1, 1, 0, true, returning, keyText(3) + " endpoint 192.0.2.2:51820 keepalive 5", keyText(2) + " endpoint 192.0.2.2:51822 keepalive 5", false},
		"this node moves":   {1, 1, 1, false, plain, keyText(2) + " endpoint 192.0.2.2:51820", keyText(2) + " endpoint 192.0.2.2:51822 keepalive 5", true},
		"publishes":         {1, 7, 1, false, plain, keyText(2) + " endpoint 192.0.2.2:51820", keyText(2) + " endpoint 192.0.2.2:51822 keepalive 5", true},
		"returns":           {7, 7, 1, false, plain, keyText(2) + " endpoint 192.0.2.2:51820 keepalive 5", keyText(2) + " endpoint 192.0.2.2:51822 keepalive 5", false},
		"returns, it moves": {7, 7, 1, true, moving, keyText(2) + " endpoint 192.0.2.2:51820 keepalive 5", keyText(2) + " endpoint 192.0.2.2:4000 keepalive 5", true},
		"moves, it returns": {1, 1, 1, true, returning, keyText(3) + " endpoint 192.0.2.2:51820 keepalive 5", keyText(2) + " endpoint 192.0.2.2:51822 keepalive 5", true},
		"both return":       {7, 7, 1, true, returning, keyText(3) + " endpoint 192.0.2.2:51820 keepalive 5", keyText(2) + " endpoint 192.0.2.2:51822 keepalive 5", false},
	} {
		b, own := rotating(t, "", c.device, c.published, c.second, c.offered)
		peer := peerWith(t, c.peer)
		for _, second := range []bool{false, true} {
			peer.Second = subnet.Pair[bool]{subnet.IPv4: second}
			by := "tulle-wg"
			var lines []string
			for _, o := range objects(t, b, own, peer) {
				if text := o.String(); !strings.Contains(text, "tulle6") {
					lines = append(lines, text)
				}
			}
			want := []string{"wgpeer " + c.first + " dev tulle-wg", "wgallowed 10.5.2.0/24 peer " + c.first[:44] + " dev tulle-wg"}
			if c.other != "" {
				want = append(want, "wgpeer "+c.other+" dev tulle-wg2", "wgallowed 10.5.2.0/24 peer "+c.other[:44]+" dev tulle-wg2")
				if second {
					by = "tulle-wg2"
				}
			}
			want = append(want, "route 10.5.2.0/24 dev "+by)
			if !sameLines(lines, want) {
				t.Errorf("%s, second %t:\n%s\nnot\n%s", name, second, strings.Join(lines, "\n"), strings.Join(want, "\n"))
			}
		}
		tunnels := b.Tunnels(own, peer)
		if (tunnels[subnet.IPv4] != backend.Tunnels{}) != (c.other != "") || (tunnels[subnet.IPv6] != backend.Tunnels{}) != (c.other != "") || tunnels[subnet.IPv4].PreferSecond != c.prefer {
			t.Errorf("%s: the tunnels are %+v", name, tunnels)
		}
		if got := b.Offers(&peer); got != strings.Contains(c.peer, "Second") {
			t.Errorf("%s: offers %t", name, got)
		}
	}
}

func sameLines(got, want []string) bool {
	if len(got) != len(want) {
		return false
	}
	set := make(map[string]bool)
	for _, l := range got {
		set[l] = true
	}
	for _, l := range want {
		if !set[l] {
			return false
		}
	}
	return true
}

// TestFlannelsNodesHaveOneTunnel, because they open no second one.
func TestFlannelsNodesHaveOneTunnel(t *testing.T) {
	b, own := rotating(t, "", 1, 1, 1, false)
	peer := peerWith(t, `{"PublicKey":"`+keyText(2)+`","Port":51820}`)
	peer.Node = subnet.Node{}
	if got := objects(t, b, own, peer); len(got) != 6 {
		t.Errorf("got %v", got)
	}
	if got := b.Tunnels(own, peer); got != (subnet.Pair[backend.Tunnels]{}) {
		t.Errorf("got %+v", got)
	}
}

// TestOneDeviceForBothFamiliesHasOneSecond.
func TestOneDeviceForBothFamiliesHasOneSecond(t *testing.T) {
	b, own := rotating(t, `, "Mode": "auto", "PSK": "`+keyText(9)+`", "PersistentKeepaliveInterval": 3`, 1, 1, 1, false)
	peer := peerWith(t, `{"PublicKey":"`+keyText(2)+`","Port":51820}`)
	peer.Second = subnet.Pair[bool]{true, true}
	backendtest.WantLines(t, "the peer", objects(t, b, own, peer),
		"wgpeer "+keyText(2)+" endpoint 192.0.2.2:51820 keepalive 3 psk dev tulle-wg",
		"wgpeer "+keyText(2)+" endpoint 192.0.2.2:51822 keepalive 3 psk dev tulle-wg2",
		"wgallowed 10.5.2.0/24 peer "+keyText(2)+" dev tulle-wg", "wgallowed 10.5.2.0/24 peer "+keyText(2)+" dev tulle-wg2", "route 10.5.2.0/24 dev tulle-wg2",
		"wgallowed fd00:5:0:2::/64 peer "+keyText(2)+" dev tulle-wg", "wgallowed fd00:5:0:2::/64 peer "+keyText(2)+" dev tulle-wg2", "route fd00:5:0:2::/64 dev tulle-wg2")
	if all := b.Tunnels(own, peer); all[0] != all[1] {
		t.Errorf("got %+v", all)
	}
}

// TestHostileOffers are refused as a whole, or lead to nothing.
func TestHostileOffers(t *testing.T) {
	b, own := rotating(t, "", 1, 7, 1, true)
	for name, second := range map[string]string{
		"no key": `{}`, "garbage": `{"PublicKey":"x"}`, "a number": `7`, "own device's": `{"PublicKey":"` + keyText(1) + `"}`, "own successor": `{"PublicKey":"` + keyText(7) + `"}`,
		"port": `{"PublicKey":"` + keyText(2) + `","Port":70000}`,
	} {
		peer := peerWith(t, `{"PublicKey":"`+keyText(2)+`","Port":51820,"Second":`+second+`}`)
		if got, err := b.Peer(own, peer, backend.PlainMetrics); err == nil || len(got) != 0 {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
		if b.Offers(&peer) || b.Tunnels(own, peer) != (subnet.Pair[backend.Tunnels]{}) {
			t.Errorf("%s: it is an offer", name)
		}
	}
	peer := peerWith(t, `{"PublicKey":"`+keyText(2)+`","Port":51820,"Second":null}`)
	if b.Offers(&peer) {
		t.Error("null is an offer")
	}
}

// TestSecondPortsAreFree for every choice of the first ones.
func TestSecondPortsAreFree(t *testing.T) {
	for _, c := range []struct{ four, six, second, second6 uint16 }{
		{51820, 51821, 51822, 51823}, {51823, 51820, 51824, 51825}, {65535, 1, 1024, 1025}, {65534, 65535, 1024, 1025}, {65535, 1024, 1025, 1026}, {65533, 1025, 65534, 65535}, {65535, 1025, 1024, 1026},
	} {
		got := config{ListenPort: c.four, ListenPortV6: c.six}.secondPorts()
		if got != (subnet.Pair[uint16]{c.second, c.second6}) {
			t.Errorf("beside %d and %d: %v", c.four, c.six, got)
		}
	}
}

func TestKeyAge(t *testing.T) {
	for keys, want := range map[string]time.Duration{"": 0, `, "KeyDays": 90`: 90 * 24 * time.Hour, `, "KeyDays": 3650`: 3650 * 24 * time.Hour} {
		if b, _ := rotating(t, keys, 1, 1, 0, false); b.KeyAge() != want {
			t.Errorf("%s: %s", keys, b.KeyAge())
		}
	}
}
