package netstate

import (
	"fmt"
	"net/netip"
	"strings"
)

// Object is one thing that the kernel holds: a Link, Sysctl, Addr, Neigh, FDB,
// WGPeer, WGAllowed, UDPPeer or Route; or a Command. All of them are comparable, so two
// objects differ exactly when != says so.
type Object interface {
	Key() Key
	String() string
}

// Link is a network device of ours.
type Link struct {
	Name  string
	Kind  string // the kernel's name of the device type, as TunnelVXLAN
	MAC   MAC    // zero where the type has none
	MTU   int
	Group uint32
	Up    bool

	Local   netip.Addr // the outer source address
	ByRoute bool       // where packets go, and from which address, their route says
	Remote  netip.Addr // the only far end; never set by us: we have many
	Lower   string     // the device that the tunnel is bound to; normally none
	Master  string     // the bridge that others made it a port of; never wanted
	VXLAN   VXLAN      // zero unless the kind's Tunnel has Frames

	WireGuard WireGuard // zero unless it IsWireGuard
	UDP       UDP       // zero unless the kind is TunnelUDP
}

// VXLAN is what a vxlan device has beyond other links.
type VXLAN struct {
	VNI      uint32
	Port     uint16
	Learning bool
	GBP      bool
}

// Sysctl is one kernel setting. It has no absence: a Diff never deletes it.
type Sysctl struct {
	Path  string // below /proc/sys, or that of TxChecksum
	Value string
}

// TxChecksum returns the setting of whether a link leaves it to the device below to
// put checksums into what it sends: "on" or "off". It is no file, and in all
// else like those that are.
func TxChecksum(link, value string) Sysctl {
	return Sysctl{Path: "ethtool/" + link + "/tx-checksum", Value: value}
}

// TxChecksumOf returns the link whose TxChecksum has that path, if one has.
func TxChecksumOf(path string) (link string, ok bool) {
	link, ok = strings.CutSuffix(path, "/tx-checksum")
	if ok {
		link, ok = strings.CutPrefix(link, "ethtool/")
	}
	if !ok || link == "" || strings.Contains(link, "/") {
		return "", false
	}
	return link, true
}

// Addr is an address on a link of ours.
type Addr struct {
	Link   string
	Prefix netip.Prefix // the address with its length, not masked
}

// Neigh is a permanent neighbour entry on a link of ours.
type Neigh struct {
	Link string
	IP   netip.Addr
	MAC  MAC
}

// FDB is a permanent forwarding entry of a vxlan link of ours: frames to MAC
// go to the host Dst.
type FDB struct {
	Link string
	MAC  MAC
	Odd  bool // it goes by another port, VNI or device than the link's; never wanted
	Dst  netip.Addr
}

// Route is a route of the main table.
type Route struct {
	Dst    netip.Prefix
	Via    netip.Addr
	Link   string
	From   netip.Addr // see Wrap
	MTU    int        // 0: the link's
	Metric uint32
	OnLink bool // the gateway is taken to be on the link though no address says so
	// Wrap makes Via the host that a link with ByRoute wraps packets for, and
	// From the address that they are sent from.
	Wrap bool
	Drop bool // it leads nowhere; then all but Dst, Metric and Protocol is empty
	// Protocol is 0 for a route of ours. Any other number is another's route
	// which a dump shows because we may have to take its place.
	Protocol uint8
}

// Key names the link among all links.
func (l Link) Key() Key { return Key{Kind: KindLink, Name: l.Name} }

// Key names the setting.
func (s Sysctl) Key() Key { return Key{Kind: KindSysctl, Name: s.Path} }

// link returns the link whose setting s is, as in net/ipv4/conf/LINK/rp_filter. A
// re-created link has the default value.
func (s Sysctl) link() string {
	if link, ok := TxChecksumOf(s.Path); ok {
		return link
	}
	rest, ok := strings.CutPrefix(s.Path, "net/")
	if !ok {
		return ""
	}
	part := strings.SplitN(rest, "/", 4)
	if len(part) < 4 || part[1] != "conf" && part[1] != "neigh" || part[2] == "all" || part[2] == "default" {
		return ""
	}
	return part[2]
}

