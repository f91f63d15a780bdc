package netstate

import "net/netip"

// Survey is what a host has of network, whatever program made it. pkg/kernel takes it; it is
// here so that what chooses an uplink links no netlink library.
type Survey struct {
	Links []HostLink
	// OnLink are the networks on the host's links, and the parts of them that
	// are reached through a router nevertheless.
	OnLink []Route
	// Defaults are the ways out of the host's networks, in the kernel's order.
	Defaults []DefaultRoute
}

// HostLink is one device of the host.
type HostLink struct {
	Link
	Addrs    []HostAddr
	Enslaved bool // to a bridge, a bond or a VRF
	// RouterAdvertisements says that the device is configured by routers as
	// long as the host does not forward IPv6.
	RouterAdvertisements bool
}

// HostAddr is an address of a device, with its network's length, and what
// speaks against it.
type HostAddr struct {
	netip.Prefix
	Secondary  bool // IPv4: not the first of its network; IPv6: a temporary one, for privacy
	Deprecated bool // not to be used for anything new
	Duplicate  bool // another host has it: unusable
	Dynamic    bool // it was given for a time, by DHCP or a router
}

// DefaultRoute is one way out of the host's networks: a default route, or one
// of the hops of a default route that has several.
type DefaultRoute struct {
	Route               // Via is zero on a link without routers, and may be of the other family
	Source   netip.Addr // that the route prescribes, or zero
	Priority uint32     // the metric as the kernel compares it: the lowest wins
	Down     bool       // there is nothing at the other end of the link's cable
}

// Path is how the host sends to an address.
type Path struct {
	Link   string
	Source netip.Addr
}

// Tunnels returns the devices that an overlay could take over: those that are part
// of nothing else.
func (s Survey) Tunnels() []Link {
	var out []Link
	for _, l := range s.Links {
		if !l.Enslaved && l.IsTunnel() {
			out = append(out, l.Link)
		}
	}
	return out
}
