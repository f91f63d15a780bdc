package awsnet

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// mostSubnets is AWS's default quota, which an account can raise. A Spec with more is a
// mistake.
const mostSubnets = 1000

// subnets checks the subnets that the Spec lists, or divides the VPC.
func (c *checker) subnets() {
	list := c.spec.Network.Subnets
	switch {
	case len(list) > mostSubnets:
		c.refuse("network.subnets", "%d subnets; list at most %d", len(list), mostSubnets)
		return
	case len(list) == 0 && c.net.VPCID != "":
		c.refuse("network.subnets", "empty, and %s is not this cluster's; list its subnets with id, availabilityZone and isPublic, or set the tag %s=%s in network.vpc.tags if the cluster made the VPC", c.net.VPCID, c.net.Owner.Tag(), owned)
		return
	case len(list) == 0:
		c.fill()
		return
	}
	byName := make(map[string]int)
	for i, s := range list {
		field := fmt.Sprintf("network.subnets[%d]", i)
		n := c.subnet(field, s)
		if j, twice := byName[n.Name]; twice {
			c.refuse(field+".id", "%.120q is also that of network.subnets[%d]; give each subnet its own", n.Name, j)
		}
		byName[n.Name] = i
		c.net.Subnets = append(c.net.Subnets, n)
	}
	c.number()
	c.overlaps()
}

// subnet reads one subnet of the list.
func (c *checker) subnet(field string, s SubnetSpec) Net {
	n := Net{Name: s.ID, Zone: s.Zone, Public: s.Public, HasIPv6: s.IPv6 || s.IPv6CIDR != "", PodsOnly: s.Tags[secondaryTag] == "secondary", Tags: s.Tags}
	if !partName.MatchString(s.ID) {
		c.refuse(field+".id", "%.140q; use 1 to 120 letters, digits and _.:/=+@-", s.ID)
	}
	c.tags(field+".tags", s.Tags)
	c.zone(field, s, &n)
	if c.net.VPCID != "" {
		n.ID = orText(s.ResourceID, s.ID)
		if !isID("subnet", n.ID) {
			c.refuse(field+".id", "%.60q is no ID of a subnet, and %s is not this cluster's, so no subnet is made in it; use an ID such as subnet-0a1b2c3d", n.ID, c.net.VPCID)
		}
		n.IPv4, _ = netip.ParsePrefix(s.CIDR)
		return n
	}
	switch {
	case s.CIDR != "":
		n.IPv4 = c.block(field+".cidrBlock", s.CIDR, 16, smallestSubnet)
		inside := slices.ContainsFunc(append([]netip.Prefix{c.net.IPv4}, c.net.Secondary...), func(p netip.Prefix) bool { return within(p, n.IPv4) })
		if n.IPv4.IsValid() && c.net.IPv4.IsValid() && !inside {
			c.refuse(field+".cidrBlock", "%s is outside the VPC's blocks, %s; choose a part of them, or add it to network.vpc.secondaryCidrBlocks", n.IPv4, listed(append([]netip.Prefix{c.net.IPv4}, c.net.Secondary...)))
		}
	case !n.HasIPv6:
		c.refuse(field+".cidrBlock", "empty; give a part of %s, or set isIpv6 for a subnet without IPv4", c.net.IPv4)
	case c.net.HostnameType == "ip-name":
		c.refuse("network.vpc.privateDnsHostnameTypeOnLaunch", "ip-name is impossible in %s, which has no IPv4; use resource-name", field)
	}
	if n.HasIPv6 {
		c.subnetIPv6(field, s, &n)
	}
	return n
}

// zone checks the zone of a subnet.
func (c *checker) zone(field string, s SubnetSpec, n *Net) {
	i := slices.IndexFunc(c.zones, func(z Zone) bool { return z.Name == s.Zone })
	if i < 0 && c.draft && strings.HasPrefix(s.Zone, c.spec.Region) {
		if n.ZoneType = RegularZone; s.ZoneType != nil && *s.ZoneType != "" {
			n.ZoneType = *s.ZoneType
		}
		return
	}
	if i < 0 {
		var names []string
		for _, z := range c.zones {
			if z.Usable && z.Type == RegularZone {
				names = append(names, z.Name)
			}
		}
		c.refuse(field+".availabilityZone", "%.60q is no zone of %s; use one of %s", s.Zone, c.spec.Region, strings.Join(names[:min(len(names), 8)], ", "))
		return
	}
	z := c.zones[i]
	n.ZoneType, n.Parent = z.Type, z.Parent
	if !z.Usable && c.net.VPCID == "" && !z.Used {
		c.refuse(field+".availabilityZone", "this account cannot use %s; opt in to its zone group, or use another zone", z.Name)
	}
	if s.ZoneType != nil && *s.ZoneType != "" && *s.ZoneType != z.Type {
		c.refuse(field+".zoneType", "%.60q, but %s is of the type %s; correct it, or leave it out", *s.ZoneType, z.Name, z.Type)
	}
}

