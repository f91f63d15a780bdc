package netstate

import (
	"fmt"
	"net/netip"
)

// UDP is what a link of TunnelUDP has beyond other links. The program that moves its
// packets has it, not the kernel: it is zero while no program does.
type UDP struct {
	Local   netip.AddrPort // it receives packets there, and sends them from there
	Network netip.Prefix   // inner packets go to its addresses
	Own     netip.Prefix   // the host's subnet, from which no peer sends; may be invalid
	Source  netip.Addr     // of ICMP errors
}

// UDPPeer is the far end of the packets to Prefix that go through a link of TunnelUDP.
// Packets are accepted from the hosts of such peers alone, and those from Prefix from its
// host alone.
type UDPPeer struct {
	Link     string
	Prefix   netip.Prefix
	Endpoint netip.AddrPort
}

// Key names the prefix. A link has one peer for it.
func (p UDPPeer) Key() Key {
	return Key{Kind: KindUDPPeer, Name: p.Link, IP: p.Prefix.Addr(), Bits: bitsOf(p.Prefix)}
}

func (p UDPPeer) String() string {
	return fmt.Sprintf("udppeer %s endpoint %s dev %s", p.Prefix, p.Endpoint, p.Link)
}
