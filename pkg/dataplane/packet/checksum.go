package packet

import (
	"encoding/binary"
	"math/bits"
)

// blockSize is how many bytes sumBlocks adds at once.
const blockSize = 64

// sum adds the bytes of b to an Internet checksum. The words are in little-endian order on
// every processor, which only exchanges the bytes of the result. All parts of one checksum
// but the last need an even length.
func sum(b []byte, total uint64) uint64 {
	if n := len(b) / blockSize; n > 0 && hasBlocks {
		blocks, carry := bits.Add64(total, sumBlocks(&b[0], n), 0)
		return sumWords(b[n*blockSize:], blocks+carry)
	}
	return sumWords(b, total)
}

// sumWords is sum for every processor.
func sumWords(b []byte, total uint64) uint64 {
	var carry uint64
	for len(b) >= 64 {
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b), carry)
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b[8:]), carry)
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b[16:]), carry)
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b[24:]), carry)
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b[32:]), carry)
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b[40:]), carry)
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b[48:]), carry)
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b[56:]), carry)
		b = b[64:]
	}
	for len(b) >= 8 {
		total, carry = bits.Add64(total, binary.LittleEndian.Uint64(b), carry)
		b = b[8:]
	}
	var rest uint64
	for i := len(b) - 1; i >= 0; i-- {
		rest = rest<<8 | uint64(b[i])
	}
	total, carry = bits.Add64(total, rest, carry)
	total, carry = bits.Add64(total, 0, carry)
	return total + carry
}

// fold turns a sum into the 16 bits of a checksum, which is not yet inverted.
func fold(total uint64) uint16 {
	total = total>>32 + total&0xffffffff
	total = total>>32 + total&0xffffffff
	total = total>>16 + total&0xffff
	total = total>>16 + total&0xffff
	return uint16(total)
}

// put writes a checksum.
func put(b []byte, checksum uint16) { binary.LittleEndian.PutUint16(b, checksum) }

// pseudo returns the sum of the pseudo-header of a transport packet of length bytes. It
// needs a header that Parse has accepted.
func (h Header) pseudo(p []byte, length int) uint64 {
	addresses := p[12:20]
	if h.V6 {
		addresses = p[8:40]
	}
	return sum(addresses, uint64(h.Protocol)<<8+uint64(bits.ReverseBytes16(uint16(length))))
}

// fixHeader computes the checksum of an IPv4 header.
func (h Header) fixHeader(p []byte) {
	if h.V6 {
		return
	}
	put(p[10:], 0)
	put(p[10:], ^fold(sum(p[:h.Length], 0)))
}
