package netstate_test

import (
	"encoding/base64"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

func peerKey(first byte) PublicKey { return PublicKeyOf([32]byte{first}) }

func wg(name string) Link {
	return Link{Name: name, Kind: TunnelWireGuard, MTU: 1420, Group: Mark, Up: true, WireGuard: WireGuard{Key: peerKey(1), Port: 51820}}
}

// TestSizesOfWhatThereAreManyOf: a network of 10,000 peers has some of these for each.
func TestSizesOfWhatThereAreManyOf(t *testing.T) {
	for what, size := range map[string][2]uintptr{
		"Key":       {unsafe.Sizeof(Key{}), 64},
		"Neigh":     {unsafe.Sizeof(Neigh{}), 48},
		"FDB":       {unsafe.Sizeof(FDB{}), 48},
		"Route":     {unsafe.Sizeof(Route{}), 128},
		"WGPeer":    {unsafe.Sizeof(WGPeer{}), 80},
		"WGAllowed": {unsafe.Sizeof(WGAllowed{}), 64},
		"UDPPeer":   {unsafe.Sizeof(UDPPeer{}), 80},
	} {
		if size[0] > size[1] {
			t.Errorf("%s has %d bytes, more than %d", what, size[0], size[1])
		}
	}
}

func TestParsePublicKey(t *testing.T) {
	text := "AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	k, err := ParsePublicKey(text)
	if err != nil || k != peerKey(1) || k.String() != text || k.Bytes() != [32]byte{1} || k.IsZero() {
		t.Errorf("got %s, %v", k, err)
	}
	zeros := base64.StdEncoding.EncodeToString(make([]byte, 32))
	for _, s := range []string{
		"", zeros, text[:43], text + "=", text + "\n", "\n" + text, " " + text[1:], strings.Repeat("A", 44), strings.Repeat("A", 42) + "==",
		"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAB=", // more bits than a key has
		"AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA_AAA=",
		text[:20] + "\r\n" + text[22:], text + text,
	} {
		if k, err := ParsePublicKey(s); !errors.Is(err, ErrPublicKey) || !k.IsZero() {
			t.Errorf("%q: got %s, %v", s, k, err)
		}
	}
	if !PublicKeyOf([32]byte{}).IsZero() || (PublicKey{}).Bytes() != [32]byte{} {
		t.Error("zeros are a key")
	}
}

func FuzzParsePublicKey(f *testing.F) {
	f.Add("AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	f.Fuzz(func(t *testing.T, s string) {
		if k, err := ParsePublicKey(s); err == nil && k.String() != s {
			t.Errorf("%q becomes %s", s, k)
		}
	})
}

func TestPSKOfDisclosesNothing(t *testing.T) {
	a, b := [32]byte{1}, [32]byte{31: 1}
	if PSKOf(a) == PSKOf(b) || PSKOf(a) == 0 || PSKOf([32]byte{}) != 0 {
		t.Errorf("got %d, %d and %d", PSKOf(a), PSKOf(b), PSKOf([32]byte{}))
	}
	if s := (WGPeer{PSK: PSKOf(a)}).String(); s != (WGPeer{PSK: PSKOf(b)}).String() {
		t.Errorf("a peer's text depends on its preshared key: %s", s)
	}
}

// TestDiffOfWireGuard checks the plan for each kind of difference of peers.
func TestDiffOfWireGuard(t *testing.T) {
	at := netip.MustParseAddrPort
	link := wg("tulle-wg")
	peer := WGPeer{Link: link.Name, Peer: peerKey(2), Endpoint: at("192.0.2.2:51820")}
	allowed := WGAllowed{link.Name, pfx("10.1.2.0/24"), peer.Peer}
	route := Route{Dst: allowed.Prefix, Link: link.Name}
	all := []Object{link, peer, allowed, route}
	with := func(change func(*WGPeer)) WGPeer {
		p := peer
		change(&p)
		return p
	}
	anywhere := with(func(p *WGPeer) { p.Endpoint = netip.AddrPort{} })
	elsewhere := with(func(p *WGPeer) { p.Endpoint = at("192.0.2.9:7") })
	roamed := with(func(p *WGPeer) { p.Endpoint, p.Roamed = at("192.0.2.9:7"), true })
	rekeyed := with(func(p *WGPeer) { p.Peer = peerKey(3) })
	moved := allowed
	moved.Peer = rekeyed.Peer
	relinked := link
	relinked.WireGuard.Key, relinked.WireGuard.Port = peerKey(9), 51999
	old, next := peer.Peer.String(), rekeyed.Peer.String()

	for _, test := range []struct {
		name            string
		desired, actual []Object
		want            string
	}{
		{"in sync", all, all, ""},
		{"from nothing, each after what it needs", all, nil, "create " + link.String() + "\ncreate " + peer.String() + "\ncreate " + allowed.String() + "\ncreate " + route.String()},
		{"a peer goes, in reverse", []Object{link}, all, "delete " + route.String() + "\ndelete " + allowed.String() + "\ndelete " + peer.String()},
		{"the link goes with all that is on it", nil, all, "delete " + link.String()},
		{"a subnet moves in one step", []Object{link, peer, rekeyed, moved, route}, []Object{link, peer, rekeyed, allowed, route},
			"replace wgallowed 10.1.2.0/24 peer " + next + " dev tulle-wg"},
		{"a new key: the old one goes at last", []Object{link, rekeyed, moved, route}, all,
			"create " + rekeyed.String() + "\nreplace wgallowed 10.1.2.0/24 peer " + next + " dev tulle-wg\ndelete wgpeer " + old + " endpoint 192.0.2.2:51820 dev tulle-wg"},
		{"what has roamed stays", all, []Object{link, roamed, allowed, route}, ""},
		{"but gets its preshared key", []Object{link, with(func(p *WGPeer) { p.PSK = 1 })}, []Object{link, roamed}, "replace wgpeer " + old + " endpoint 192.0.2.2:51820 psk dev tulle-wg"},
		{"what others have set does not", all, []Object{link, elsewhere, allowed, route}, "replace " + peer.String()},
		{"without an endpoint any will do", []Object{link, anywhere}, []Object{link, elsewhere}, ""},
		{"a device's key and port change in place", []Object{relinked, peer, allowed, route}, all, "replace " + relinked.String()},
		{"a strange device's are what is to be there", all, []Object{relinked, peer, allowed, route}, "replace " + link.String()},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := strings.TrimSuffix(Diff(Of(test.desired...), test.actual).String(), "\n"); got != test.want {
				t.Errorf("got:\n%s\nwant:\n%s", got, test.want)
			}
		})
	}
}
