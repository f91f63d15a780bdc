package kernel

import (
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// names maps a link's index to its name, at the time of one dump or event.
type names map[int]string

// decodeRoute reads a route of the main table. A route of a kind that we never make
// is foreign, whatever its protocol, and leads nowhere.
func decodeRoute(b []byte, names names) (netstate.Route, bool) {
	var r netstate.Route
	if len(b) < unix.SizeofRtMsg {
		return r, false
	}
	family, bits, tos, table := b[0], int(b[1]), b[3], b[4]
	protocol, kind := b[5], b[7]
	flags := native.Uint32(b[8:])
	r.Drop = kind != unix.RTN_UNICAST
	if table != unix.RT_TABLE_MAIN || tos != 0 || flags&unix.RTM_F_CLONED != 0 {
		return r, false
	}
	r.OnLink = flags&unix.RTNH_F_ONLINK != 0
	if protocol != netstate.Mark || r.Drop && kind != unix.RTN_BLACKHOLE {
		r.Protocol = protocol
	}
	var encap []byte
	dst := netip.IPv4Unspecified()
	if family == unix.AF_INET6 {
		dst = netip.IPv6Unspecified()
	}
	for typ, data := range attrs(b[unix.SizeofRtMsg:]) {
		switch typ {
		case unix.RTA_DST:
			dst = addrOf(data)
		case unix.RTA_GATEWAY:
			r.Via = addrOf(data)
		case unix.RTA_ENCAP_TYPE:
			r.Wrap = uint16Of(data) == wrapIPv6
		case unix.RTA_ENCAP:
			encap = data
		case unix.RTA_OIF:
			r.Link = names[int(uint32Of(data))]
		case unix.RTA_PRIORITY:
			r.Metric = uint32Of(data)
		case unix.RTA_METRICS:
			for typ, data := range attrs(data) {
				if typ == unix.RTAX_MTU {
					r.MTU = int(uint32Of(data))
				}
			}
		}
	}
	if r.Wrap {
		for typ, data := range attrs(encap) {
			switch typ {
			case wrapTo:
				r.Via = addrOf(data)
			case wrapFrom:
				r.From = addrOf(data)
			}
		}
	}
	if r.Drop {
		r.Link = "" // IPv6 says it is the loopback
	}
	if family == unix.AF_INET6 && r.Metric == defaultMetric6 {
		r.Metric = 0
	}
	r.Dst = netip.PrefixFrom(dst, bits)
	return r, r.Dst.IsValid()
}

// decodeAddr reads an address, except for the link-local address that the kernel
// gives every device by itself.
func decodeAddr(b []byte, names names) (netstate.Addr, bool) {
	var a netstate.Addr
	if len(b) < unix.SizeofIfAddrmsg || b[3] == unix.RT_SCOPE_LINK {
		return a, false
	}
	a.Link = names[int(native.Uint32(b[4:]))]
	var ip netip.Addr
	for typ, data := range attrs(b[unix.SizeofIfAddrmsg:]) {
		// IPv6 has only IFA_ADDRESS. With a peer, IFA_LOCAL is IPv4's own.
		if typ == unix.IFA_LOCAL || typ == unix.IFA_ADDRESS && !ip.IsValid() {
			ip = addrOf(data)
		}
	}
	a.Prefix = netip.PrefixFrom(ip, int(b[1]))
	return a, a.Prefix.IsValid()
}

// decodeNeigh reads a neighbour or forwarding entry, and reports whether it is
// permanent, as ours are.
func decodeNeigh(b []byte, names names) (o netstate.Object, permanent, ok bool) {
	if len(b) < unix.SizeofNdMsg {
		return nil, false, false
	}
	link := names[int(native.Uint32(b[4:]))]
	permanent = native.Uint16(b[8:])&unix.NUD_PERMANENT != 0
	var dst netip.Addr
	var mac netstate.MAC
	odd := false
	for typ, data := range attrs(b[unix.SizeofNdMsg:]) {
		switch {
		case typ == unix.NDA_DST:
			dst = addrOf(data)
		case typ == unix.NDA_LLADDR && len(data) == len(mac):
			mac = netstate.MAC(data)
		case typ == unix.NDA_PORT, typ == unix.NDA_VNI, typ == unix.NDA_IFINDEX:
			odd = true
		}
	}
	if b[0] == unix.AF_BRIDGE {
		return netstate.FDB{Link: link, MAC: mac, Odd: odd, Dst: dst}, permanent, dst.IsValid() // a bridge's own entry has none
	}
	return netstate.Neigh{Link: link, IP: dst, MAC: mac}, permanent, dst.IsValid()
}

// linkName reads the index and the name of a link.
func linkName(b []byte) (index int, name string) {
	if len(b) < unix.SizeofIfInfomsg {
		return 0, ""
	}
	for typ, data := range attrs(b[unix.SizeofIfInfomsg:]) {
		if typ == unix.IFLA_IFNAME {
			name = stringOf(data)
			break
		}
	}
	return int(native.Uint32(b[4:])), name
}

// decodeLink reads a link. Of a kind that we do not make, it reads what all links
// have.
func decodeLink(b []byte, names names) (netstate.Link, bool) {
	link, err := netlink.LinkDeserialize(nil, b)
	if err != nil {
		return netstate.Link{}, false
	}
	at := link.Attrs()
	l := netstate.Link{
		Name: at.Name, Kind: link.Type(), MTU: at.MTU, Group: at.Group,
		Up: at.RawFlags&unix.IFF_UP != 0, Master: names[at.MasterIndex],
	}
	switch link := link.(type) {
	case *netlink.Vxlan:
		if len(at.HardwareAddr) == len(l.MAC) {
			l.MAC = netstate.MAC(at.HardwareAddr)
		}
		l.Lower = names[link.VtepDevIndex]
		l.Local, l.Remote = specified(link.SrcAddr), specified(link.Group)
		l.VXLAN = netstate.VXLAN{
			VNI: uint32(link.VxlanId), Port: uint16(link.Port),
			Learning: link.Learning, GBP: link.GBP,
		}
	case *netlink.Iptun:
		l.Lower, l.ByRoute = names[at.ParentIndex], link.FlowBased
		l.Local, l.Remote = specified(link.Local), specified(link.Remote)
	case *netlink.Tuntap:
		if kind, ours := tunKind(link); ours {
			l.Kind = kind
		}
	case *netlink.Ip6tnl:
		l.Lower, l.ByRoute = names[at.ParentIndex], link.FlowBased
		l.Local, l.Remote = specified(link.Local), specified(link.Remote)
	}
	return l, true
}

// specified returns ip, or the zero Addr for an unspecified address.
func specified(ip net.IP) netip.Addr {
	a := addrOf(ip).Unmap()
	if a.IsUnspecified() {
		return netip.Addr{}
	}
	return a
}

// Attributes of RTM_NEWNETCONF messages, from linux/netconf.h.
const (
	netconfIfindex    = 1
	netconfForwarding = 2
	netconfRPFilter   = 3

	netconfAll     = -1
	netconfDefault = -2
)

// decodeNetconf returns the paths of the settings of a device, among those that we
// set, whose change the kernel reports.
func decodeNetconf(b []byte, names names) []string {
	if len(b) < 1 {
		return nil
	}
	family, link := "ipv4", ""
	if b[0] == unix.AF_INET6 {
		family = "ipv6"
	}
	var settings []string
	for typ, data := range attrsAfter(b, 4) {
		switch typ {
		case netconfIfindex:
			switch index := int32(uint32Of(data)); index {
			case netconfAll:
				link = "all"
			case netconfDefault:
			default:
				link = names[int(index)]
			}
		case netconfForwarding:
			settings = append(settings, "forwarding")
		case netconfRPFilter:
			settings = append(settings, "rp_filter")
		}
	}
	if link == "" {
		return nil
	}
	for i, name := range settings {
		settings[i] = "net/" + family + "/conf/" + link + "/" + name
	}
	return settings
}
