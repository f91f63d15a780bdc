package backend

import (
	"net/netip"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Forwarding returns what a host needs to forward packets of the families in which
// own has subnets.
func (h HostFacts) Forwarding(own subnet.Lease) []netstate.Object {
	var settings []netstate.Object
	for _, f := range subnet.Families {
		if !own.Subnets[f].IsValid() {
			continue
		}
		if u := h.Uplinks[f]; f == subnet.IPv6 && u.TakesRouterAdvertisements {
			// A host that forwards drops what it learned from routers, including its default
			// route, unless this setting keeps it.
			settings = append(settings, setting(f, u.Link, "accept_ra", "2"))
		}
		settings = append(settings, setting(f, "all", "forwarding", "1"))
		if u := h.Uplinks[f]; f == subnet.IPv4 && u.Link != "" {
			// The device on which a packet arrives decides.
			settings = append(settings, setting(f, u.Link, "forwarding", "1"))
		}
	}
	return settings
}

// overlay returns a tunnel device with its address and its settings.
func overlay(own subnet.Lease, f subnet.Family, l netstate.Link) []netstate.Object {
	at := own.Subnets[f].Addr()
	objects := []netstate.Object{l, netstate.Addr{Link: l.Name, Prefix: netip.PrefixFrom(at, at.BitLen())}}
	if f == subnet.IPv6 {
		// A host may have IPv6 off by default on all devices.
		return append(objects, setting(f, l.Name, "disable_ipv6", "0"), setting(f, l.Name, "accept_ra", "0"))
	}
	// A peer may send through the tunnel what we send to it directly. Loose overrides a
	// strict setting for all devices.
	return append(objects, setting(f, l.Name, "forwarding", "1"), setting(f, l.Name, "rp_filter", "2"))
}

func setting(f subnet.Family, link, name, value string) netstate.Sysctl {
	family := "ipv4"
	if f == subnet.IPv6 {
		family = "ipv6"
	}
	return netstate.Sysctl{Path: "net/" + family + "/conf/" + link + "/" + name, Value: value}
}
