package awsnet

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/netip"
	"slices"
)

// The schemas by which a VPC is divided into subnets if the Spec lists none.
const (
	equalSchema   = "Equal" // the default: all subnets are of one size
	privateSchema = "PreferPrivate"
	publicSchema  = "PreferPublic"
)

const (
	defaultZones = 3
	// smallestSubnet is the length of the smallest subnet that AWS allows.
	smallestSubnet = 28
)

// Prefer returns zones with those first that have subnets of the cluster, for Complete.
// So a zone that AWS adds, or that is impaired for some time, does not move an existing
// subnet.
func Prefer(zones []Zone, o Owner, a Account) []Zone {
	out := slices.Clone(zones)
	for _, f := range a.Found {
		s, is := f.Object.(Subnet)
		if !is || !o.Owns(f.Tags) {
			continue
		}
		for i := range out {
			k, ok := ParseKey(f.Tags[PartTag])
			if out[i].Name == s.Zone && ok && (k.Name == filledName(o, true, s.Zone) || k.Name == filledName(o, false, s.Zone)) {
				out[i].Used = true
			}
		}
	}
	return out
}

// filledName is the name of a subnet that the Spec does not list.
func filledName(o Owner, public bool, zone string) string {
	return fmt.Sprintf("%s-subnet-%s-%s", o.Cluster, roleOf(public), zone)
}

func roleOf(public bool) string {
	if public {
		return "public"
	}
	return "private"
}

// fill divides the VPC into public and private subnets in some zones.
func (c *checker) fill() {
	zones := c.chosen()
	if len(zones) == 0 || !c.net.IPv4.IsValid() {
		return
	}
	public, private, ok := c.divide(len(zones))
	if !ok {
		return
	}
	for i, z := range zones {
		for j, block := range []netip.Prefix{public[i], private[i]} {
			n := Net{Zone: z, ZoneType: RegularZone, IPv4: block, Public: j == 0}
			n.Name = filledName(c.net.Owner, n.Public, z)
			if c.net.IPv6 {
				n.HasIPv6, n.IPv6 = true, c.slice(1+i+j*len(zones))
			}
			c.net.Subnets = append(c.net.Subnets, n)
		}
	}
	if c.net.IPv6 && c.net.IPv6Block.IsValid() && c.net.IPv6Block.Bits() > 56 && 2*len(zones) > 1<<(64-c.net.IPv6Block.Bits()) {
		c.refuse("network.vpc.ipv6.cidrBlock", "%s has %d subnets of /64, and %d zones need %d; use a larger block, or lower availabilityZoneUsageLimit", c.net.IPv6Block, 1<<(64-c.net.IPv6Block.Bits()), len(zones), 2*len(zones))
	}
}

// slice returns the /64 with a number from 1.
func (c *checker) slice(i int) Slice {
	if c.net.IPv6Pool == AmazonPool || !c.net.IPv6Block.IsValid() {
		return Slice{Nth: i}
	}
	p, _ := nth(c.net.IPv6Block, 64, i-1)
	return Slice{Prefix: p}
}

// divide returns the blocks of the public and of the private subnets in n zones.
func (c *checker) divide(n int) (public, private []netip.Prefix, ok bool) {
	schema := equalSchema
	if s := c.spec.Network.VPC.SubnetSchema; s != nil && *s != "" {
		schema = *s
	}
	block := c.net.IPv4
	switch schema {
	case equalSchema:
		all, ok := split(block, 2*n, smallestSubnet)
		if !ok {
			return c.tooSmall(n)
		}
		return all[:n], all[n:], true
	case privateSchema, publicSchema:
		// One part for each zone, and a first part that the smaller subnets share.
		large, ok := split(block, n+1, smallestSubnet)
		if !ok {
			return c.tooSmall(n)
		}
		small, ok := split(large[0], n, smallestSubnet)
		if !ok {
			return c.tooSmall(n)
		}
		if schema == privateSchema {
			return small, large[1:], true
		}
		return large[1:], small, true
	}
	c.refuse("network.vpc.subnetSchema", "%.60q; use %s, %s or %s", schema, equalSchema, privateSchema, publicSchema)
	return nil, nil, false
}

func (c *checker) tooSmall(n int) (public, private []netip.Prefix, ok bool) {
	c.refuse("network.vpc.cidrBlock", "%s is too small for public and private subnets in %d zones, and AWS allows none smaller than /%d; use a larger block, lower availabilityZoneUsageLimit, or list the subnets", c.net.IPv4, n, smallestSubnet)
	return nil, nil, false
}

// chosen returns the names of the zones that get subnets.
func (c *checker) chosen() (names []string) {
	v := c.spec.Network.VPC
	limit, selection := defaultZones, "Ordered"
	if v.ZoneLimit != nil {
		limit = *v.ZoneLimit
	}
	if v.ZoneSelection != nil && *v.ZoneSelection != "" {
		selection = *v.ZoneSelection
	}
	if limit < 1 {
		c.refuse("network.vpc.availabilityZoneUsageLimit", "%d; use 1 or more", limit)
		return nil
	}
	if selection != "Ordered" && selection != "Random" {
		c.refuse("network.vpc.availabilityZoneSelection", "%.60q; use Ordered or Random", selection)
	}
	var fit []Zone
	for _, z := range c.zones {
		if z.Type == RegularZone && (z.Usable || z.Used) {
			fit = append(fit, z)
		}
	}
	// Random chooses the same zones for a cluster each time, so that subnets do not
	// move.
	rank := make(map[string]string)
	for _, z := range fit {
		rank[z.Name] = z.Name
		if selection == "Random" {
			sum := sha256.Sum256([]byte(c.spec.UID + "/" + z.Name))
			rank[z.Name] = string(sum[:])
		}
	}
	slices.SortFunc(fit, func(a, b Zone) int {
		if a.Used != b.Used {
			if a.Used {
				return -1
			}
			return 1
		}
		return cmp.Compare(rank[a.Name], rank[b.Name])
	})
	for _, z := range fit[:min(limit, len(fit))] {
		names = append(names, z.Name)
	}
	if len(names) == 0 {
		c.refuse("region", "%s has no availability zone that this account can use; choose another region", c.spec.Region)
	}
	slices.Sort(names)
	return names
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
