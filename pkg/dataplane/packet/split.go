package packet

import (
	"encoding/binary"
	"math/bits"
)

// MaxHeaders is the most that all headers of a packet to split may take.
const MaxHeaders = 256

// Splitter splits a packet that stands for many. The zero Splitter has nothing to split.
type Splitter struct {
	p        []byte // its start, with all headers
	length   int
	ip       Header
	start    int // of the transport header
	headers  int // the size of all headers
	size     int // of a segment's payload
	next     int // where the next payload begins
	count    uint16
	base     uint64 // the sum of the pseudo-header without the length
	tcp      bool
	flags    byte   // of TCP
	sequence uint32 // of TCP
}

// Bits of TCP's flags.
const (
	fin = 1
	syn = 2
	rst = 4
	psh = 8
	ack = 16
	cwr = 128
)

// Begin begins to split p, whose IP header is ip. It reports whether that is possible.
func (s *Splitter) Begin(p []byte, ip Header, v VNet) bool { return s.BeginAt(p, len(p), ip, v) }

// BeginAt begins to split a packet of which p is only the start, for Segment. It also returns false
// if p lacks a part of the headers.
func (s *Splitter) BeginAt(p []byte, length int, ip Header, v VNet) bool {
	ok := s.begin(p, length, ip, v)
	if !ok {
		*s = Splitter{}
	}
	return ok
}

func (s *Splitter) begin(p []byte, length int, ip Header, v VNet) bool {
	start := int(v.ChecksumStart)
	*s = Splitter{p: p, length: length, ip: ip, start: start, size: int(v.SegmentSize), tcp: v.Kind != UDP}
	if s.size == 0 || ip.Fragment || start < ip.Length || start > len(p) {
		return false
	}
	switch {
	case v.Kind == UDP:
	case v.Kind == TCP4 && !ip.V6, v.Kind == TCP6 && ip.V6:
	default:
		return false
	}
	// Extension headers may stand between.
	protocol := uint8(protocolUDP)
	if s.tcp {
		protocol = protocolTCP
	}
	if start == ip.Length && ip.Protocol != protocol || start != ip.Length && !ip.V6 {
		return false
	}
	transport := Header{V6: ip.V6, Length: start, Protocol: protocol}
	own := transport.transportLength(p)
	s.headers = start + own
	if own == 0 || s.headers > MaxHeaders || s.headers >= length {
		return false
	}
	s.next = s.headers
	s.base = uint64(fold(transport.pseudo(p, 0)))
	if s.tcp {
		s.flags, s.sequence = p[start+13], binary.BigEndian.Uint32(p[start+4:])
	}
	return true
}

// More reports whether Next has another segment.
func (s *Splitter) More() bool { return s.next < s.length }

// HeaderSize returns how many bytes the headers of each segment take.
func (s *Splitter) HeaderSize() int { return s.headers }

// Segments returns how many segments there are in all.
func (s *Splitter) Segments() int { return (s.length - s.headers + s.size - 1) / s.size }

// Move says that the start of the packet, with all headers, is now at p.
func (s *Splitter) Move(p []byte) { s.p = p }

// Next returns the next segment. It writes its headers to space, which needs HeaderSize
// bytes. The payload is that of the packet.
func (s *Splitter) Next(space []byte) (headers, payload []byte) {
	payload = s.p[s.next:s.end()]
	return s.Segment(space, payload), payload
}

// end returns where the payload of the next segment ends.
func (s *Splitter) end() int { return min(s.next+s.size, s.length) }

// PayloadSize returns how many bytes the payload of the next segment has.
func (s *Splitter) PayloadSize() int { return s.end() - s.next }

// Segment returns the headers of the next segment, like Next. The payload, of PayloadSize bytes, is
// not with the start of the packet.
func (s *Splitter) Segment(space, payload []byte) (headers []byte) {
	end := s.end()
	headers = space[:s.headers]
	copy(headers, s.p)
	transport := headers[s.start:]
	length := len(transport) + len(payload)
	at := 6
	if s.tcp {
		at = 16
		offset := s.next - s.headers
		binary.BigEndian.PutUint32(transport[4:], s.sequence+uint32(offset))
		flags := s.flags
		if offset > 0 {
			flags &^= cwr
		}
		if end < s.length {
			flags &^= fin | psh
		}
		transport[13] = flags
	} else {
		binary.BigEndian.PutUint16(transport[4:], uint16(length))
	}
	put(transport[at:], 0)
	checksum := ^fold(sum(payload, sum(transport, s.base+uint64(bits.ReverseBytes16(uint16(length))))))
	if checksum == 0 && !s.tcp {
		checksum = 0xffff
	}
	put(transport[at:], checksum)
	s.ip.setLength(headers, s.headers+len(payload))
	if !s.ip.V6 {
		binary.BigEndian.PutUint16(headers[4:], binary.BigEndian.Uint16(s.p[4:])+s.count)
		s.ip.fixHeader(headers)
	}
	s.count++
	s.next = end
	return headers
}
