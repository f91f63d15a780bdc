package probe

import (
	"encoding/binary"
	"net/netip"
	"time"
)

// A packet of ours, in UDP or in a ping, begins with magic and its kind. It has a
// number that no other host can guess. An answer has its sender's clock. The
// receiver's tag follows, if there is one and there is room. Padding follows up to
// the packet's size.
const (
	magic     = "tulle-p"
	kindAt    = len(magic)
	numberAt  = kindAt + 1
	clockAt   = numberAt + 8
	minPacket = clockAt + 8
)

// The kinds of packets.
const (
	request     = '?'
	bareRequest = '~' // to be answered without a checksum
	answer      = '!'
)

// headers returns the size of the headers before our payload, in UDP or a ping of an
// address's family. Both have eight bytes after the IP header.
func headers(ip netip.Addr) int {
	if ip.Is4() {
		return 20 + 8
	}
	return 40 + 8
}

func newRequest(kind byte, number uint64, size int, tag Tag) []byte {
	b := make([]byte, max(size, minPacket))
	if len(b) >= minPacket+len(tag) {
		copy(b[minPacket:], tag[:])
	}
	copy(b, magic)
	b[kindAt] = kind
	binary.BigEndian.PutUint64(b[numberAt:], number)
	return b
}

// toAnswer turns a request into its answer, in place. It reports whether b is a
// request, and whether its answer has no checksum. The answer is as large as the
// request: it amplifies nothing.
func toAnswer(b []byte, now time.Time) (bare, ok bool) {
	if len(b) < minPacket || string(b[:kindAt]) != magic || b[kindAt] != request && b[kindAt] != bareRequest {
		return false, false
	}
	bare = b[kindAt] == bareRequest
	b[kindAt] = answer
	binary.BigEndian.PutUint64(b[clockAt:], uint64(now.UnixNano()))
	return bare, true
}

// readAnswer returns the clock in the answer to a request with this number.
func readAnswer(b []byte, number uint64, size int) (clock time.Time, ok bool) {
	if len(b) != max(size, minPacket) || string(b[:kindAt]) != magic || b[kindAt] != answer || binary.BigEndian.Uint64(b[numberAt:]) != number {
		return time.Time{}, false
	}
	return time.Unix(0, int64(binary.BigEndian.Uint64(b[clockAt:]))), true
}

// quotes reports whether b is the beginning of the request with this number.
func quotes(b []byte, number uint64) bool {
	return len(b) >= clockAt && string(b[:kindAt]) == magic && binary.BigEndian.Uint64(b[numberAt:]) == number
}
