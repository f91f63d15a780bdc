package hostif

import (
	"cmp"
	"net/netip"
	"slices"
	"sort"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// usable reports whether a can face the other hosts in family f. An IPv6 link-local
// address has no meaning without its link; IPv4's may have.
func (s Spec) usable(a netstate.HostAddr, f subnet.Family) bool {
	ip := a.Addr()
	if subnet.FamilyOf(ip) != f || ip.Is4In6() || a.Duplicate || s.overlay(ip) {
		return false
	}
	return ip.IsGlobalUnicast() || f == subnet.IPv4 && ip.IsLinkLocalUnicast()
}

// isBridge reports whether a link is one of the containers' bridges.
func (s Spec) isBridge(link string) bool { return slices.Contains(s.Bridges, link) }

// overlay reports whether a belongs to the overlay network.
func (s Spec) overlay(a netip.Addr) bool {
	return s.Networks[subnet.IPv4].Contains(a) || s.Networks[subnet.IPv6].Contains(a)
}

// usableOf returns the usable addresses of a link, the best first. via is the router
// that they must reach, if there is one.
func (s Spec) usableOf(l *netstate.HostLink, f subnet.Family, via netip.Addr) []netip.Addr {
	if s.isBridge(l.Name) {
		return nil
	}
	var addrs []netstate.HostAddr
	for _, a := range l.Addrs {
		if s.usable(a, f) {
			addrs = append(addrs, a)
		}
	}
	sort.SliceStable(addrs, func(i, j int) bool { return s.compare(addrs[i], addrs[j], f, via) < 0 })
	ips := make([]netip.Addr, len(addrs))
	for i, a := range addrs {
		ips[i] = a.Addr()
	}
	return ips
}

// compare orders the usable addresses of one link. Disadvantages of an address count
// first. Among equals the last choice stays, then the kernel's order decides.
func (s Spec) compare(a, b netstate.HostAddr, f subnet.Family, via netip.Addr) int {
	return cmp.Or(
		against(a.Deprecated, b.Deprecated),
		against(a.Secondary, b.Secondary),
		against(a.Addr().IsLinkLocalUnicast(), b.Addr().IsLinkLocalUnicast()),
		against(isFloating(a), isFloating(b)),
		against(!a.Contains(via), !b.Contains(via)),
		against(a.Dynamic, b.Dynamic),
		against(a.Addr() != s.Last[f], b.Addr() != s.Last[f]),
	)
}

// isFloating reports whether an address looks like one that VRRP or a similar
// protocol moves between hosts: set by hand, and without a network of its own.
func isFloating(a netstate.HostAddr) bool { return a.IsSingleIP() && !a.Dynamic }

// against orders a value with a disadvantage after one without.
func against(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	default:
		return -1
	}
}
