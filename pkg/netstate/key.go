package netstate

import (
	"cmp"
	"fmt"
	"net/netip"
)

// Kind is a kind of object. The order of the kinds is the order in which
// objects are made; they are removed in reverse.
type Kind uint8

// The kinds, in the order in which they depend on one another.
const (
	KindLink Kind = iota
	KindSysctl
	KindAddr
	KindNeigh
	KindFDB
	KindWGPeer
	KindWGAllowed
	KindUDPPeer
	KindRoute
	KindCommand
	kinds
)

// Kinds lists all kinds in order.
func Kinds() []Kind {
	return []Kind{KindLink, KindSysctl, KindAddr, KindNeigh, KindFDB, KindWGPeer, KindWGAllowed, KindUDPPeer, KindRoute, KindCommand}
}

func (k Kind) String() string {
	if k >= kinds {
		return fmt.Sprintf("kind(%d)", uint8(k))
	}
	return [kinds]string{"link", "sysctl", "addr", "neigh", "fdb", "wgpeer", "wgallowed", "udppeer", "route", "command"}[k]
}

// Key names one object by what the kernel itself uses to distinguish objects. Which
// fields are set depends on the kind; see each object's Key method.
type Key struct {
	Name   string // link name, a sysctl's path, or a command's; none for a route
	IP     netip.Addr
	Peer   PublicKey
	Metric uint32
	MAC    MAC
	Bits   uint8 // of the prefix that begins with IP
	Kind   Kind
}

// Prefix returns the prefix that k has, if it has one.
func (k Key) Prefix() netip.Prefix { return netip.PrefixFrom(k.IP, int(k.Bits)) }

// bitsOf returns a valid prefix's length.
func bitsOf(p netip.Prefix) uint8 { return uint8(p.Bits()) }

func (k Key) String() string {
	switch k.Kind {
	case KindAddr:
		return fmt.Sprintf("addr %s dev %s", k.Prefix(), k.Name)
	case KindNeigh:
		return fmt.Sprintf("neigh %s dev %s", k.IP, k.Name)
	case KindFDB:
		return fmt.Sprintf("fdb %s dev %s", k.MAC, k.Name)
	case KindWGPeer:
		return fmt.Sprintf("wgpeer %s dev %s", k.Peer, k.Name)
	case KindWGAllowed:
		return fmt.Sprintf("wgallowed %s dev %s", k.Prefix(), k.Name)
	case KindUDPPeer:
		return fmt.Sprintf("udppeer %s dev %s", k.Prefix(), k.Name)
	case KindCommand:
		if !k.IP.IsValid() {
			return k.Name
		}
		return fmt.Sprintf("%s %s", k.Name, k.Prefix())
	case KindRoute:
		if k.Metric == 0 {
			return fmt.Sprintf("route %s", k.Prefix())
		}
		return fmt.Sprintf("route %s metric %d", k.Prefix(), k.Metric)
	default:
		return fmt.Sprintf("%s %s", k.Kind, k.Name)
	}
}

// Compare orders keys: by kind, then by what they name.
func (k Key) Compare(o Key) int {
	return cmp.Or(
		cmp.Compare(k.Kind, o.Kind),
		cmp.Compare(k.Name, o.Name),
		k.IP.Compare(o.IP),
		cmp.Compare(k.Bits, o.Bits),
		cmp.Compare(k.Metric, o.Metric),
		cmp.Compare(string(k.MAC[:]), string(o.MAC[:])),
		k.Peer.Compare(o.Peer),
	)
}

// LinkOf returns the name of the link that an object is, lives on or goes through,
// or "".
func LinkOf(o Object) string {
	switch o := o.(type) {
	case Route:
		return o.Link
	case Sysctl:
		return o.link()
	case Command:
		return ""
	default:
		return o.Key().Name
	}
}
