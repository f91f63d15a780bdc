package packet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"
)

// spec is a packet to make.
type spec struct {
	v6, udp  bool
	port     uint16
	sequence uint32
	flags    byte
	id       uint16
	payload  int
	first    byte // of the payload
}

// packet returns a packet with right checksums.
func (s spec) packet() []byte {
	ip := Header{V6: s.v6, Length: header4, Protocol: protocolTCP}
	if s.v6 {
		ip.Length = header6
	}
	transport := make([]byte, 32) // with options
	checksum := 16
	if s.udp {
		ip.Protocol, transport, checksum = protocolUDP, make([]byte, 8), 6
	}
	b := append(make([]byte, ip.Length), transport...)
	for i := range s.payload {
		b = append(b, s.first+byte(i*7))
	}
	if s.v6 {
		b[0], b[6], b[7] = 0x60, ip.Protocol, 64
		from, to := netip.MustParseAddr("fd00:5:0:1::2").As16(), netip.MustParseAddr("fd00:5:0:2::2").As16()
		copy(b[8:], from[:])
		copy(b[24:], to[:])
	} else {
		b[0], b[6], b[8], b[9] = 0x45, 0x40, 64, ip.Protocol
		binary.BigEndian.PutUint16(b[4:], s.id)
		copy(b[12:], []byte{10, 5, 1, 2, 10, 5, 2, 2})
	}
	ip.setLength(b, len(b))
	ip.fixHeader(b)
	t := b[ip.Length:]
	binary.BigEndian.PutUint16(t, s.port)
	binary.BigEndian.PutUint16(t[2:], 80)
	if s.udp {
		binary.BigEndian.PutUint16(t[4:], uint16(len(t)))
	} else {
		binary.BigEndian.PutUint32(t[4:], s.sequence)
		t[12], t[13] = 8<<4, s.flags|ack
		binary.BigEndian.PutUint16(t[14:], 500)
		copy(t[20:], []byte{1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8})
	}
	put(t[checksum:], ^fold(sum(t, uint64(fold(ip.pseudo(b, len(t)))))))
	return b
}

// out is a packet as it comes out of a Merger.
type out struct {
	v VNet
	p []byte
}

// merge returns what a Merger makes of packets, which stay as they are.
func merge(t testing.TB, udp bool, packets ...[]byte) (all []out) {
	t.Helper()
	m := NewMerger(udp, func(v VNet, parts [][]byte) { all = append(all, out{v, slices.Concat(parts...)}) })
	for _, p := range packets {
		p = bytes.Clone(p)
		ip, ok := Parse(p)
		if !ok {
			t.Fatalf("no packet: %x", p)
		}
		m.Add(p, ip)
	}
	m.Flush()
	return all
}

// split returns what a Splitter makes of a packet, or nil if it refuses.
func split(p []byte, v VNet) (all [][]byte) {
	ip, ok := Parse(p)
	if !ok {
		return nil
	}
	var s Splitter
	if !s.Begin(p, ip, v) {
		return nil
	}
	for s.More() {
		headers, payload := s.Next(make([]byte, s.HeaderSize()))
		all = append(all, slices.Concat(headers, payload))
	}
	return all
}
