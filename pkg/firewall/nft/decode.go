package nft

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// decode reads the expressions of a rule in a table of family, and the comment that
// iptables writes among them.
func decode(b []byte, family uint8) (rule firewall.Rule, comment string) {
	r := reader{family: family}
	each(b, func(kind uint16, b []byte) {
		var name string
		var data []byte
		each(b, func(kind uint16, b []byte) {
			switch kind {
			case unix.NFTA_EXPR_NAME:
				name = text(b)
			case unix.NFTA_EXPR_DATA:
				data = b
			}
		})
		a := attributes(data)
		r.expression(name, &a)
	})
	if r.family != family && !r.rule.From.Prefix.IsValid() && !r.rule.To.Prefix.IsValid() {
		r.rule.Opaque = true // it matches the family alone
	}
	return r.rule, r.comment
}

// each calls f with each attribute. It omits what it cannot read.
func each(b []byte, f func(kind uint16, b []byte)) {
	for len(b) >= unix.NLA_HDRLEN {
		size := int(binary.NativeEndian.Uint16(b))
		if size < unix.NLA_HDRLEN || size > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.NLA_HDRLEN:size])
		b = b[min(len(b), (size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1)):]
	}
}

// list are the attributes of one object, by their kind. No kind that this package
// reads is higher.
type list struct {
	of    [16][]byte
	count int
}

func attributes(b []byte) (all list) {
	each(b, func(kind uint16, b []byte) {
		if int(kind) < len(all.of) {
			all.of[kind] = b
		}
		all.count++
	})
	return all
}

// number returns -1, which the kernel never uses, for a missing or invalid number.
func number(b []byte) int64 {
	if len(b) != 4 {
		return -1
	}
	return int64(binary.BigEndian.Uint32(b))
}

// inside returns one attribute of those in b.
func inside(b []byte, kind uint16) (found []byte) {
	each(b, func(k uint16, b []byte) {
		if k == kind {
			found = b
		}
	})
	return found
}

func text(b []byte) string { return string(bytes.TrimRight(b, "\x00")) }

// registerContent is the kind of a register's content.
type registerContent uint8

const (
	unknown registerContent = iota
	from
	to
	in
	out
	mark
	proto
)

var (
	meta = map[int64]registerContent{
		unix.NFT_META_IIFNAME: in, unix.NFT_META_OIFNAME: out, unix.NFT_META_MARK: mark, unix.NFT_META_NFPROTO: proto,
	}
	verdicts = map[int32]firewall.Verdict{
		0: firewall.Drop, 1: firewall.Accept,
		unix.NFT_RETURN: firewall.Return, unix.NFT_JUMP: firewall.Jump, unix.NFT_GOTO: firewall.Goto, unix.NFT_CONTINUE: firewall.None,
	}
)

// operand is the content of a register.
type operand struct {
	registerContent
	size int    // of an address, in bytes
	mask []byte // the bits that are kept; nil for all
}

// reader reads the expressions of one rule.
type reader struct {
	family    uint8       // of the packets, as far as known
	registers [32]operand // by their number
	rule      firewall.Rule
	comment   string
}

func (r *reader) expression(name string, a *list) {
	switch name {
	case "counter", "log", "notrack":
	case "objref":
		if number(a.of[unix.NFTA_OBJREF_IMM_TYPE]) != unix.NFT_OBJECT_COUNTER { // for example a limit
			r.rule.Opaque = true
		}
	case "meta":
		if a.of[unix.NFTA_META_SREG] == nil { // otherwise it sets something
			r.load(a.of[unix.NFTA_META_DREG], operand{registerContent: meta[number(a.of[unix.NFTA_META_KEY])]})
		}
	case "payload":
		r.load(a.of[unix.NFTA_PAYLOAD_DREG], r.payload(a))
	case "bitwise":
		r.bitwise(a)
	case "cmp":
		op := number(a.of[unix.NFTA_CMP_OP])
		o := r.held(a.of[unix.NFTA_CMP_SREG])
		if op != unix.NFT_CMP_EQ && op != unix.NFT_CMP_NEQ || !r.compare(o, op == unix.NFT_CMP_NEQ, inside(a.of[unix.NFTA_CMP_DATA], unix.NFTA_DATA_VALUE)) {
			r.rule.Opaque = true
		}
	case "match":
		if text(a.of[unix.NFTA_MATCH_NAME]) != "comment" {
			r.rule.Opaque = true
			return
		}
		comment, _, _ := bytes.Cut(a.of[unix.NFTA_MATCH_INFO], []byte{0})
		r.comment = string(comment)
	case "target":
		if text(a.of[unix.NFTA_TARGET_NAME]) == "REJECT" {
			r.do(firewall.Drop)
		}
	case "reject":
		r.do(firewall.Drop)
	case "masq":
		switch {
		case a.count == 0:
			r.do(firewall.Masquerade)
		case a.count == 1 && number(a.of[unix.NFTA_MASQ_FLAGS]) == randomFully:
			r.do(firewall.MasqueradeRandom)
		default:
			r.rule.Opaque = true
		}
	case "immediate":
		r.immediate(a)
	default:
		r.rule.Opaque = true
	}
}

