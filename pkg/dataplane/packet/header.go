package packet

import "encoding/binary"

// The transport protocols that this package knows, by their IP numbers.
const (
	protocolICMP   = 1
	protocolTCP    = 6
	protocolUDP    = 17
	protocolICMPv6 = 58
)

const (
	header4 = 20 // without options
	header6 = 40
)

// Header is what the IP header of a packet says.
type Header struct {
	V6       bool
	Length   int   // of the header; over IPv6, without extension headers
	Protocol uint8 // that follows the header
	Fragment bool  // a part of a packet; over IPv6, extension headers may hide that
}

// Parse reads the header of a packet, which must have exactly the length that it claims.
func Parse(p []byte) (h Header, ok bool) { return ParseStart(p, len(p)) }

// ParseStart is like Parse for a packet of which p is only the start. It needs the whole header.
func ParseStart(p []byte, length int) (h Header, ok bool) {
	if len(p) < header4 {
		return h, false
	}
	switch p[0] >> 4 {
	case 4:
		h.Length, h.Protocol = int(p[0]&0xf)*4, p[9]
		h.Fragment = binary.BigEndian.Uint16(p[6:])&0x3fff != 0
		return h, h.Length >= header4 && h.Length <= len(p) && int(binary.BigEndian.Uint16(p[2:])) == length
	case 6:
		h.V6, h.Length = true, header6
		if len(p) < header6 {
			return h, false
		}
		h.Protocol = p[6]
		return h, int(binary.BigEndian.Uint16(p[4:]))+header6 == length
	}
	return h, false
}

// Addr is an address as two numbers, that of IPv4 in the lower half of the second.
type Addr struct{ High, Low uint64 }

// Addresses returns a packet's source and destination.
func (h Header) Addresses(p []byte) (source, destination Addr) {
	if h.V6 {
		return addr6(p[8:]), addr6(p[24:])
	}
	return Addr{Low: uint64(binary.BigEndian.Uint32(p[12:]))}, Addr{Low: uint64(binary.BigEndian.Uint32(p[16:]))}
}

func addr6(b []byte) Addr {
	return Addr{binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])}
}

// Age takes one hop from what a packet may still go. It reports whether any is left.
func (h Header) Age(p []byte) bool {
	at := &p[8]
	if h.V6 {
		at = &p[7]
	}
	if *at <= 1 {
		return false
	}
	*at--
	if !h.V6 {
		// RFC 1624 says how the checksum changes.
		c := uint32(binary.BigEndian.Uint16(p[10:])) + 0x100
		binary.BigEndian.PutUint16(p[10:], uint16(c+c>>16))
	}
	return true
}

// setLength sets the length of the packet that begins with p.
func (h Header) setLength(p []byte, length int) {
	if h.V6 {
		binary.BigEndian.PutUint16(p[4:], uint16(length-header6))
		return
	}
	binary.BigEndian.PutUint16(p[2:], uint16(length))
}

// transportLength returns the length of the header after h, or 0 if it is none of TCP's or
// UDP's, or is not whole.
func (h Header) transportLength(p []byte) int {
	t := p[h.Length:]
	length := 0
	switch {
	case h.Protocol == protocolTCP && len(t) >= 20:
		length = int(t[12]>>4) * 4
		if length < 20 {
			return 0
		}
	case h.Protocol == protocolUDP && len(t) >= 8:
		length = 8
	}
	if length > len(t) {
		return 0
	}
	return length
}
