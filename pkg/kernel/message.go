package kernel

import (
	"encoding/binary"
	"iter"
	"net/netip"

	"golang.org/x/sys/unix"
)

var native = binary.NativeEndian

// writer builds netlink messages one after the other in one buffer.
type writer struct {
	buf   []byte
	start int // of the present message
}

func (w *writer) reset() { w.buf = w.buf[:0] }

func (w *writer) begin(typ, flags uint16, seq uint32) {
	w.start = len(w.buf)
	w.buf = native.AppendUint32(w.buf, 0) // the length; end fills it in
	w.buf = native.AppendUint16(w.buf, typ)
	w.buf = native.AppendUint16(w.buf, unix.NLM_F_REQUEST|flags)
	w.buf = native.AppendUint32(w.buf, seq)
	w.buf = native.AppendUint32(w.buf, 0) // the port; the kernel fills it in
}

// end closes the message, whose parts are all padded.
func (w *writer) end() {
	native.PutUint32(w.buf[w.start:], uint32(len(w.buf)-w.start))
}

// demandAnswer requests an answer also if the present message succeeds.
func (w *writer) demandAnswer() {
	flags := native.Uint16(w.buf[w.start+6:])
	native.PutUint16(w.buf[w.start+6:], flags|unix.NLM_F_ACK)
}

func (w *writer) bytes(b ...byte) { w.buf = append(w.buf, b...) }
func (w *writer) uint16(v uint16) { w.buf = native.AppendUint16(w.buf, v) }
func (w *writer) uint32(v uint32) { w.buf = native.AppendUint32(w.buf, v) }
func (w *writer) pad()            { w.buf = append(w.buf, 0, 0, 0)[:(len(w.buf)+3)&^3] }
func (w *writer) nest(t uint16) int {
	w.uint16(0)
	w.uint16(t | unix.NLA_F_NESTED)
	return len(w.buf) - 4
}

// endNest closes the attribute that nest opened at position at.
func (w *writer) endNest(at int) { native.PutUint16(w.buf[at:], uint16(len(w.buf)-at)) }

func (w *writer) attr(typ uint16, data []byte) {
	w.uint16(uint16(4 + len(data)))
	w.uint16(typ)
	w.buf = append(w.buf, data...)
	w.pad()
}

func (w *writer) attrUint32(typ uint16, v uint32) {
	w.uint16(8)
	w.uint16(typ)
	w.uint32(v)
}

func (w *writer) attrUint16(typ, v uint16) {
	w.uint16(6)
	w.uint16(typ)
	w.uint16(v)
	w.uint16(0) // to the next multiple of four
}

func (w *writer) attrString(typ uint16, s string) {
	w.uint16(uint16(4 + len(s) + 1))
	w.uint16(typ)
	w.buf = append(w.buf, s...)
	w.buf = append(w.buf, 0)
	w.pad()
}

func (w *writer) attrAddr(typ uint16, a netip.Addr) {
	if a.Is4() {
		b := a.As4()
		w.attr(typ, b[:])
		return
	}
	b := a.As16()
	w.attr(typ, b[:])
}

// message is one received message. body is valid until the next receive.
type message struct {
	typ, flags uint16
	seq, port  uint32
	body       []byte
}

// messages splits the result of one receive. It drops a malformed rest, which the
// kernel never sends.
func messages(b []byte) iter.Seq[message] {
	return func(yield func(message) bool) {
		for len(b) >= unix.NLMSG_HDRLEN {
			n := int(native.Uint32(b))
			if n < unix.NLMSG_HDRLEN || n > len(b) {
				return
			}
			m := message{
				typ: native.Uint16(b[4:]), flags: native.Uint16(b[6:]),
				seq: native.Uint32(b[8:]), port: native.Uint32(b[12:]),
				body: b[unix.NLMSG_HDRLEN:n],
			}
			if !yield(m) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// attrs splits the attributes that follow a message's fixed part.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= 4 {
			n := int(native.Uint16(b))
			if n < 4 || n > len(b) {
				return
			}
			if !yield(native.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[4:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// attrsAfter splits the attributes after a fixed part of n bytes. It returns none if
// b is shorter.
func attrsAfter(b []byte, n int) iter.Seq2[uint16, []byte] {
	if len(b) < n {
		return func(func(uint16, []byte) bool) {}
	}
	return attrs(b[n:])
}

func addrOf(b []byte) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a
}

func uint16Of(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return native.Uint16(b)
}

func uint32Of(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return native.Uint32(b)
}

func stringOf(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