// Key names the address. The kernel distinguishes the addresses of a link by address
// and length.
func (a Addr) Key() Key {
	return Key{Kind: KindAddr, Name: a.Link, IP: a.Prefix.Addr(), Bits: bitsOf(a.Prefix)}
}

// Key names the neighbour on its link.
func (n Neigh) Key() Key {
	return Key{Kind: KindNeigh, Name: n.Link, IP: n.IP, Bits: uint8(n.IP.BitLen())}
}

// Key names the forwarding entry on its link.
func (f FDB) Key() Key { return Key{Kind: KindFDB, Name: f.Link, MAC: f.MAC} }

// Key names the route: the kernel keeps one for a destination and metric,
// whatever its device, gateway or owner.
func (r Route) Key() Key {
	return Key{Kind: KindRoute, IP: r.Dst.Addr(), Bits: bitsOf(r.Dst), Metric: r.Metric}
}

// CanBecome reports whether l can be changed into want while it lives. Otherwise
// it has to be deleted and made again, and all that is on it with it.
func (l Link) CanBecome(want Link) bool {
	l.MAC, l.MTU, l.Group, l.Up, l.Master = want.MAC, want.MTU, want.Group, want.Up, want.Master
	l.WireGuard, l.UDP = want.WireGuard, want.UDP
	return l == want
}

func (l Link) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "link %s %s mtu %d group %d", l.Name, l.Kind, l.MTU, l.Group)
	if !l.MAC.IsZero() {
		fmt.Fprintf(&b, " mac %s", l.MAC)
	}
	if l.Local.IsValid() {
		fmt.Fprintf(&b, " local %s", l.Local)
	}
	if l.Remote.IsValid() {
		fmt.Fprintf(&b, " remote %s", l.Remote)
	}
	if l.ByRoute {
		b.WriteString(" by route")
	}
	if l.Lower != "" {
		fmt.Fprintf(&b, " lower %s", l.Lower)
	}
	if l.Master != "" {
		fmt.Fprintf(&b, " master %s", l.Master)
	}
	if TunnelOf(l.Kind).Frames {
		fmt.Fprintf(&b, " vni %d port %d learning %t gbp %t", l.VXLAN.VNI, l.VXLAN.Port, l.VXLAN.Learning, l.VXLAN.GBP)
	}
	if l.IsWireGuard() {
		fmt.Fprintf(&b, " port %d key %s", l.WireGuard.Port, l.WireGuard.Key)
	}
	if l.UDP != (UDP{}) {
		fmt.Fprintf(&b, " at %s network %s source %s", l.UDP.Local, l.UDP.Network, l.UDP.Source)
		if l.UDP.Own.IsValid() {
			fmt.Fprintf(&b, " own %s", l.UDP.Own)
		}
	}
	if l.Up {
		return b.String() + " up"
	}
	return b.String() + " down"
}

func (s Sysctl) String() string { return fmt.Sprintf("sysctl %s=%s", s.Path, s.Value) }

func (a Addr) String() string { return fmt.Sprintf("addr %s dev %s", a.Prefix, a.Link) }

func (n Neigh) String() string { return fmt.Sprintf("neigh %s mac %s dev %s", n.IP, n.MAC, n.Link) }

func (f FDB) String() string {
	s := fmt.Sprintf("fdb %s dst %s dev %s", f.MAC, f.Dst, f.Link)
	if f.Odd {
		s += " odd"
	}
	return s
}

func (r Route) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "route %s", r.Dst)
	switch {
	case r.Drop:
		b.WriteString(" drop")
	case r.Wrap:
		fmt.Fprintf(&b, " wrap from %s to %s", r.From, r.Via)
	case r.Via.IsValid():
		fmt.Fprintf(&b, " via %s", r.Via)
	}
	if !r.Drop {
		fmt.Fprintf(&b, " dev %s", r.Link)
	}
	if r.OnLink {
		b.WriteString(" onlink")
	}
	if r.MTU != 0 {
		fmt.Fprintf(&b, " mtu %d", r.MTU)
	}
	if r.Metric != 0 {
		fmt.Fprintf(&b, " metric %d", r.Metric)
	}
	if r.Protocol != 0 {
		fmt.Fprintf(&b, " proto %d", r.Protocol)
	}
	return b.String()
}
