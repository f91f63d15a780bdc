package probe

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// cover is the smallest set of the form "these bits have these values" that
// contains all addresses of one family that were added to it. A socket filter tests
// it at the same cost for one peer and for 50,000. The peers' addresses are the
// first of their subnets, so hardly any container's address is in it.
type cover struct {
	size  int // bytes of an address; 0 while no address was added
	value [16]byte
	mask  [16]byte // the bits that all addresses have in common
}

// add adds an address, and reports whether c grew.
func (c *cover) add(ip netip.Addr) (grew bool) {
	b := ip.AsSlice()
	if c.size == 0 {
		*c = cover{size: len(b)}
		copy(c.value[:], b)
		for i := range b {
			c.mask[i] = 0xff
		}
		return true
	}
	for i, v := range b {
		common := c.mask[i] &^ (v ^ c.value[i])
		grew = grew || common != c.mask[i]
		c.mask[i] = common
		c.value[i] &= common
	}
	return grew
}

const drop, accept = 0, math.MaxUint32 // what a socket filter returns

// A filter of a UDP socket sees the packet from its UDP header on, and the IP
// header at an offset of its own, SKF_NET_OFF of linux/filter.h.
const (
	udpHeader = 8
	netHeader = 1<<32 - 0x100000
)

// steps are the steps of a filter. Each test leads to the end unless it holds, so
// that a packet that is shorter than a test expects is dropped, too.
type steps []bpf.Instruction

// must appends a test: the word at offset, with the bits of mask alone, is value.
func (s *steps) must(offset, mask, value uint32) {
	*s = append(*s, bpf.LoadAbsolute{Off: offset, Size: 4})
	if mask != math.MaxUint32 {
		*s = append(*s, bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: mask})
	}
	*s = append(*s, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: 1}, bpf.RetConstant{Val: drop})
}

// mustBeOf appends the test that the source is in c.
func (s *steps) mustBeOf(c cover) {
	if c.size == 0 {
		*s = append(*s, bpf.RetConstant{Val: drop})
		return
	}
	source := uint32(12)
	if c.size == 16 {
		source = 8
	}
	for i := 0; i < c.size; i += 4 {
		mask, value := binary.BigEndian.Uint32(c.mask[i:]), binary.BigEndian.Uint32(c.value[i:])
		if mask != 0 {
			s.must(netHeader+source+uint32(i), mask, value)
		}
	}
}

// mustBegin appends the test that the payload begins with magic and one of two
// kinds.
func (s *steps) mustBegin(kind, other byte) {
	word := func(kind byte) uint32 { return binary.BigEndian.Uint32([]byte(magic[4:] + string(rune(kind)))) }
	s.must(udpHeader, math.MaxUint32, binary.BigEndian.Uint32([]byte(magic)))
	*s = append(*s, bpf.LoadAbsolute{Off: udpHeader + 4, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: word(kind), SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: word(other), SkipTrue: 1},
		bpf.RetConstant{Val: drop})
}

// requestFilter accepts requests from addresses in c, of another port than the
// daemons': no request comes from a socket that answers.
func requestFilter(c cover, port uint16) steps {
	s := steps{
		bpf.LoadAbsolute{Off: 0, Size: 2},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: uint32(port), SkipTrue: 1}, bpf.RetConstant{Val: drop},
	}
	s.mustBegin(request, bareRequest)
	s.mustBeOf(c)
	return append(s, bpf.RetConstant{Val: accept})
}

// tagSelector selects the first socket of a group for packets with the tag, and the
// second for all others. It sees a packet from its payload on.
func tagSelector(tag Tag) steps {
	const untagged = 1
	words := [2]uint32{binary.BigEndian.Uint32(tag[:]), binary.BigEndian.Uint32(tag[4:])}
	s := steps{
		bpf.LoadExtension{Num: bpf.ExtLen},
		bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: uint32(minPacket + len(tag)), SkipTrue: 1}, bpf.RetConstant{Val: untagged},
	}
	for i, word := range words {
		s = append(s, bpf.LoadAbsolute{Off: uint32(minPacket + 4*i), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpEqual, Val: word, SkipTrue: 1}, bpf.RetConstant{Val: untagged})
	}
	return append(s, bpf.RetConstant{Val: 0})
}

// attach attaches s to a socket. It replaces an earlier one at once.
func (s steps) attach(fd uintptr, option int) error {
	raw, err := bpf.Assemble(s)
	if err != nil {
		return fmt.Errorf("assemble a socket filter: %w", err)
	}
	code := make([]unix.SockFilter, len(raw))
	for i, r := range raw {
		code[i] = unix.SockFilter{Code: r.Op, Jt: r.Jt, Jf: r.Jf, K: r.K}
	}
	return unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, option, &unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]})
}

// questionFilter accepts questions by one of these keys.
func questionFilter(accepted []key) steps {
	var s steps
	s.must(udpHeader, math.MaxUint32, binary.BigEndian.Uint32([]byte(magic)))
	s.must(udpHeader+4, math.MaxUint32, binary.BigEndian.Uint32([]byte(magic[4:]+string(rune(question)))))
	for _, k := range accepted {
		s = append(s,
			bpf.LoadAbsolute{Off: uint32(udpHeader + tagAt), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(k.tag[:]), SkipTrue: 3},
			bpf.LoadAbsolute{Off: uint32(udpHeader + tagAt + 4), Size: 4},
			bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: binary.BigEndian.Uint32(k.tag[4:]), SkipTrue: 1},
			bpf.RetConstant{Val: accept})
	}
	return append(s, bpf.RetConstant{Val: drop})
}
