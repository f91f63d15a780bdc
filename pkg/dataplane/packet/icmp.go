package packet

import (
	"encoding/binary"
	"net/netip"
)

// Complaint is why a packet was not delivered, for its sender.
type Complaint uint8

const (
	NoRoute Complaint = iota // no host has the destination
	Expired                  // it went too far
)

// MaxComplaint is the size of the largest message that Complain makes.
const MaxComplaint = 576

// types are a Complaint's ICMP type and code, over IPv4 and IPv6. flannel's proxy says
// that the network is unreachable, too.
var types = [...][2][2]byte{
	NoRoute: {{3, 0}, {1, 0}},
	Expired: {{11, 0}, {3, 0}},
}

// Complain writes an ICMP message about p to space, which needs MaxComplaint bytes. It
// returns nil if there must be none: about a later fragment, about another ICMP error, or
// to an address that is no single host's.
func (h Header) Complain(why Complaint, p []byte, from netip.Addr, space []byte) []byte {
	if !from.IsValid() || from.Is4() == h.V6 || !h.mayComplain(p) {
		return nil
	}
	quoted := min(len(p), MaxComplaint-header6-8)
	if h.V6 {
		return h.complain6(why, p[:quoted], from, space)
	}
	return h.complain4(why, p[:quoted], from, space)
}

func (h Header) mayComplain(p []byte) bool {
	var sender, receiver netip.Addr
	t := p[h.Length:]
	if h.V6 {
		sender, receiver = netip.AddrFrom16([16]byte(p[8:24])), netip.AddrFrom16([16]byte(p[24:40]))
		if h.Protocol == protocolICMPv6 && (len(t) == 0 || t[0] < 128) {
			return false
		}
	} else {
		sender, receiver = netip.AddrFrom4([4]byte(p[12:16])), netip.AddrFrom4([4]byte(p[16:20]))
		if binary.BigEndian.Uint16(p[6:])&0x1fff != 0 {
			return false
		}
		const echo, timestamp = 8, 13
		if h.Protocol == protocolICMP && (len(t) == 0 || t[0] != echo && t[0] != timestamp) {
			return false
		}
	}
	return sender.IsGlobalUnicast() && receiver.IsGlobalUnicast()
}

func (h Header) complain4(why Complaint, quoted []byte, from netip.Addr, space []byte) []byte {
	m := space[:header4+8+len(quoted)]
	clear(m[:header4+8])
	m[0], m[8], m[9] = 0x45, 64, protocolICMP
	binary.BigEndian.PutUint16(m[2:], uint16(len(m)))
	source := from.As4()
	copy(m[12:], source[:])
	copy(m[16:20], quoted[12:16])
	icmp := m[header4:]
	icmp[0], icmp[1] = types[why][0][0], types[why][0][1]
	copy(icmp[8:], quoted)
	put(icmp[2:], ^fold(sum(icmp, 0)))
	Header{Length: header4}.fixHeader(m)
	return m
}

func (h Header) complain6(why Complaint, quoted []byte, from netip.Addr, space []byte) []byte {
	m := space[:header6+8+len(quoted)]
	clear(m[:header6+8])
	m[0], m[6], m[7] = 0x60, protocolICMPv6, 64
	binary.BigEndian.PutUint16(m[4:], uint16(len(m)-header6))
	source := from.As16()
	copy(m[8:], source[:])
	copy(m[24:40], quoted[8:24])
	icmp := m[header6:]
	icmp[0], icmp[1] = types[why][1][0], types[why][1][1]
	copy(icmp[8:], quoted)
	is := Header{V6: true, Length: header6, Protocol: protocolICMPv6}
	put(icmp[2:], ^fold(sum(icmp, is.pseudo(m, len(icmp)))))
	return m
}
