package subnet

import (
	"fmt"
	"net/netip"
)

// visible returns the part of l that counts under this config. A family that is off
// has no subnet and no backend data. Its public IP stays if it is usable, because a
// tunnel over it may carry the other family.
func (c Config) visible(l Lease) Lease {
	for f, pool := range c.Pools {
		if pool.IsValid() {
			continue
		}
		l.Subnets[f], l.BackendData[f] = netip.Prefix{}, ""
		if ip := l.PublicIP[f]; ip.IsValid() && c.checkPublicIP(Family(f), ip, l) != nil {
			l.PublicIP[f] = netip.Addr{}
		}
	}
	return l
}

// check returns why l, which is visible, cannot be a peer of the node that holds own,
// regardless of other leases.
func (c Config) check(l, own Lease) error {
	reserved := !c.Given && l.isUnused() && !unnamed(own.BackendType)
	if !reserved && !own.sharesBackend(&l.Attrs) {
		return fmt.Errorf("%w: %q, not %q as this node", ErrBackendType, l.BackendType, own.BackendType)
	}
	if l.Subnets == (Pair[netip.Prefix]{}) {
		return ErrNoSubnet
	}
	for f, s := range l.Subnets {
		pool := c.Pools[f]
		switch {
		case s == netip.Prefix{}:
		case !pool.Within(s):
			return fmt.Errorf("%w: %s is no part of %s", ErrOutsideNetwork, s, pool.Network)
		case s.Overlaps(own.Subnets[f]):
			return fmt.Errorf("%w: %s and %s", ErrOwnSubnet, s, own.Subnets[f])
		case s.Contains(own.PublicIP[f]):
			return fmt.Errorf("%w: this node's %s is inside the lease's %s", ErrPublicIP, own.PublicIP[f], s)
		}
	}
	if reserved {
		return errReserved
	}
	if l.PublicIP == (Pair[netip.Addr]{}) {
		return fmt.Errorf("%w: the lease has none", ErrPublicIP)
	}
	for f, ip := range l.PublicIP {
		switch {
		case !ip.IsValid():
		case ip == own.PublicIP[f]:
			return fmt.Errorf("%w: %s is this node's own", ErrPublicIP, ip)
		default:
			if err := c.checkPublicIP(Family(f), ip, l); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPublicIP returns why the holder of l cannot be reachable at ip, or nil. Hosts
// may lie inside the network where the pool leaves room for them.
func (c Config) checkPublicIP(f Family, ip netip.Addr, l Lease) error {
	switch {
	case FamilyOf(ip) != f || ip.Is4In6() || ip.Zone() != "" || !ip.IsGlobalUnicast():
		return fmt.Errorf("%w: %s is not an %s address that other hosts can reach", ErrPublicIP, ip, f)
	case c.Pools[f].covers(ip) || l.Subnets[f].Contains(ip):
		return fmt.Errorf("%w: %s is inside the overlay", ErrPublicIP, ip)
	}
	return nil
}
