package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// request adds the message for op to w. index is the index of the object's link. It
// handles the kinds with many objects.
func (w *writer) request(op netstate.Op, index int, seq uint32) {
	switch o := op.Object.(type) {
	case netstate.Addr:
		w.addrRequest(op.Verb, o, index, seq)
	case netstate.Neigh:
		w.neighRequest(op.Verb, o, index, seq)
	case netstate.FDB:
		w.fdbRequest(op.Verb, o, index, seq)
	case netstate.Route:
		w.routeRequest(op.Verb, o, index, seq)
	}
	w.end()
}

const (
	create  = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	replace = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
)

func familyOf(a netip.Addr) uint8 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func (w *writer) addrRequest(v netstate.Verb, a netstate.Addr, index int, seq uint32) {
	if v == netstate.Delete {
		w.begin(unix.RTM_DELADDR, 0, seq)
	} else {
		w.begin(unix.RTM_NEWADDR, replace, seq)
	}
	// There is no duplicate detection on a tunnel: no host answers, and the address is
	// needed now. IPv4 ignores the flag.
	w.bytes(familyOf(a.Prefix.Addr()), uint8(a.Prefix.Bits()), unix.IFA_F_NODAD|unix.IFA_F_PERMANENT, unix.RT_SCOPE_UNIVERSE)
	w.uint32(uint32(index))
	w.attrAddr(unix.IFA_LOCAL, a.Prefix.Addr())
	w.attrAddr(unix.IFA_ADDRESS, a.Prefix.Addr())
}

// neighbour begins a neighbour message. Entries of our own devices are ours whichever
// program wrote them, so a creation may replace an existing one.
func (w *writer) neighbour(v netstate.Verb, family, flags uint8, index int, seq uint32) {
	if v == netstate.Delete {
		w.begin(unix.RTM_DELNEIGH, 0, seq)
	} else {
		w.begin(unix.RTM_NEWNEIGH, replace, seq)
	}
	w.bytes(family, 0, 0, 0)
	w.uint32(uint32(index))
	w.uint16(unix.NUD_PERMANENT)
	w.bytes(flags, 0)
}

func (w *writer) neighRequest(v netstate.Verb, n netstate.Neigh, index int, seq uint32) {
	w.neighbour(v, familyOf(n.IP), 0, index, seq)
	w.attrAddr(unix.NDA_DST, n.IP)
	w.attr(unix.NDA_LLADDR, n.MAC[:])
}

func (w *writer) fdbRequest(v netstate.Verb, f netstate.FDB, index int, seq uint32) {
	w.neighbour(v, unix.AF_BRIDGE, unix.NTF_SELF, index, seq)
	w.attr(unix.NDA_LLADDR, f.MAC[:])
	w.attrAddr(unix.NDA_DST, f.Dst)
}

func (w *writer) routeRequest(v netstate.Verb, r netstate.Route, index int, seq uint32) {
	var scope uint8 = unix.RT_SCOPE_UNIVERSE
	switch v {
	case netstate.Delete:
		scope = unix.RT_SCOPE_NOWHERE // of any scope: a foreign route without a gateway is of another one than ours
		w.begin(unix.RTM_DELROUTE, 0, seq)
	case netstate.Replace:
		w.begin(unix.RTM_NEWROUTE, replace, seq)
	default:
		w.begin(unix.RTM_NEWROUTE, create, seq)
	}
	protocol := r.Protocol
	if protocol == 0 {
		protocol = netstate.Mark
	}
	var flags uint32
	if r.OnLink {
		flags = unix.RTNH_F_ONLINK
	}
	var kind uint8 = unix.RTN_UNICAST
	if r.Drop {
		kind = unix.RTN_BLACKHOLE
	}
	w.bytes(familyOf(r.Dst.Addr()), uint8(r.Dst.Bits()), 0, 0,
		unix.RT_TABLE_MAIN, protocol, scope, kind)
	w.uint32(flags)
	w.attrAddr(unix.RTA_DST, r.Dst.Addr())
	switch {
	case r.Wrap:
		w.attrUint16(unix.RTA_ENCAP_TYPE, wrapIPv6)
		at := w.nest(unix.RTA_ENCAP)
		w.attrAddr(wrapTo, r.Via)
		w.attrAddr(wrapFrom, r.From)
		w.endNest(at)
	case r.Via.IsValid():
		w.attrAddr(unix.RTA_GATEWAY, r.Via)
	}
	if index != 0 {
		w.attrUint32(unix.RTA_OIF, uint32(index))
	}
	if r.Metric != 0 {
		w.attrUint32(unix.RTA_PRIORITY, r.Metric)
	} else if r.Dst.Addr().Is6() {
		w.attrUint32(unix.RTA_PRIORITY, defaultMetric6)
	}
	if r.MTU != 0 {
		at := w.nest(unix.RTA_METRICS)
		w.attrUint32(unix.RTAX_MTU, uint32(r.MTU))
		w.endNest(at)
	}
}

// The attributes for the host that receives a route's encapsulated packets, from
// linux/lwtunnel.h (LWTUNNEL_ENCAP_IP6, LWTUNNEL_IP6_DST, LWTUNNEL_IP6_SRC).
const (
	wrapIPv6 = 4
	wrapTo   = 2
	wrapFrom = 3
)

// defaultMetric6 is the kernel's value for metric 0 of an IPv6 route. This package
// converts it to metric 0 and back.
const defaultMetric6 = 1024
