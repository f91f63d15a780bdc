package nft

import (
	"encoding/binary"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/firewall"
)

// nest writes a list of attributes.
type nest = func(*netlink.AttributeEncoder) error

// encode encodes attributes. Only invalid attributes, which are ours, make it fail.
func encode(f nest) []byte {
	e := netlink.NewAttributeEncoder()
	e.ByteOrder = binary.BigEndian
	if err := f(e); err != nil {
		panic(err)
	}
	b, err := e.Encode()
	if err != nil {
		panic(err)
	}
	return b
}

// randomFully is NF_NAT_RANGE_PROTO_RANDOM_FULLY.
const randomFully = 1 << 4

// expressions encodes a rule for a table of one family of packets or, if mixed, of
// both.
func expressions(r firewall.Rule, mixed bool) nest {
	return func(e *netlink.AttributeEncoder) error {
		w := writer{e}
		family := netip.Prefix{}
		for _, n := range []firewall.Net{r.From, r.To} {
			if n.Prefix.IsValid() {
				family = n.Prefix
			}
		}
		if mixed && family.IsValid() {
			w.meta(unix.NFT_META_NFPROTO)
			w.compare(false, []byte{protocol(family.Addr())})
		}
		if r.Marked {
			w.meta(unix.NFT_META_MARK)
			w.mask(binary.NativeEndian.AppendUint32(nil, firewall.KubeMark))
			w.compare(true, make([]byte, 4))
		}
		w.address(r.From, false)
		w.address(r.To, true)
		w.device(r.Out)
		w.verdict(r)
		return nil
	}
}

func protocol(a netip.Addr) byte {
	if a.Is4() {
		return unix.NFPROTO_IPV4
	}
	return unix.NFPROTO_IPV6
}

// writer writes the expressions of one rule. All use one register.
type writer struct{ list *netlink.AttributeEncoder }

func (w writer) expression(name string, data nest) {
	w.list.Nested(unix.NFTA_LIST_ELEM, func(e *netlink.AttributeEncoder) error {
		e.String(unix.NFTA_EXPR_NAME, name)
		e.Nested(unix.NFTA_EXPR_DATA, data)
		return nil
	})
}

func value(b []byte) nest {
	return func(e *netlink.AttributeEncoder) error {
		e.Bytes(unix.NFTA_DATA_VALUE, b)
		return nil
	}
}

func (w writer) meta(key uint32) {
	w.expression("meta", func(e *netlink.AttributeEncoder) error {
		e.Uint32(unix.NFTA_META_DREG, unix.NFT_REG_1)
		e.Uint32(unix.NFTA_META_KEY, key)
		return nil
	})
}

func (w writer) mask(mask []byte) {
	w.expression("bitwise", func(e *netlink.AttributeEncoder) error {
		e.Uint32(unix.NFTA_BITWISE_SREG, unix.NFT_REG_1)
		e.Uint32(unix.NFTA_BITWISE_DREG, unix.NFT_REG_1)
		e.Uint32(unix.NFTA_BITWISE_LEN, uint32(len(mask)))
		e.Nested(unix.NFTA_BITWISE_MASK, value(mask))
		e.Nested(unix.NFTA_BITWISE_XOR, value(make([]byte, len(mask))))
		return nil
	})
}

func (w writer) compare(not bool, b []byte) {
	op := uint32(unix.NFT_CMP_EQ)
	if not {
		op = unix.NFT_CMP_NEQ
	}
	w.expression("cmp", func(e *netlink.AttributeEncoder) error {
		e.Uint32(unix.NFTA_CMP_SREG, unix.NFT_REG_1)
		e.Uint32(unix.NFTA_CMP_OP, op)
		e.Nested(unix.NFTA_CMP_DATA, value(b))
		return nil
	})
}

// device writes a condition on the device that a packet leaves through.
func (w writer) device(out firewall.Iface) {
	if out.Name == "" {
		return
	}
	w.meta(unix.NFT_META_OIFNAME)
	name := make([]byte, unix.IFNAMSIZ)
	copy(name, out.Name)
	w.compare(out.Not, name)
}

// address writes a condition in a form that every iptables-nft can read.
func (w writer) address(n firewall.Net, to bool) {
	if !n.Prefix.IsValid() {
		return
	}
	a := n.Prefix.Masked().Addr().AsSlice()
	w.expression("payload", func(e *netlink.AttributeEncoder) error {
		e.Uint32(unix.NFTA_PAYLOAD_DREG, unix.NFT_REG_1)
		e.Uint32(unix.NFTA_PAYLOAD_BASE, unix.NFT_PAYLOAD_NETWORK_HEADER)
		e.Uint32(unix.NFTA_PAYLOAD_OFFSET, uint32(offset(len(a), to)))
		e.Uint32(unix.NFTA_PAYLOAD_LEN, uint32(len(a)))
		return nil
	})
	if n.Prefix.Bits() < 8*len(a) {
		mask := make([]byte, len(a))
		for i := range n.Prefix.Bits() {
			mask[i/8] |= 1 << (7 - i%8)
		}
		w.mask(mask)
	}
	w.compare(n.Not, a)
}

// offset returns the position of an address of size bytes in a packet.
func offset(size int, to bool) int {
	from := 12
	if size == 16 {
		from = 8
	}
	if to {
		return from + size
	}
	return from
}

func (w writer) verdict(r firewall.Rule) {
	code := int32(unix.NFT_RETURN)
	switch r.Does {
	case firewall.Masquerade, firewall.MasqueradeRandom:
		w.expression("masq", func(e *netlink.AttributeEncoder) error {
			if r.Does == firewall.MasqueradeRandom {
				e.Uint32(unix.NFTA_MASQ_FLAGS, randomFully)
			}
			return nil
		})
		return
	case firewall.Accept, firewall.Drop:
		code = map[firewall.Verdict]int32{firewall.Accept: 1, firewall.Drop: 0}[r.Does] // NF_ACCEPT, NF_DROP
		w.expression("counter", func(*netlink.AttributeEncoder) error { return nil })
	}
	w.expression("immediate", func(e *netlink.AttributeEncoder) error {
		e.Uint32(unix.NFTA_IMMEDIATE_DREG, unix.NFT_REG_VERDICT)
		e.Nested(unix.NFTA_IMMEDIATE_DATA, func(e *netlink.AttributeEncoder) error {
			e.Nested(unix.NFTA_DATA_VERDICT, func(e *netlink.AttributeEncoder) error {
				e.Int32(unix.NFTA_VERDICT_CODE, code)
				return nil
			})
			return nil
		})
		return nil
	})
}

// userData returns a comment in the format that nft and iptables-nft write and show.
func userData(comment string) []byte {
	return append([]byte{0, byte(len(comment) + 1)}, comment+"\x00"...)
}
