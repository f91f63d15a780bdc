package awsnet

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// Check returns all problems of a Spec, given the zones of its region. It needs no call
// of AWS.
func Check(s Spec, zones []Zone) []Problem {
	_, problems := Complete(s, zones)
	return problems
}

// Complete returns what a Spec means, or why it cannot be built. The same Spec and zones
// always give the same Network. The zones are all of the region; see Prefer. If they are nil,
// they are not known yet: Complete then finds the problems that need no zones, and its Network is
// only a draft.
func Complete(s Spec, zones []Zone) (Network, []Problem) {
	c := &checker{spec: s, zones: zones, net: Network{Owner: Owner{Cluster: s.Cluster, UID: s.UID}, Region: s.Region, Tags: s.AdditionalTags}}
	if c.draft = zones == nil; c.draft {
		c.zones = []Zone{{Name: s.Region + "a", Type: RegularZone, Usable: true}}
	}
	c.general()
	c.vpc()
	c.subnets()
	c.ways()
	c.balancers()
	c.bastion()
	c.ingress()
	if len(c.problems) > 0 {
		return Network{}, c.problems
	}
	return c.net, nil
}

// checker reads a Spec once: it refuses what is wrong as a problem, and collects the
// rest in net.
type checker struct {
	spec     Spec
	zones    []Zone
	draft    bool // the zones are not known
	net      Network
	problems []Problem
}

func (c *checker) refuse(field, text string, args ...any) {
	c.problems = append(c.problems, Problem{"spec." + field, fmt.Sprintf(text, args...)})
}

