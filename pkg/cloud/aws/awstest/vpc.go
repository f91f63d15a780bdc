package awstest

import (
	"net/netip"
)

// block is an address block of a VPC or a subnet.
type block struct {
	id     string
	prefix netip.Prefix
}

type vpc struct {
	meta
	v4, v6                   []block // the first of v4 is the primary one
	dnsSupport, dnsHostnames bool
	usage                    bool // metrics of the use of addresses
	isDefault                bool
	main                     *table
	group                    *group // the default one
}

func (a *account) addVPC(v4 netip.Prefix) *vpc {
	v := a.vpcs.add(&vpc{meta: a.newMeta("vpc", "vpc"), dnsSupport: true})
	v.v4 = []block{{"vpc-cidr-assoc-" + a.hex(), v4}}
	v.main = a.addTable(v)
	v.main.associations = []*association{{id: "rtbassoc-" + a.hex(), main: true}}
	v.group = a.addGroup(v, "default", "default VPC security group")
	return v
}

// addDefaultVPC makes the VPC of a new account.
func (a *account) addDefaultVPC() {
	v := a.addVPC(netip.MustParsePrefix("172.31.0.0/16"))
	v.isDefault, v.dnsHostnames = true, true
	g := a.igws.add(&igw{meta: a.newMeta("internet-gateway", "igw"), vpc: v})
	v.main.add(&route{to: netip.MustParsePrefix("0.0.0.0/0"), via: target{"gatewayId", g.id}, origin: "CreateRoute"})
	for i, z := range a.zones {
		s := a.addSubnet(v, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 31, byte(16 * i), 0}), 20), z)
		s.isDefault, s.public = true, true
	}
}

// prefixOf reads an address block of a request.
func (r *request) prefixOf(text string, v6 bool) (netip.Prefix, error) {
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Addr().Is6() != v6 || p.Addr().Is4In6() {
		return p, bad("InvalidParameterValue", "Value (%s) for parameter cidrBlock is invalid. This is not a valid CIDR block.", text)
	}
	if r.set.StrictCIDRs && p != p.Masked() {
		return p, bad("InvalidParameterValue", "Value (%s) for parameter cidrBlock is invalid. It has bits outside of its mask; the block is %s.", text, p.Masked())
	}
	return p.Masked(), nil
}

func createVPC(r *request) error {
	text, err := r.form.want("CidrBlock")
	if err != nil {
		return err
	}
	v4, err := r.prefixOf(text, false)
	if err != nil {
		return err
	}
	if v4.Bits() < 16 || v4.Bits() > 28 {
		return bad("InvalidVpc.Range", "The CIDR '%s' is invalid.", v4)
	}
	v6, err := r.form.truth("AmazonProvidedIpv6CidrBlock", false)
	if err != nil {
		return err
	}
	tags, err := r.newTags("vpc")
	if err != nil {
		return err
	}
	if len(r.vpcs.order) >= r.set.VPCs {
		return bad("VpcLimitExceeded", "The maximum number of VPCs has been reached.")
	}
	v := r.addVPC(v4)
	v.addTags(tags["vpc"])
	if v6 {
		r.addV6(v)
	}
	r.x.within("vpc", func() { writeVPC(r, v) })
	return nil
}

// addV6 adds one of Amazon's IPv6 blocks to a VPC.
func (a *account) addV6(v *vpc) block {
	a.seq++
	b := block{"vpc-cidr-assoc-" + a.hex(), netip.PrefixFrom(netip.AddrFrom16([16]byte{0x2a, 0x05, 0xd0, 0x14, byte(a.seq >> 16), byte(a.seq >> 8), byte(a.seq)}), 56)}
	v.v6 = append(v.v6, b)
	a.addLocal(v, b.prefix)
	return b
}

func writeVPC(r *request, v *vpc) {
	x := r.x
	x.text("vpcId", v.id)
	x.text("state", "available")
	x.text("cidrBlock", v.v4[0].prefix.String())
	x.text("ownerId", r.place.account)
	x.text("dhcpOptionsId", "dopt-0123456789abcdef0")
	x.text("instanceTenancy", "default")
	x.flag("isDefault", v.isDefault)
	items(x, "cidrBlockAssociationSet", v.v4, x.v4Block)
	items(x, "ipv6CidrBlockAssociationSet", v.v6, func(b block) { x.v6Block(b, r.region) })
	x.tags(v.tags)
}

func (x *answer) v4Block(b block) {
	x.text("associationId", b.id)
	x.text("cidrBlock", b.prefix.String())
	x.within("cidrBlockState", func() { x.text("state", "associated") })
}

// v6Block writes an IPv6 block of a VPC or, without a region, of a subnet.
func (x *answer) v6Block(b block, region string) {
	x.text("associationId", b.id)
	x.text("ipv6CidrBlock", b.prefix.String())
	x.within("ipv6CidrBlockState", func() { x.text("state", "associated") })
	x.text("ipSource", "amazon")
	x.text("ipv6AddressAttribute", "public")
	if region != "" {
		x.text("ipv6Pool", "Amazon")
		x.text("networkBorderGroup", region)
	}
}

func prefixes(blocks []block) []string {
	var all []string
	for _, b := range blocks {
		all = append(all, b.prefix.String())
	}
	return all
}

func associations(blocks []block) []string {
	var all []string
	for _, b := range blocks {
		all = append(all, b.id)
	}
	return all
}

var vpcKind = &kind[*vpc]{
	ids: "VpcId", set: "vpcSet", least: 5, most: 1000, missing: noVPC, write: writeVPC,
	by: attributes[*vpc]{
		"vpc-id":                            func(_ *request, v *vpc) []string { return one(v.id) },
		"cidr":                              func(_ *request, v *vpc) []string { return one(v.v4[0].prefix.String()) },
		"cidrBlock":                         func(_ *request, v *vpc) []string { return one(v.v4[0].prefix.String()) },
		"cidr-block-association.cidr-block": func(_ *request, v *vpc) []string { return prefixes(v.v4) },
		"ipv6-cidr-block-association.ipv6-cidr-block": func(_ *request, v *vpc) []string { return prefixes(v.v6) },
		"cidr-block-association.association-id":       func(_ *request, v *vpc) []string { return associations(v.v4) },
		"ipv6-cidr-block-association.association-id":  func(_ *request, v *vpc) []string { return associations(v.v6) },
		"is-default": func(_ *request, v *vpc) []string { return yes(v.isDefault) },
		"isDefault":  func(_ *request, v *vpc) []string { return yes(v.isDefault) },
		"owner-id":   func(r *request, _ *vpc) []string { return one(r.place.account) },
		"state":      func(*request, *vpc) []string { return one("available") },
	},
}

func describeVPCs(r *request) error { return describe(r, &r.vpcs, vpcKind) }
