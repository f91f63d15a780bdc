package ends

import (
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/dataplane/packet"
)

const (
	maxPacket = 65535
	// mostSegments is how many segments the kernel joins in one packet, as a rule.
	mostSegments = 64
	// patience is the number of single packets in a row after which one segment is expected, and
	// of small packets with other segments after which theirs are.
	patience = 8
	// bulk is the payload from which a packet changes the expectation at once.
	bulk = 8 << 10
	// largest is the most that is expected of one segment with its headers.
	largest = 60000
)

// scatter says where the next read puts a packet. The kernel hands over a large packet in place of
// many segments. If these are as many and as large as those before, each is read to a buffer of its
// own, behind the room for its headers.
type scatter struct {
	lead    int // bytes before the packet
	headers int // the first bytes, which all segments share
	size    int // of a segment, without the headers
	count   int // segments

	singles int // packets in a row
	misses  int // in a row, of other segments
	laid    int // buffers of the last read
	vectors [mostSegments + 1]unix.Iovec
	linear  [packet.MaxHeaders + 2*maxPacket]byte // what has no place, at its place in the packet; or all of it
}

// newScatter returns a scatter that expects single packets of Ethernet's size.
func newScatter(lead int) scatter { return scatter{lead: lead, size: 1500, count: 1} }

// lay prepares the vectors for a read to bufs, where packets begin at offset.
func (s *scatter) lay(bufs [][]byte, offset int) []unix.Iovec {
	before := s.laid
	s.laid = max(1, min(s.count, len(bufs), mostSegments, maxPacket/s.size))
	set(&s.vectors[0], bufs[0][offset-s.lead:offset+s.headers+s.size])
	for i := 1; i < s.laid; i++ {
		set(&s.vectors[i], bufs[i][offset+s.headers:offset+s.headers+s.size])
	}
	set(&s.vectors[s.laid], s.linear[s.placed():][:maxPacket])
	clear(s.vectors[s.laid+1 : max(s.laid, before)+1])
	return s.vectors[:s.laid+1]
}

func set(v *unix.Iovec, to []byte) {
	v.Base = &to[0]
	v.SetLen(len(to))
}

// placed returns how many bytes the buffers of the last read have room for.
func (s *scatter) placed() int { return s.headers + s.laid*s.size }

// isWhole reports whether a packet is in the first buffer.
func (s *scatter) isWhole(length int) bool { return length <= s.headers+s.size }

// start returns the start of the packet that was read.
func (s *scatter) start(bufs [][]byte, offset, length int) []byte {
	return bufs[0][offset : offset+min(length, s.headers+s.size)]
}

// gather returns the whole packet that was read. It stays until the next read.
func (s *scatter) gather(bufs [][]byte, offset, length int) []byte {
	at := copy(s.linear[:], s.start(bufs, offset, length))
	for i := 1; i < s.laid && at < length; i++ {
		at += copy(s.linear[at:], bufs[i][offset+s.headers:][:min(s.size, length-at)])
	}
	return s.linear[:length]
}

// tail copies a segment that had no buffer of its own to its place. All others are there.
func (s *scatter) tail(bufs [][]byte, offset, i, length int) {
	if i >= s.laid {
		at := s.headers + i*s.size
		copy(bufs[i][offset+s.headers:], s.linear[at:min(at+s.size, length)])
	}
}

// expect says what the last packet was: its headers, and the size and number of its segments.
func (s *scatter) expect(headers, size, count int) {
	switch {
	case count == 1:
		if s.singles++; s.singles >= patience {
			s.count = 1
		}
		if headers+size > s.headers+s.size {
			s.size = min(headers+size, largest) - s.headers
		}
	case headers+size > largest:
	case headers == s.headers && size == s.size:
		s.count, s.singles, s.misses = max(s.count, count), 0, 0
	case count*size >= bulk || s.misses >= patience:
		s.headers, s.size, s.count = headers, size, count
		s.singles, s.misses = 0, 0
	default:
		s.misses++
	}
}