var (
	clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$`)
	regionName  = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+){1,3}-[0-9]{1,2}$`)
	awsID       = regexp.MustCompile(`^[a-z][a-z0-9-]{1,30}-[0-9a-f]{4,32}$`)
	tagText     = regexp.MustCompile(`^[\pL\pN\pZ_.:/=+@-]*$`)
	partName    = regexp.MustCompile(`^[A-Za-z0-9_.:/=+@-]{1,120}$`)
	titleText   = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,30}[A-Za-z0-9])?$`)
)

// isID reports whether s looks like an ID of AWS with that prefix.
func isID(prefix, s string) bool { return strings.HasPrefix(s, prefix+"-") && awsID.MatchString(s) }

// CheckIdentity returns what is wrong with the region, the cluster's name and the UID of a
// network. They become part of a host name and of tags, so check them before the first call.
func CheckIdentity(region, cluster, uid string) (problems []Problem) {
	if !clusterName.MatchString(cluster) {
		problems = append(problems, Problem{"metadata.name", fmt.Sprintf("%.80q is no name of a cluster; use up to 63 small letters, digits, dots and dashes", cluster)})
	}
	if uid == "" || len(uid) > 128 || !tagText.MatchString(uid) {
		problems = append(problems, Problem{"metadata.uid", fmt.Sprintf("%.80q cannot be the value of a tag; use up to 128 letters, digits and dashes", uid)})
	}
	if !regionName.MatchString(region) {
		problems = append(problems, Problem{"spec.region", fmt.Sprintf("%.60q is no region of AWS; use one such as us-east-1", region)})
	}
	return problems
}

func (c *checker) general() {
	c.problems = append(c.problems, CheckIdentity(c.spec.Region, c.spec.Cluster, c.spec.UID)...)
	c.tags("additionalTags", c.spec.AdditionalTags)
	if p := c.spec.APIPort; p < 0 || p >= 1<<16 {
		c.refuse("controlPlaneEndpoint.port", "%d; use 1 to 65535, or leave it out for %d", p, usualPort)
	}
}

// mostTags leaves room for this program's tags. AWS allows 50.
const mostTags = 36

func (c *checker) tags(field string, tags map[string]string) {
	n := len(tags)
	if field != "additionalTags" {
		n += len(c.spec.AdditionalTags)
	}
	if n > mostTags {
		c.refuse(field, "%d tags with spec.additionalTags; AWS allows 50, and %d of them are needed, so give at most %d", n, 50-mostTags, mostTags)
	}
	for _, k := range sortedKeys(tags) {
		v := tags[k]
		switch {
		case k == "" || len(k) > 128 || !tagText.MatchString(k):
			c.refuse(field, "%.140q is no key of a tag; use 1 to 128 letters, digits, spaces and _.:/=+-@", k)
		case len(v) > 256 || !tagText.MatchString(v):
			c.refuse(field+"["+k+"]", "%.270q is no value of a tag; use up to 256 letters, digits, spaces and _.:/=+-@", v)
		case reserved(k) && !(k == ownerPrefix+c.spec.Cluster || k == roleTag):
			c.refuse(field, "the key %q is AWS's or this program's; remove it", k)
		}
	}
}

// vpc checks all of network.vpc except the zones.
func (c *checker) vpc() {
	v, n := c.spec.Network.VPC, &c.net
	const at = "network.vpc."
	if v.IPAMPool != nil {
		c.refuse(at+"ipamPool", "pools of the address manager are not supported; give cidrBlock")
	}
	if v.ID != "" && !isID("vpc", v.ID) {
		c.refuse(at+"id", "%.60q is no ID of a VPC; use one such as vpc-0a1b2c3d, or leave it out for a new VPC", v.ID)
	}
	c.tags(at+"tags", v.Tags)
	n.VPCTags = v.Tags
	c.hostnames(v)
	if p := v.ElasticIPPool; p != nil && p.Pool != nil && *p.Pool != "" {
		if !isID("ipv4pool-ec2", *p.Pool) {
			c.refuse(at+"elasticIpPool.publicIpv4Pool", "%.60q is no pool; use one such as ipv4pool-ec2-0a1b2c3d", *p.Pool)
		}
		n.AddressPool = *p.Pool
		if p.Fallback != nil && *p.Fallback != "none" {
			c.refuse(at+"elasticIpPool.publicIpv4PoolFallbackOrder", "%.30q: the other pool is never used silently; use none", *p.Fallback)
		}
	}
	if v.ID != "" && v.Tags[n.Owner.Tag()] != owned {
		n.VPCID = v.ID
		n.IPv6 = v.IPv6 != nil
		n.IPv4, _ = netip.ParsePrefix(v.CIDR)
		return
	}
	n.Owner.Adopt, n.EmptyDefaultGroup = v.ID, v.EmptyDefaultGroup
	n.IPv4 = c.block(at+"cidrBlock", orText(v.CIDR, "10.0.0.0/16"), 16, 28)
	seen := []netip.Prefix{n.IPv4}
	for i, b := range v.Secondary {
		field := fmt.Sprintf("%ssecondaryCidrBlocks[%d].ipv4CidrBlock", at, i)
		p := c.block(field, b.IPv4, 16, 28)
		if !p.IsValid() {
			continue
		}
		for _, other := range seen {
			if other.IsValid() && other.Overlaps(p) {
				c.refuse(field, "%s overlaps %s; choose another block", p, other)
			}
		}
		if why := unfit(n.IPv4, p); why != "" {
			c.refuse(field, "%s", why)
		}
		seen, n.Secondary = append(seen, p), append(n.Secondary, p)
	}
	if len(v.Secondary) > 49 {
		c.refuse(at+"secondaryCidrBlocks", "%d blocks; AWS allows 49", len(v.Secondary))
	}
	if v.IPv6 != nil {
		c.ipv6(*v.IPv6)
	}
}

func (c *checker) hostnames(v VPCSpec) {
	if v.HostnameType == nil || *v.HostnameType == "" {
		return
	}
	if *v.HostnameType != "ip-name" && *v.HostnameType != "resource-name" {
		c.refuse("network.vpc.privateDnsHostnameTypeOnLaunch", "%.60q; use ip-name or resource-name", *v.HostnameType)
	}
	c.net.HostnameType = *v.HostnameType
}

func (c *checker) ipv6(s IPv6Spec) {
	const at = "network.vpc.ipv6."
	n := &c.net
	n.IPv6, n.IPv6Pool = true, orText(s.PoolID, AmazonPool)
	if s.IPAMPool != nil {
		c.refuse(at+"ipamPool", "pools of the address manager are not supported; leave it out, and Amazon chooses a block, or give cidrBlock and poolId")
	}
	if n.IPv6Pool != AmazonPool && !isID("ipv6pool-ec2", n.IPv6Pool) {
		c.refuse(at+"poolId", "%.60q is no pool; use one such as ipv6pool-ec2-0a1b2c3d, or leave it out for Amazon's", n.IPv6Pool)
	}
	switch {
	case s.CIDR != "" && s.PoolID == "":
		c.refuse(at+"cidrBlock", "%.60s needs poolId, the pool that it is from; leave both out, and Amazon chooses a block", s.CIDR)
	case s.CIDR != "":
		p, err := netip.ParsePrefix(s.CIDR)
		switch {
		case err != nil || !p.Addr().Is6() || p.Addr().Is4In6() || p.Masked() != p:
			c.refuse(at+"cidrBlock", "%.60q is no block of IPv6; use one such as 2001:db8:1234::/56", s.CIDR)
		case p.Bits() < 44 || p.Bits() > 60 || p.Bits()%4 != 0:
			c.refuse(at+"cidrBlock", "%s: AWS allows /44, /48, /52, /56 and /60; use one of them", p)
		default:
			n.IPv6Block = p
		}
	}
}

// strange are the blocks that a VPC cannot have.
var strange = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("224.0.0.0/3"),
}

// block reads a block of IPv4 with a length in a range.
func (c *checker) block(field, text string, from, to int) netip.Prefix {
	p, err := netip.ParsePrefix(text)
	switch {
	case err != nil || !p.Addr().Is4():
		c.refuse(field, "%.60q is no block of IPv4; use one such as 10.0.0.0/16", text)
	case p.Masked() != p:
		c.refuse(field, "%s has host bits; use %s", p, p.Masked())
	case p.Bits() < from || p.Bits() > to:
		c.refuse(field, "%s: AWS allows /%d to /%d; choose a length between them", p, from, to)
	case slices.ContainsFunc(strange, p.Overlaps):
		c.refuse(field, "%s is reserved; use a part of 10.0.0.0/8, 172.16.0.0/12 or 192.168.0.0/16", p)
	default:
		return p
	}
	return netip.Prefix{}
}

// private are the ranges that AWS does not mix in one VPC.
var private = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"), netip.MustParsePrefix("192.168.0.0/16"),
}

// unfit returns why AWS does not add a block to a VPC with a given first block, or "".
func unfit(first, p netip.Prefix) string {
	if p.Overlaps(netip.MustParsePrefix("198.19.0.0/16")) {
		return fmt.Sprintf("%s: AWS keeps 198.19.0.0/16 for itself; choose another block", p)
	}
	for _, a := range private {
		if !within(a, first) {
			continue
		}
		for _, b := range private {
			if a != b && within(b, p) {
				return fmt.Sprintf("%s: AWS does not add a block of %s to a VPC of %s; use one of %s or 100.64.0.0/10", p, b, a, a)
			}
		}
	}
	return ""
}

func orText(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
