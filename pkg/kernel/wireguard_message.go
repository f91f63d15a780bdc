package kernel

import (
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// genlHeader is the length of a generic netlink message's own header.
const genlHeader = 4

// wgDevice begins a message that changes a device. The kernel identifies the device by
// its name.
func (w *writer) wgDevice(family uint16, link string, seq uint32) {
	w.begin(family, 0, seq)
	w.bytes(unix.WG_CMD_SET_DEVICE, unix.WG_GENL_VERSION, 0, 0)
	w.attrString(unix.WGDEVICE_A_IFNAME, link)
}

// wgPeer opens one of the peers in a message. The caller closes it with endNest.
func (w *writer) wgPeer(key [32]byte, flags uint32) (at int) {
	at = w.nest(0)
	w.attr(unix.WGPEER_A_PUBLIC_KEY, key[:])
	if flags != 0 {
		w.attrUint32(unix.WGPEER_A_FLAGS, flags)
	}
	return at
}

// wgRequest adds the message for a step on a peer or a prefix. psk is the peer's
// preshared key. Without an endpoint, the peer keeps the one that it has.
func (w *writer) wgRequest(family uint16, op netstate.Op, psk [32]byte, at netip.AddrPort, seq uint32) {
	w.wgDevice(family, netstate.LinkOf(op.Object), seq)
	peers := w.nest(unix.WGDEVICE_A_PEERS)
	switch o := op.Object.(type) {
	case netstate.WGPeer:
		if op.Verb == netstate.Delete {
			w.endNest(w.wgPeer(o.Peer.Bytes(), unix.WGPEER_F_REMOVE_ME))
			break
		}
		peer := w.wgPeer(o.Peer.Bytes(), 0)
		w.attr(unix.WGPEER_A_PRESHARED_KEY, psk[:])
		if at.IsValid() {
			w.attr(unix.WGPEER_A_ENDPOINT, socketAddress(at))
		}
		w.attrUint16(unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL, o.Keepalive)
		w.endNest(peer)
	case netstate.WGAllowed:
		if op.Verb == netstate.Delete {
			// Kernels before 6.16 cannot remove a single prefix. All kernels can move
			// it to a peer that the same message removes.
			w.wgAllowed(sink, 0, o.Prefix)
			w.endNest(w.wgPeer(sink, unix.WGPEER_F_REMOVE_ME))
			break
		}
		// A peer that the kernel created here would lack its preshared key.
		w.wgAllowed(o.Peer.Bytes(), unix.WGPEER_F_UPDATE_ONLY, o.Prefix)
	}
	w.endNest(peers)
	w.end()
}

// sink is a public key without a private key.
var sink = sha256.Sum256([]byte("tulle: the public key of no node"))

func (w *writer) wgAllowed(key [32]byte, flags uint32, p netip.Prefix) {
	peer := w.wgPeer(key, flags)
	list := w.nest(unix.WGPEER_A_ALLOWEDIPS)
	one := w.nest(0)
	w.attrUint16(unix.WGALLOWEDIP_A_FAMILY, uint16(familyOf(p.Addr())))
	w.attrAddr(unix.WGALLOWEDIP_A_IPADDR, p.Addr())
	w.attr(unix.WGALLOWEDIP_A_CIDR_MASK, []byte{uint8(p.Bits())})
	w.endNest(one)
	w.endNest(list)
	w.endNest(peer)
}

// socketAddress returns a sockaddr_in or sockaddr_in6.
func socketAddress(at netip.AddrPort) []byte {
	b := native.AppendUint16(nil, uint16(familyOf(at.Addr())))
	b = binary.BigEndian.AppendUint16(b, at.Port())
	if at.Addr().Is4() {
		ip := at.Addr().As4()
		return append(append(b, ip[:]...), make([]byte, 8)...)
	}
	ip := at.Addr().As16()
	b = append(b, 0, 0, 0, 0) // the flow label
	b = append(b, ip[:]...)
	return append(b, 0, 0, 0, 0) // the zone
}

// decodeSocketAddress reads an endpoint, or returns the zero AddrPort.
func decodeSocketAddress(b []byte) netip.AddrPort {
	const v4, v6 = unix.SizeofSockaddrInet4, unix.SizeofSockaddrInet6
	switch family := uint16Of(b); {
	case family == unix.AF_INET && len(b) >= v4:
		return netip.AddrPortFrom(addrOf(b[4:8]), binary.BigEndian.Uint16(b[2:]))
	case family == unix.AF_INET6 && len(b) >= v6:
		return netip.AddrPortFrom(addrOf(b[8:24]), binary.BigEndian.Uint16(b[2:]))
	}
	return netip.AddrPort{}
}

// wgMessage is one message of a device's dump.
type wgMessage struct {
	device  netstate.WireGuard
	first   bool // whether it has the device's key and port
	peers   []wgPeerEntry
	allowed []netstate.WGAllowed
}

// wgPeerEntry is a peer with the time of its last handshake, zero if there was none,
// and the bytes that were received from it and sent to it.
type wgPeerEntry struct {
	netstate.WGPeer
	handshake      time.Time
	received, sent uint64
}

// decodeWireGuard reads a message of a dump of the device called link.
func decodeWireGuard(b []byte, link string) (m wgMessage) {
	for typ, data := range attrsAfter(b, genlHeader) {
		switch typ {
		case unix.WGDEVICE_A_PUBLIC_KEY:
			m.device.Key = decodeKey(data)
		case unix.WGDEVICE_A_LISTEN_PORT:
			m.device.Port, m.first = uint16Of(data), true
		case unix.WGDEVICE_A_PEERS:
			for _, peer := range attrs(data) {
				m.addPeer(peer, link)
			}
		}
	}
	return m
}

// addPeer reads a peer. If the peer began in the previous message, this one only has
// more of its prefixes.
func (m *wgMessage) addPeer(b []byte, link string) {
	p := wgPeerEntry{WGPeer: netstate.WGPeer{Link: link}}
	begins := false
	for typ, data := range attrs(b) {
		switch typ {
		case unix.WGPEER_A_PUBLIC_KEY:
			p.Peer = decodeKey(data)
		case unix.WGPEER_A_PRESHARED_KEY:
			if len(data) == 32 {
				p.PSK = netstate.PSKOf([32]byte(data))
			}
		case unix.WGPEER_A_ENDPOINT:
			p.Endpoint = decodeSocketAddress(data)
		case unix.WGPEER_A_PERSISTENT_KEEPALIVE_INTERVAL:
			p.Keepalive, begins = uint16Of(data), true
		case unix.WGPEER_A_LAST_HANDSHAKE_TIME:
			p.handshake = decodeTime(data)
		case unix.WGPEER_A_RX_BYTES:
			p.received = uint64Of(data)
		case unix.WGPEER_A_TX_BYTES:
			p.sent = uint64Of(data)
		case unix.WGPEER_A_ALLOWEDIPS:
			for _, one := range attrs(data) {
				if prefix := decodeAllowed(one); prefix.IsValid() {
					m.allowed = append(m.allowed, netstate.WGAllowed{Link: link, Prefix: prefix, Peer: p.Peer})
				}
			}
		}
	}
	if begins && !p.Peer.IsZero() {
		m.peers = append(m.peers, p)
	}
}

func decodeKey(b []byte) netstate.PublicKey {
	if len(b) != 32 {
		return netstate.PublicKey{}
	}
	return netstate.PublicKeyOf([32]byte(b))
}

func uint64Of(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return native.Uint64(b)
}

// decodeTime reads seconds and nanoseconds.
func decodeTime(b []byte) time.Time {
	if len(b) < 16 || native.Uint64(b) == 0 {
		return time.Time{}
	}
	return time.Unix(int64(native.Uint64(b)), int64(native.Uint64(b[8:])))
}

func decodeAllowed(b []byte) netip.Prefix {
	var ip netip.Addr
	bits := -1
	for typ, data := range attrs(b) {
		switch typ {
		case unix.WGALLOWEDIP_A_IPADDR:
			ip = addrOf(data)
		case unix.WGALLOWEDIP_A_CIDR_MASK:
			if len(data) > 0 {
				bits = int(data[0])
			}
		}
	}
	return netip.PrefixFrom(ip, bits)
}