// bitwise reads an expression that masks a register. Any other bitwise operation makes the
// register's content unknown.
func (r *reader) bitwise(a *list) {
	o := r.held(a.of[unix.NFTA_BITWISE_SREG])
	mask := inside(a.of[unix.NFTA_BITWISE_MASK], unix.NFTA_DATA_VALUE)
	xor := inside(a.of[unix.NFTA_BITWISE_XOR], unix.NFTA_DATA_VALUE)
	if o.mask != nil || mask == nil || !zero(xor) {
		o = operand{}
	}
	o.mask = mask
	r.load(a.of[unix.NFTA_BITWISE_DREG], o)
}

// immediate reads an expression that sets a verdict, or a register to a constant.
func (r *reader) immediate(a *list) {
	if number(a.of[unix.NFTA_IMMEDIATE_DREG]) != unix.NFT_REG_VERDICT {
		r.load(a.of[unix.NFTA_IMMEDIATE_DREG], operand{})
		return
	}
	v := attributes(inside(a.of[unix.NFTA_IMMEDIATE_DATA], unix.NFTA_DATA_VERDICT))
	does, ok := verdicts[int32(number(v.of[unix.NFTA_VERDICT_CODE]))]
	if !ok {
		r.rule.Opaque = true // for example a queue
		return
	}
	r.do(does)
	r.rule.Chain = text(v.of[unix.NFTA_VERDICT_CHAIN])
}

// do sets what the rule does; the first verdict counts.
func (r *reader) do(v firewall.Verdict) {
	if r.rule.Does != firewall.None {
		r.rule.Opaque = true
		return
	}
	r.rule.Does = v
}

func (r *reader) load(register []byte, o operand) {
	if n := number(register); n >= 0 && n < int64(len(r.registers)) {
		r.registers[n] = o
	}
}

// held returns the content of a register.
func (r *reader) held(register []byte) operand {
	if n := number(register); n >= 0 && n < int64(len(r.registers)) {
		return r.registers[n]
	}
	return operand{}
}

// payload returns the meaning of a part of a packet.
func (r *reader) payload(a *list) operand {
	full := 4
	switch r.family {
	case unix.NFPROTO_IPV6:
		full = 16
	case unix.NFPROTO_IPV4:
	default:
		return operand{}
	}
	at, size := number(a.of[unix.NFTA_PAYLOAD_OFFSET]), number(a.of[unix.NFTA_PAYLOAD_LEN])
	if number(a.of[unix.NFTA_PAYLOAD_BASE]) != unix.NFT_PAYLOAD_NETWORK_HEADER || size < 1 || size > int64(full) {
		return operand{}
	}
	switch at {
	case int64(offset(full, false)):
		return operand{registerContent: from, size: int(size)}
	case int64(offset(full, true)):
		return operand{registerContent: to, size: int(size)}
	}
	return operand{}
}

// compare records a condition. It returns false for one that it does not understand.
func (r *reader) compare(o operand, not bool, b []byte) bool {
	switch o.registerContent {
	case from, to:
		n, ok := r.net(o, b)
		place := &r.rule.From
		if o.registerContent == to {
			place = &r.rule.To
		}
		if !ok || place.Prefix.IsValid() {
			return false
		}
		*place = firewall.Net{Prefix: n, Not: not}
	case in, out:
		place := &r.rule.In
		if o.registerContent == out {
			place = &r.rule.Out
		}
		if *place != (firewall.Iface{}) || o.mask != nil || len(b) == 0 {
			return false
		}
		name, rest, exact := strings.Cut(string(b), "\x00")
		if strings.Trim(rest, "\x00") != "" {
			return false
		}
		*place = firewall.Iface{Name: name, Wild: !exact, Not: not}
	case mark:
		bit := binary.NativeEndian.AppendUint32(nil, firewall.KubeMark)
		if !bytes.Equal(o.mask, bit) || !(not && zero(b) || !not && bytes.Equal(b, bit)) {
			return false
		}
		r.rule.Marked = true
	case proto:
		if not || len(b) != 1 || r.family != unix.NFPROTO_INET {
			return false
		}
		r.family = b[0]
	default:
		return false
	}
	return true
}

// net returns the network that an address is compared with.
func (r *reader) net(o operand, b []byte) (netip.Prefix, bool) {
	full := 4
	if r.family == unix.NFPROTO_IPV6 {
		full = 16
	}
	if len(b) != o.size || o.mask != nil && len(o.mask) != o.size {
		return netip.Prefix{}, false
	}
	length := 8 * o.size
	if o.mask != nil {
		length = 0
		for _, m := range o.mask {
			length += bits.LeadingZeros8(^m)
			if m != 0xff {
				break
			}
		}
		for i, m := range o.mask {
			if m != byte(uint16(0xff00)>>min(8, max(0, length-8*i))) {
				return netip.Prefix{}, false
			}
		}
	}
	whole := make([]byte, full)
	copy(whole, b)
	a, _ := netip.AddrFromSlice(whole)
	p := netip.PrefixFrom(a, length)
	return p, p == p.Masked()
}

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
