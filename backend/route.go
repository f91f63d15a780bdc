package backend

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Metrics says which metrics the IPv4 routes to peers have.
type Metrics bool

const (
	// PlainMetrics puts all of them on metric 0.
	PlainMetrics Metrics = false
	// SpreadMetrics spreads them (netstate.SpreadMetric).
	SpreadMetrics Metrics = true
)

// Via returns the route to peer's subnet by a gateway. A peer whose MTU is smaller
// than ours gets no packets larger than it can take.
func Via(own, peer subnet.Lease, f subnet.Family, gateway netip.Addr, link string, m Metrics) netstate.Route {
	r := netstate.Route{Dst: peer.Subnets[f], Via: gateway, Link: link}
	if m == SpreadMetrics && f == subnet.IPv4 {
		r.Metric = netstate.SpreadMetric(r.Dst)
	}
	// A peer that claims less than all hosts can take would only do harm.
	if m := max(peer.Node.MTU, MinimumMTU[f]); peer.Node.MTU > 0 && m < own.Node.MTU {
		r.MTU = m
	}
	return r
}

// MinimumMTU is what all hosts must be able to take, by family.
var MinimumMTU = subnet.Pair[int]{subnet.IPv4: 576, subnet.IPv6: 1280}

// Direct returns the link on which addr is reached without a router, if there is one:
// that of the longest network that contains it.
func (h HostFacts) Direct(addr netip.Addr) (link string, ok bool) {
	longest := -1
	for _, r := range h.OnLink {
		if bits := r.Dst.Bits(); bits > longest && r.Dst.Contains(addr) {
			// A route through a router excludes its part from the network around it.
			longest, link, ok = bits, r.Link, !r.Via.IsValid()
		}
	}
	return link, ok
}

// Families calls f for each family in which own and peer both have a subnet and peer
// is reachable. It returns the objects of all calls. A failure in one family does not
// affect the other.
func (h HostFacts) Families(own, peer subnet.Lease, f func(subnet.Family, netip.Addr) ([]netstate.Object, error)) ([]netstate.Object, error) {
	var objects []netstate.Object
	var failed error
	for _, family := range subnet.Families {
		if !own.Subnets[family].IsValid() || !peer.Subnets[family].IsValid() {
			continue
		}
		err := h.CheckPeer(family, peer)
		if err == nil {
			var more []netstate.Object
			more, err = f(family, peer.PublicIP[family])
			if len(objects) == 0 {
				objects = more // of the only family, nearly always
			} else {
				objects = append(objects, more...)
			}
		}
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", family, err))
		}
	}
	return objects, failed
}

// CheckPeer returns why a peer is unreachable in a family.
func (h HostFacts) CheckPeer(f subnet.Family, peer subnet.Lease) error {
	if err := h.checkPublicIP(f, peer.PublicIP[f]); err != nil {
		return err
	}
	if own := h.Uplinks[f].Address; peer.Subnets[f].Contains(own) {
		return fmt.Errorf("%w: this node's own %s is inside the lease's %s", subnet.ErrPublicIP, own, peer.Subnets[f])
	}
	return nil
}

// checkPublicIP returns why no other host is reachable at ip. subnet.Table has
// already checked what depends on leases alone.
func (h HostFacts) checkPublicIP(f subnet.Family, ip netip.Addr) error {
	switch {
	case !ip.IsValid():
		return ErrNoPublicIP
	case subnet.FamilyOf(ip) != f:
		return fmt.Errorf("%w: %s is not an %s address", subnet.ErrPublicIP, ip, f)
	case ip == h.Uplinks[f].Address:
		// Behind NAT, packets to it would loop back to us.
		return fmt.Errorf("%w: %s is this node's own", subnet.ErrPublicIP, ip)
	case h.isBroadcast(ip):
		return fmt.Errorf("%w: %s is the broadcast address of one of this node's links", subnet.ErrPublicIP, ip)
	}
	return nil
}

// isBroadcast reports whether packets to ip go to all hosts on a link.
func (h HostFacts) isBroadcast(ip netip.Addr) bool {
	if !ip.Is4() {
		return false
	}
	for _, r := range h.OnLink {
		// A network of two hosts has no broadcast address.
		if !r.Via.IsValid() && r.Dst.Bits() < 31 && r.Dst.Contains(ip) && !r.Dst.Contains(ip.Next()) {
			return true
		}
	}
	return false
}