// subnetIPv6 checks the IPv6 settings of a subnet in a VPC of ours.
func (c *checker) subnetIPv6(field string, s SubnetSpec, n *Net) {
	switch {
	case !c.net.IPv6:
		c.refuse(field+".isIpv6", "the VPC has no IPv6; add an empty network.vpc.ipv6, or leave it out")
	case n.edge():
		c.refuse(field+".isIpv6", "%s is a %s, and AWS gives subnets there no IPv6; leave it out", s.Zone, n.ZoneType)
	}
	if s.IPv6CIDR == "" {
		return
	}
	p, err := netip.ParsePrefix(s.IPv6CIDR)
	switch {
	case err != nil || !p.Addr().Is6() || p.Addr().Is4In6() || p.Masked() != p:
		c.refuse(field+".ipv6CidrBlock", "%.60q is no block of IPv6; use one such as 2001:db8:1234:1::/64", s.IPv6CIDR)
	case p.Bits() != 64:
		c.refuse(field+".ipv6CidrBlock", "%s: AWS allows /64 for a subnet; use %s", p, netip.PrefixFrom(p.Addr(), 64))
	case !c.net.IPv6Block.IsValid():
		c.refuse(field+".ipv6CidrBlock", "%s: the VPC's block is not known before Amazon chooses it; leave this out, and the subnet gets a part of it", p)
	case !within(c.net.IPv6Block, p):
		c.refuse(field+".ipv6CidrBlock", "%s is outside the VPC's block %s; choose a part of it", p, c.net.IPv6Block)
	case c.net.IPv6Pool == AmazonPool:
		n.IPv6 = Slice{Nth: number(c.net.IPv6Block, p)}
	default:
		n.IPv6 = Slice{Prefix: p}
	}
}

// number assigns the first free /64 to each subnet that has IPv6 but no block of it in
// the Spec.
func (c *checker) number() {
	taken := make(map[Slice]bool)
	for _, n := range c.net.Subnets {
		taken[n.IPv6] = true
	}
	next := 1
	for i := range c.net.Subnets {
		n := &c.net.Subnets[i]
		if !n.HasIPv6 || n.IPv6 != (Slice{}) || n.ID != "" {
			continue
		}
		for taken[c.slice(next)] && next < mostSubnets*2 {
			next++
		}
		n.IPv6 = c.slice(next)
		if c.net.IPv6Block.IsValid() && next > 1<<min(64-c.net.IPv6Block.Bits(), 20) {
			c.refuse(fmt.Sprintf("network.subnets[%d].isIpv6", i), "%s has no /64 left for this subnet; use a larger block", c.net.IPv6Block)
			return
		}
		taken[n.IPv6] = true
	}
}

// overlaps refuses subnets that overlap.
func (c *checker) overlaps() {
	for i, a := range c.net.Subnets {
		for j, b := range c.net.Subnets[:i] {
			field := fmt.Sprintf("network.subnets[%d].", i)
			if a.IPv4.IsValid() && b.IPv4.IsValid() && a.IPv4.Overlaps(b.IPv4) {
				c.refuse(field+"cidrBlock", "%s overlaps %s of network.subnets[%d]; choose another block", a.IPv4, b.IPv4, j)
			}
			if a.IPv6 != (Slice{}) && a.IPv6 == b.IPv6 {
				c.refuse(field+"ipv6CidrBlock", "%s is also that of network.subnets[%d]; choose another block", c.spec.Network.Subnets[i].IPv6CIDR, j)
			}
		}
	}
}

// ways checks by which NAT gateways and endpoints traffic leaves the subnets.
func (c *checker) ways() {
	n, o := &c.net, c.spec.Options
	n.KeepAddresses = o.KeepAddresses
	switch n.NAT = o.NATGateways; n.NAT {
	case "":
		n.NAT = NATPerZone
	case NATPerZone, NATSingle, NATNone:
	default:
		c.refuse("natGateways", "%.60q; use %s, %s or %s", o.NATGateways, NATPerZone, NATSingle, NATNone)
	}
	if n.VPCID != "" {
		n.NAT = NATNone
		if o.GatewayEndpoints != nil && len(*o.GatewayEndpoints) > 0 {
			c.refuse("gatewayEndpoints", "%s is not this cluster's, so it gets none; leave it out", n.VPCID)
		}
		return
	}
	n.Endpoints = []string{"dynamodb", "s3"}
	if o.GatewayEndpoints != nil {
		n.Endpoints = slices.Clone(*o.GatewayEndpoints)
		slices.Sort(n.Endpoints)
		n.Endpoints = slices.Compact(n.Endpoints)
	}
	for _, e := range n.Endpoints {
		if e != "s3" && e != "dynamodb" {
			c.refuse("gatewayEndpoints", "%.60q has no gateway endpoint; AWS has them for s3 and dynamodb", e)
		}
	}
	public := slices.ContainsFunc(n.Subnets, func(s Net) bool { return s.Public && s.fits() })
	private := slices.ContainsFunc(n.Subnets, func(s Net) bool { return !s.Public })
	if n.NAT != NATNone && private && !public {
		c.refuse("network.subnets", "none is public and in an availability zone, and NAT gateways for the private ones need one; set isPublic, or natGateways: %s", NATNone)
	}
}

func listed(all []netip.Prefix) string {
	var words []string
	for _, p := range all {
		words = append(words, p.String())
	}
	return strings.Join(words, ", ")
}
