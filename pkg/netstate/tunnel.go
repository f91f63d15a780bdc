package netstate

import (
	"fmt"
	"iter"
	"maps"
)

// The kinds of tunnel devices, by the kernel's names of their types where the kernel moves
// the packets.
const (
	TunnelVXLAN = "vxlan"
	TunnelIPIP  = "ipip"
	TunnelIP6   = "ip6tnl"

	TunnelWireGuard = "wireguard"

	// TunnelWireGuardTUN is a TUN device of one queue, behind which a program does what a
	// wireguard device does in the kernel.
	TunnelWireGuardTUN = "wireguard-tun"

	// TunnelUDP is a TUN device of several queues. A program that reads it sends its packets in UDP, and
	// writes to it what it receives.
	TunnelUDP = "tun"
)

// Tunnel is what all tunnel devices of one kind have in common.
type Tunnel struct {
	// Overhead4 and Overhead6 are how many bytes the outer headers take where the
	// outer packets are IPv4 or IPv6; 0 where they never are.
	Overhead4, Overhead6 int
	// Protocol is the outer packets' IP protocol. UDP is at the device's own port.
	Protocol uint8
	// Frames says that it carries Ethernet frames. Then its devices have a MAC and
	// the parts of VXLAN, and there is one for each VNI and port.
	Frames bool
	// ByRoute says that the routes on its device say where packets go, and that a
	// host has one such device.
	ByRoute bool
	// UserSpace says that no kernel moves the packets, but a program does.
	UserSpace bool
}

const udp = 17

// tunnels has every kind that tulle makes or adopts.
var tunnels = map[string]Tunnel{
	TunnelVXLAN: {Overhead4: 50, Overhead6: 70, Protocol: udp, Frames: true},
	TunnelIPIP:  {Overhead4: 20, Protocol: 4},
	TunnelIP6:   {Overhead6: 40, Protocol: 41, ByRoute: true},

	TunnelWireGuard:    {Overhead4: 60, Overhead6: 80, Protocol: udp},
	TunnelWireGuardTUN: {Overhead4: 60, Overhead6: 80, Protocol: udp, UserSpace: true},
	TunnelUDP:          {Overhead4: 28, Overhead6: 48, Protocol: udp, UserSpace: true},
}

// Tunnels returns all kinds of tunnels.
func Tunnels() iter.Seq2[string, Tunnel] { return maps.All(tunnels) }

// TunnelOf returns what the devices of a kind have in common; the zero Tunnel if
// the kind is none of a tunnel's.
func TunnelOf(kind string) Tunnel { return tunnels[kind] }

// IsTunnel reports whether l is a tunnel device of a kind that tulle makes.
func (l Link) IsTunnel() bool { return tunnels[l.Kind] != Tunnel{} }

// Traffic returns what firewalls between the hosts know a tunnel's packets by.
func (l Link) Traffic() string {
	switch t := tunnels[l.Kind]; {
	case l.IsWireGuard():
		return fmt.Sprintf("UDP port %d", l.WireGuard.Port)
	case l.Kind == TunnelUDP:
		return fmt.Sprintf("UDP port %d", l.UDP.Local.Port())
	case t.Protocol == udp:
		return fmt.Sprintf("UDP port %d", l.VXLAN.Port)
	case t.Protocol != 0:
		return fmt.Sprintf("IP protocol %d", t.Protocol)
	}
	return l.Kind
}
