package netstate_test

import (
	"net/netip"
	"testing"
	"time"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

// TestRoamedIsWhatThePeerProved checks for endpoints that differ from the one that was
// set whether the peer has roamed, and which endpoint is then set.
func TestRoamedIsWhatThePeerProved(t *testing.T) {
	set, other := netip.MustParseAddrPort("192.0.2.7:51820"), netip.MustParseAddrPort("192.0.2.9:4711")
	now, long := time.Now(), time.Now().Add(-time.Hour)
	for _, test := range []struct {
		name      string
		known     bool
		at        netip.AddrPort
		handshake time.Time
		want      bool
	}{
		{"where it was set", true, set, now, false},
		{"elsewhere after a handshake", true, other, now, true},
		{"long ago", true, other, long, true},
		{"elsewhere without a handshake, so by another program", true, other, time.Time{}, false},
		{"set by an earlier process, in use", false, other, now, true},
		{"set by an earlier process, out of use", false, other, long, false},
		{"set by an earlier process, never in use", false, other, time.Time{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := WGPeer{Link: "tulle-wg", Peer: peerKey(2), Endpoint: test.at}
			wanted := p
			wanted.Endpoint = set
			var e Endpoints
			if test.known {
				e.Record(Create, wanted, e.ToSet(Create, wanted))
			}
			if e.Note(&p, test.handshake); p.Roamed != test.want {
				t.Errorf("roamed: %t", p.Roamed)
			}
			kept := test.known && test.want // an endpoint that was set before
			if at := e.ToSet(Replace, wanted); at.IsValid() == kept {
				t.Errorf("sets %s", at)
			}
			moved := wanted
			moved.Endpoint = netip.MustParseAddrPort("192.0.2.8:1")
			if at := e.ToSet(Replace, moved); at != moved.Endpoint {
				t.Errorf("sets %s, not a new endpoint", at)
			}
			e.Forget("other")
			if at := e.ToSet(Replace, wanted); at.IsValid() == kept {
				t.Errorf("without another link's it sets %s", at)
			}
			if e.Forget("tulle-wg"); e.ToSet(Replace, wanted) != set {
				t.Error("it remembers a peer that is gone")
			}
		})
	}
}

// TestEndpointOfADeletedPeerIsForgotten deletes a peer that had roamed.
func TestEndpointOfADeletedPeerIsForgotten(t *testing.T) {
	p := WGPeer{Link: "tulle-wg", Peer: peerKey(2), Endpoint: netip.MustParseAddrPort("192.0.2.7:51820")}
	var e Endpoints
	e.Record(Create, p, p.Endpoint)
	is := p
	is.Endpoint = netip.MustParseAddrPort("192.0.2.9:4711")
	if e.Note(&is, time.Now()); e.ToSet(Replace, p).IsValid() {
		t.Error("it has not roamed")
	}
	e.Record(Delete, p, netip.AddrPort{})
	if e.ToSet(Replace, p) != p.Endpoint {
		t.Error("it remembers a peer that is gone")
	}
}
