package kerneltest_test

import (
	"net/netip"
	"strings"
	"testing"

	. "github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	. "github.com/tulle-net/tulle/pkg/netstate"
)

var (
	tunnel = Link{Name: "tulle-wg", Kind: TunnelWireGuard, MTU: 1420, Up: true, WireGuard: WireGuard{Key: PublicKeyOf([32]byte{1}), Port: 51820}}
	peerA  = WGPeer{Link: "tulle-wg", Peer: PublicKeyOf([32]byte{0xa}), Endpoint: netip.MustParseAddrPort("192.0.2.2:51820")}
	peerB  = WGPeer{Link: "tulle-wg", Peer: PublicKeyOf([32]byte{0xb}), Endpoint: netip.MustParseAddrPort("192.0.2.3:51820")}
	toA    = WGAllowed{Link: "tulle-wg", Prefix: pfx("10.1.2.0/24"), Peer: peerA.Peer}
	toB    = WGAllowed{Link: "tulle-wg", Prefix: pfx("10.1.2.0/24"), Peer: peerB.Peer}
	alsoB  = WGAllowed{Link: "tulle-wg", Prefix: pfx("fd00:2::/64"), Peer: peerB.Peer}
)

// TestApplyWireGuard checks what each op changes.
func TestApplyWireGuard(t *testing.T) {
	anywhere := peerA
	anywhere.Endpoint, anywhere.Keepalive = netip.AddrPort{}, 25
	kept := peerA
	kept.Keepalive = 25
	rival := tunnel
	rival.Name = "tulle-wg2"
	onVXLAN := peerA
	onVXLAN.Link = link.Name

	for _, test := range []struct {
		name    string
		before  []Object
		plan    Plan
		refused string
		want    []Object
	}{
		{"all", nil, creates(tunnel, peerA, peerB, toA, alsoB), "", []Object{tunnel, peerA, peerB, toA, alsoB}},
		{"a prefix belongs to one peer and moves", []Object{tunnel, peerA, peerB, toA}, replaces(toB), "", []Object{tunnel, peerA, peerB, toB}},
		{"it can be removed", []Object{tunnel, peerA, toA}, deletes(toB), "", []Object{tunnel, peerA}},
		{"a peer goes with its prefixes", []Object{tunnel, peerA, peerB, toA, alsoB}, deletes(peerB), "", []Object{tunnel, peerA, toA}},
		{"a replaced peer keeps them", []Object{tunnel, peerA, toA}, replaces(kept), "", []Object{tunnel, kept, toA}},
		{"without an endpoint the old one stays", []Object{tunnel, peerA}, replaces(anywhere), "", []Object{tunnel, kept}},
		{"a prefix makes no peer", []Object{tunnel}, creates(toA), "", []Object{tunnel}},
		{"the link takes all along", []Object{tunnel, peerA, toA, eth0}, deletes(tunnel), "", []Object{eth0}},
		{"no link", nil, creates(peerA, toA), peerA.Key().String() + ": no such device; " + toA.Key().String() + ": no such device", nil},
		{"a link of another kind", []Object{link}, creates(onVXLAN), onVXLAN.Key().String() + ": operation not supported", []Object{link}},
		{"one link a port", []Object{tunnel}, creates(rival), "link tulle-wg2: address already in use", []Object{tunnel}},
		{"nothing to delete", []Object{tunnel}, deletes(toA, peerA), "", []Object{tunnel}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := NewFake(test.before...)
			if got := strings.Join(apply(t, f, test.plan), "; "); got != test.refused {
				t.Errorf("refused: %s\nwant:    %s", got, test.refused)
			}
			check(t, f, test.want...)
		})
	}
}

// TestRoam checks that an endpoint that a peer came from stays until we set another.
func TestRoam(t *testing.T) {
	f := NewFake(tunnel)
	if f.Roam(peerA.Key(), peerB.Endpoint) || f.Roam(tunnel.Key(), peerB.Endpoint) {
		t.Error("what is no peer roams")
	}
	apply(t, f, creates(peerA, toA))
	if !f.Roam(peerA.Key(), peerB.Endpoint) {
		t.Error("there is no peer")
	}
	roamed := peerA
	roamed.Endpoint, roamed.Roamed = peerB.Endpoint, true
	check(t, f, tunnel, roamed, toA)
	apply(t, f, replaces(peerA))
	check(t, f, tunnel, roamed, toA)
	moved := peerA
	moved.Endpoint = netip.MustParseAddrPort("192.0.2.9:51820")
	apply(t, f, replaces(moved))
	check(t, f, tunnel, moved, toA)
	if err := f.Put(peerA); err != nil {
		t.Error(err)
	}
	check(t, f, tunnel, peerA, toA)
	if !f.Delete(toA.Key()) || f.Delete(toA.Key()) || !f.Delete(peerA.Key()) || f.Delete(peerA.Key()) {
		t.Error("Delete is wrong")
	}
	check(t, f, tunnel)
}
