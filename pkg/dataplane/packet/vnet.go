package packet

import "encoding/binary"

// VNetSize is the size of the header that a TUN device with IFF_VNET_HDR puts before each
// packet.
const VNetSize = 10

// VNet is that header, from linux/virtio_net.h: what the sender of a packet has left to
// the device to do.
type VNet struct {
	NeedsChecksum bool
	Kind          uint8  // of a packet to split
	HeaderLength  uint16 // of all headers
	SegmentSize   uint16 // of a segment's payload
	ChecksumStart uint16 // where the checksum begins to count
	ChecksumAt    uint16 // where it belongs, from ChecksumStart
}

// The kinds of packets to split.
const (
	Whole uint8 = 0 // not to split
	TCP4  uint8 = 1
	TCP6  uint8 = 4
	UDP   uint8 = 5

	ecn = 0x80 // a bit beside a kind of TCP: the first segment alone says that the window shrank
)

const needsChecksum = 1

// ReadVNet reads the header, in the byte order of this processor.
func ReadVNet(b *[VNetSize]byte) VNet {
	n := binary.NativeEndian
	return VNet{
		NeedsChecksum: b[0]&needsChecksum != 0, Kind: b[1] &^ ecn,
		HeaderLength: n.Uint16(b[2:]), SegmentSize: n.Uint16(b[4:]),
		ChecksumStart: n.Uint16(b[6:]), ChecksumAt: n.Uint16(b[8:]),
	}
}

// Write writes the header.
func (v VNet) Write(b *[VNetSize]byte) {
	n := binary.NativeEndian
	b[0], b[1] = 0, v.Kind
	if v.NeedsChecksum {
		b[0] = needsChecksum
	}
	n.PutUint16(b[2:], v.HeaderLength)
	n.PutUint16(b[4:], v.SegmentSize)
	n.PutUint16(b[6:], v.ChecksumStart)
	n.PutUint16(b[8:], v.ChecksumAt)
}

// Complete computes the checksum that the sender has left out of p, whose IP header is ip.
// It reports whether there is room for it behind that header.
func (v VNet) Complete(p []byte, ip Header) bool {
	if !v.NeedsChecksum {
		return true
	}
	from, at := int(v.ChecksumStart), int(v.ChecksumStart)+int(v.ChecksumAt)
	if from < ip.Length || from >= len(p) || at+2 > len(p) {
		return false
	}
	// What is there is the sum of the pseudo-header.
	checksum := ^fold(sum(p[from:], 0))
	if checksum == 0 && v.ChecksumAt == 6 {
		checksum = 0xffff // in UDP, 0 means that there is none
	}
	put(p[at:], checksum)
	return true
}
