package hostif

import (
	"math"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Interfaces is what an overlay needs to know of its host.
type Interfaces struct {
	Uplinks subnet.Pair[Uplink]
	// Holds reports in which families the host still has the address of the uplink. It
	// may have it when no route leads beyond the link any more.
	Holds subnet.Pair[bool]
	// Gateways are the routers of the uplinks' default routes.
	Gateways subnet.Pair[netip.Addr]
	// OnLink is netstate.Survey's list, except for networks within the overlay.
	OnLink []netstate.Route
	// Tunnels are the tunnel devices that no other program uses. A change of them alone
	// is not followed: most are our own.
	Tunnels []netstate.Link
	// Bridges are those of Spec.Bridges that the host has, in that order.
	Bridges []Bridge
}

// Bridge is a bridge of containers.
type Bridge struct {
	Name  string
	Addrs []netip.Prefix // with their networks' lengths, in the kernel's order, without link-local ones
}

// Equal reports whether b and o are the same and have the same addresses.
func (b Bridge) Equal(o Bridge) bool { return b.Name == o.Name && slices.Equal(b.Addrs, o.Addrs) }

// same reports whether h and o are equal for a follower.
func (h Interfaces) same(o Interfaces) bool {
	for f := range h.Uplinks {
		if !h.Uplinks[f].same(o.Uplinks[f]) {
			return false
		}
	}
	return h.Holds == o.Holds && h.Gateways == o.Gateways && slices.Equal(h.OnLink, o.OnLink) && slices.EqualFunc(h.Bridges, o.Bridges, Bridge.Equal)
}

// OnlyGateways reports whether a follower's next Interfaces, o, differ from h in the gateways
// alone.
func (h Interfaces) OnlyGateways(o Interfaces) bool {
	changed := h.Gateways != o.Gateways
	o.Gateways = h.Gateways
	return changed && h.same(o)
}

// host returns the state in v, except for the uplinks.
func (s Spec) host(v View) Interfaces {
	h := Interfaces{Tunnels: v.Tunnels()}
	for _, r := range v.OnLink {
		if !s.within(r) {
			h.OnLink = append(h.OnLink, r)
		}
	}
	for _, name := range s.Bridges {
		i := slices.IndexFunc(v.Links, func(l netstate.HostLink) bool { return l.Name == name })
		if i < 0 {
			continue
		}
		b := Bridge{Name: name}
		for _, a := range v.Links[i].Addrs {
			b.Addrs = append(b.Addrs, a.Prefix)
		}
		h.Bridges = append(h.Bridges, b)
	}
	return h
}

// holds reports whether the host has the address of u where u says.
func (v View) holds(u Uplink) bool {
	return slices.ContainsFunc(v.Links, func(l netstate.HostLink) bool {
		return l.Name == u.Link && slices.ContainsFunc(l.Addrs, func(a netstate.HostAddr) bool { return a.Prefix.Addr() == u.Address })
	})
}

// gateway returns the router of the first default route through u in a family, if there
// is one.
func (v View) gateway(f subnet.Family, u Uplink) (via netip.Addr) {
	best := uint32(math.MaxUint32)
	for _, d := range v.Defaults {
		if d.Link == u.Link && subnet.FamilyOf(d.Dst.Addr()) == f && d.Via.IsValid() && subnet.FamilyOf(d.Via) == f && !d.Down && (d.Priority < best || !via.IsValid()) {
			via, best = d.Via, d.Priority
		}
	}
	return via
}

// within reports whether r leads to a part of the overlay.
func (s Spec) within(r netstate.Route) bool {
	network := s.Networks[subnet.FamilyOf(r.Dst.Addr())]
	return network.IsValid() && network.Bits() <= r.Dst.Bits() && network.Contains(r.Dst.Addr())
}
