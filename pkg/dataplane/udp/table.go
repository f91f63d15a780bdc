package udp

import (
	"cmp"
	"encoding/binary"
	"net/netip"
	"sort"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

// table says where packets go, and who may send any. It never changes, so that queues
// read it without a lock.
type table struct {
	entries   []entry // by their first address, the larger network first
	endpoints []endpoint
	hosts     map[packet.Addr]struct{}
}

// entry is a network and its endpoint.
type entry struct {
	span
	endpoint int32
	around   int32 // the smallest network that contains this one, or negative
}

// newTable makes a table of networks and the endpoints that packets to them go to.
func newTable(peers map[netip.Prefix]netip.AddrPort) *table {
	prefixes := make([]netip.Prefix, 0, len(peers))
	for p := range peers {
		prefixes = append(prefixes, p)
	}
	sort.Slice(prefixes, func(i, j int) bool {
		a, b := prefixes[i], prefixes[j]
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits())) < 0
	})
	t := &table{hosts: make(map[packet.Addr]struct{}, len(peers))}
	known := make(map[netip.AddrPort]int32, len(peers))
	for _, p := range prefixes {
		at := peers[p]
		index, ok := known[at]
		if !ok {
			index = int32(len(t.endpoints))
			known[at] = index
			t.endpoints = append(t.endpoints, newEndpoint(at))
			t.hosts[addrOf(at.Addr())] = struct{}{}
		}
		e := entry{span: spanOf(p), endpoint: index, around: int32(len(t.entries)) - 1}
		for e.around >= 0 && less(t.entries[e.around].last, e.first) {
			e.around = t.entries[e.around].around
		}
		t.entries = append(t.entries, e)
	}
	return t
}

// find returns the endpoint of an address, or nil.
func (t *table) find(a packet.Addr) *endpoint {
	// The last network that begins no later, or one around it.
	at := int32(sort.Search(len(t.entries), func(i int) bool { return less(a, t.entries[i].first) })) - 1
	for at >= 0 {
		e := &t.entries[at]
		if !less(e.last, a) {
			return &t.endpoints[e.endpoint]
		}
		at = e.around
	}
	return nil
}

// knows reports whether a host is one of a peer's.
func (t *table) knows(host packet.Addr) bool {
	_, ok := t.hosts[host]
	return ok
}

// elsewhere reports whether an address belongs to another host: packets to it go there.
func (t *table) elsewhere(host, a packet.Addr) bool {
	e := t.find(a)
	return e != nil && e.host != host
}

// span is the addresses of a network.
type span struct{ first, last packet.Addr }

func spanOf(p netip.Prefix) span { return span{addrOf(p.Addr()), lastOf(p)} }

func (s span) contains(a packet.Addr) bool { return !less(a, s.first) && !less(s.last, a) }

// routable reports whether an address can be that of a host, and packets from it cross
// networks.
func routable(a packet.Addr, v6 bool) bool {
	if v6 {
		const linkLocal, multicast = 0xfe80 >> 6, 0xff
		return a.High != 0 && a.High>>54 != linkLocal && a.High>>56 != multicast
	}
	first := a.Low >> 24
	return first != 0 && first != 127 && first < 224
}

// multicast reports whether an address is that of a group.
func multicast(a packet.Addr, v6 bool) bool {
	if v6 {
		return a.High>>56 == 0xff
	}
	return a.Low>>28 == 0xe
}

func less(a, b packet.Addr) bool {
	return a.High < b.High || a.High == b.High && a.Low < b.Low
}

func addrOf(ip netip.Addr) packet.Addr {
	if ip.Is4() {
		b := ip.As4()
		return packet.Addr{Low: uint64(binary.BigEndian.Uint32(b[:]))}
	}
	b := ip.As16()
	return packet.Addr{High: binary.BigEndian.Uint64(b[:]), Low: binary.BigEndian.Uint64(b[8:])}
}

// lastOf returns the last address of a network.
func lastOf(p netip.Prefix) packet.Addr {
	a := addrOf(p.Addr())
	switch host := p.Addr().BitLen() - p.Bits(); {
	case host >= 64:
		a.High |= 1<<(host-64) - 1
		a.Low = 1<<64 - 1
	default:
		a.Low |= 1<<host - 1
	}
	return a
}
