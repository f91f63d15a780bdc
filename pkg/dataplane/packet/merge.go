package packet

import (
	"bytes"
	"encoding/binary"
)

// MaxMerged is how many packets become one at most, which is what kernels accept.
const MaxMerged = 64

const maxPacket = 65535

// Merger merges packets that follow each other in one flow into large ones. A packet
// whose checksums are wrong it passes on as it is. The packets given to it must stay as
// they are until Flush.
type Merger struct {
	// Out takes each packet that results: its parts, in order.
	Out func(v VNet, parts [][]byte)
	// UDP says that the device takes packets that stand for many of UDP.
	UDP bool

	parts    [][]byte // the first packet, and the payloads of those that joined it
	ip       Header
	start    int // of the transport header
	headers  int
	size     int // of the first payload
	length   int // of the whole
	sequence uint32
	verified bool // the first packet's checksums are right
	closed   bool // nothing can join any more
}

// NewMerger returns a Merger with room for what it holds.
func NewMerger(udp bool, out func(VNet, [][]byte)) *Merger {
	return &Merger{Out: out, UDP: udp, parts: make([][]byte, 0, MaxMerged)}
}

// Add takes a packet, whose IP header is ip.
func (m *Merger) Add(p []byte, ip Header) {
	headers, ok := m.fits(p, ip)
	if !ok {
		m.Flush()
		m.parts = append(m.parts, p)
		m.closed = true
		m.Flush()
		return
	}
	if len(m.parts) > 0 && m.join(p, ip, headers) {
		return
	}
	m.Flush()
	m.parts = append(m.parts, p)
	m.ip, m.start, m.headers = ip, ip.Length, headers
	m.size, m.length = len(p)-headers, len(p)
	m.verified, m.closed = false, false
	if ip.Protocol == protocolTCP {
		m.sequence = binary.BigEndian.Uint32(p[ip.Length+4:]) + uint32(m.size)
		m.closed = p[ip.Length+13]&psh != 0
	}
}

// fits reports whether a packet is of a kind that can be merged, and the size of its
// headers.
func (m *Merger) fits(p []byte, ip Header) (headers int, ok bool) {
	if ip.Fragment || !ip.V6 && ip.Length != header4 {
		return 0, false
	}
	if !ip.V6 && p[6]&0x80 != 0 {
		return 0, false // a reserved bit
	}
	t := p[ip.Length:]
	switch length := ip.transportLength(p); {
	case length == 0:
		return 0, false
	case ip.Protocol == protocolTCP:
		headers = ip.Length + length
		ok = t[13]&^psh == ack && binary.BigEndian.Uint16(t[18:]) == 0
	default:
		headers = ip.Length + length
		// Without a checksum, the device could not say that it is left out.
		ok = m.UDP && int(binary.BigEndian.Uint16(t[4:])) == len(t) && (t[6] != 0 || t[7] != 0)
	}
	return headers, ok && headers < len(p)
}

// join reports whether p became a part of what m holds.
func (m *Merger) join(p []byte, ip Header, headers int) bool {
	first, size := m.parts[0], len(p)-headers
	switch {
	case m.closed || len(m.parts) == MaxMerged || m.length+size > maxPacket:
		return false
	case ip != m.ip || headers != m.headers || size > m.size:
		return false
	case !m.follows(first, p):
		return false
	}
	if !m.verified {
		if !right(first, m.ip) {
			m.closed = true
			return false
		}
		m.verified = true
	}
	if !right(p, ip) {
		return false
	}
	m.parts = append(m.parts, p[headers:])
	m.length += size
	m.closed = size < m.size
	if ip.Protocol == protocolTCP {
		m.sequence += uint32(size)
		if p[ip.Length+13]&psh != 0 {
			first[ip.Length+13] |= psh
			m.closed = true
		}
	}
	return true
}

// follows reports whether p is the next packet of the first one's flow.
func (m *Merger) follows(first, p []byte) bool {
	if m.ip.V6 {
		// All but the length.
		if !bytes.Equal(first[:4], p[:4]) || !bytes.Equal(first[6:header6], p[6:header6]) {
			return false
		}
	} else {
		// All but length, identification and checksum.
		if first[1] != p[1] || !bytes.Equal(first[6:10], p[6:10]) || !bytes.Equal(first[12:header4], p[12:header4]) {
			return false
		}
		// The packets that it is split into again get consecutive identifications.
		if binary.BigEndian.Uint16(p[4:]) != binary.BigEndian.Uint16(first[4:])+uint16(len(m.parts)) && p[6]&0x40 == 0 {
			return false
		}
	}
	a, b := first[m.start:m.headers], p[m.start:m.headers]
	if m.ip.Protocol == protocolUDP {
		return bytes.Equal(a[:4], b[:4])
	}
	return bytes.Equal(a[:4], b[:4]) && binary.BigEndian.Uint32(b[4:]) == m.sequence &&
		bytes.Equal(a[8:13], b[8:13]) && bytes.Equal(a[14:16], b[14:16]) && bytes.Equal(a[20:], b[20:])
}

// right reports whether the checksums of a packet are.
func right(p []byte, ip Header) bool {
	if !ip.V6 && fold(sum(p[:ip.Length], 0)) != 0xffff {
		return false
	}
	t := p[ip.Length:]
	return fold(sum(t, uint64(fold(ip.pseudo(p, len(t)))))) == 0xffff
}

// Flush passes on what m holds.
func (m *Merger) Flush() {
	if len(m.parts) == 0 {
		return
	}
	var v VNet
	if len(m.parts) > 1 {
		v = m.seal()
	}
	m.Out(v, m.parts)
	clear(m.parts)
	m.parts = m.parts[:0]
}

// seal makes the headers of the first packet those of the whole.
func (m *Merger) seal() VNet {
	first := m.parts[0]
	v := VNet{
		NeedsChecksum: true, Kind: UDP, HeaderLength: uint16(m.headers), SegmentSize: uint16(m.size),
		ChecksumStart: uint16(m.start), ChecksumAt: 6,
	}
	if m.ip.Protocol == protocolTCP {
		v.Kind, v.ChecksumAt = TCP4, 16
		if m.ip.V6 {
			v.Kind = TCP6
		}
	} else {
		binary.BigEndian.PutUint16(first[m.start+4:], uint16(m.length-m.start))
	}
	m.ip.setLength(first, m.length)
	m.ip.fixHeader(first)
	put(first[m.start+int(v.ChecksumAt):], fold(m.ip.pseudo(first, m.length-m.start)))
	return v
}
