package awstest

import (
	"net/netip"
	"strings"
)

type subnet struct {
	meta
	vpc        *vpc
	zone       zone
	v4         netip.Prefix
	v6         []block
	isDefault  bool
	public     bool // instances get a public address
	assignV6   bool
	dns64      bool
	byName     bool // host names are made of the resource ID instead of the address
	aRecord    bool
	aaaaRecord bool
	used       map[netip.Addr]bool
	last4      netip.Addr // the last assigned address
	last6      netip.Addr
}

func (a *account) addSubnet(v *vpc, v4 netip.Prefix, z zone) *subnet {
	s := &subnet{meta: a.newMeta("subnet", "subnet"), vpc: v, zone: z, v4: v4, used: make(map[netip.Addr]bool)}
	// AWS keeps the first four addresses and the last one.
	at := v4.Addr()
	for range 4 {
		s.used[at] = true
		at = at.Next()
	}
	s.used[lastOf(v4)] = true
	s.last4 = v4.Addr()
	return a.subnets.add(s)
}

// lastOf returns the last address of an IPv4 block.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b)
}

// free returns the number of unused addresses.
func (s *subnet) free() int { return 1<<(32-s.v4.Bits()) - s.used4() }

func (s *subnet) used4() int {
	n := 0
	for a := range s.used {
		if a.Is4() {
			n++
		}
	}
	return n
}

// take returns a free IPv4 address and marks it used.
func (s *subnet) take() (netip.Addr, *Error) {
	at := s.last4
	for range 1 << (32 - s.v4.Bits()) {
		if at = at.Next(); !s.v4.Contains(at) {
			at = s.v4.Addr()
		}
		if !s.used[at] {
			s.used[at], s.last4 = true, at
			return at, nil
		}
	}
	return at, bad("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", s.id)
}

// claim marks a requested address used.
func (s *subnet) claim(text string) (netip.Addr, *Error) {
	at, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return at, bad("InvalidParameterValue", "Value (%s) for parameter privateIpAddress is invalid. Invalid IP address", text)
	case at.Is4() && !s.v4.Contains(at) || at.Is6() && !s.holds6(at):
		return at, bad("InvalidParameterValue", "Address does not fall within the subnet's address range")
	case s.used[at]:
		return at, bad("InvalidIPAddress.InUse", "Address %s is in use.", at)
	}
	s.used[at] = true
	return at, nil
}

func (s *subnet) holds6(at netip.Addr) bool {
	for _, b := range s.v6 {
		if b.prefix.Contains(at) {
			return true
		}
	}
	return false
}

// take6 returns a free IPv6 address and marks it used.
func (s *subnet) take6() (netip.Addr, *Error) {
	if len(s.v6) == 0 {
		return netip.Addr{}, bad("InvalidParameterValue", "The subnet '%s' does not have an IPv6 CIDR block", s.id)
	}
	p := s.v6[0].prefix
	if !p.Contains(s.last6) {
		b := p.Addr().As16()
		b[15] = 0xf
		s.last6 = netip.AddrFrom16(b)
	}
	for s.last6 = s.last6.Next(); s.used[s.last6]; s.last6 = s.last6.Next() {
	}
	s.used[s.last6] = true
	return s.last6, nil
}

func createSubnet(r *request) error {
	v, err := wanted(r, "VpcId", &r.vpcs, noVPC)
	if err != nil {
		return err
	}
	text, err := r.form.want("CidrBlock")
	if err != nil {
		return err
	}
	v4, err := r.prefixOf(text, false)
	if err != nil {
		return err
	}
	inside := false
	for _, b := range v.v4 {
		inside = inside || b.prefix.Overlaps(v4) && v4.Bits() >= b.prefix.Bits()
	}
	if !inside || v4.Bits() > 28 {
		return bad("InvalidSubnet.Range", "The CIDR '%s' is invalid.", v4)
	}
	for _, o := range r.subnets.order {
		if o.vpc == v && o.v4.Overlaps(v4) {
			return bad("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", v4)
		}
	}
	z := r.zones[0]
	for _, name := range []string{r.form.text("AvailabilityZone"), r.form.text("AvailabilityZoneId")} {
		if name != "" {
			var ok bool
			if z, ok = r.zone(name); !ok {
				return bad("InvalidParameterValue", "Value (%s) for parameter availabilityZone is invalid. Subnets can currently only be created in the following availability zones: %s.", name, r.zoneNames())
			}
		}
	}
	var v6 []block
	if text := r.form.text("Ipv6CidrBlock"); text != "" {
		b, err := r.subnetV6(v, text)
		if err != nil {
			return err
		}
		v6 = []block{b}
	}
	tags, err := r.newTags("subnet")
	if err != nil {
		return err
	}
	if len(r.subnets.find(func(s *subnet) bool { return s.vpc == v })) >= r.set.SubnetsPerVPC {
		return bad("SubnetLimitExceeded", "The maximum number of subnets has been reached.")
	}
	s := r.addSubnet(v, v4, z)
	s.v6 = v6
	s.addTags(tags["subnet"])
	r.x.within("subnet", func() { writeSubnet(r, s) })
	return nil
}

// subnetV6 reads an IPv6 block for a subnet of a VPC.
func (r *request) subnetV6(v *vpc, text string) (block, error) {
	p, err := r.prefixOf(text, true)
	if err != nil {
		return block{}, err
	}
	inside := false
	for _, b := range v.v6 {
		inside = inside || b.prefix.Contains(p.Addr()) && p.Bits() >= b.prefix.Bits()
	}
	if !inside || p.Bits() < 44 || p.Bits() > 64 || p.Bits()%4 != 0 {
		return block{}, bad("InvalidSubnet.Range", "The CIDR '%s' is invalid.", p)
	}
	for _, o := range r.subnets.order {
		for _, b := range o.v6 {
			if o.vpc == v && b.prefix.Overlaps(p) {
				return block{}, bad("InvalidSubnet.Conflict", "The CIDR '%s' conflicts with another subnet", p)
			}
		}
	}
	return block{"subnet-cidr-assoc-" + r.hex(), p}, nil
}

func (a *account) zoneNames() string {
	var names []string
	for _, z := range a.zones {
		names = append(names, z.name)
	}
	return strings.Join(names, ", ")
}

func writeSubnet(r *request, s *subnet) {
	x := r.x
	x.text("subnetId", s.id)
	x.text("subnetArn", r.arn(ec2Service, "subnet/"+s.id))
	x.text("state", "available")
	x.text("ownerId", r.place.account)
	x.text("vpcId", s.vpc.id)
	x.text("cidrBlock", s.v4.String())
	items(x, "ipv6CidrBlockAssociationSet", s.v6, func(b block) { x.v6Block(b, "") })
	x.number("availableIpAddressCount", s.free())
	x.text("availabilityZone", s.zone.name)
	x.text("availabilityZoneId", s.zone.id)
	x.flag("defaultForAz", s.isDefault)
	x.flag("mapPublicIpOnLaunch", s.public)
	x.flag("mapCustomerOwnedIpOnLaunch", false)
	x.flag("assignIpv6AddressOnCreation", s.assignV6)
	x.flag("enableDns64", s.dns64)
	x.flag("ipv6Native", false)
	x.within("privateDnsNameOptionsOnLaunch", func() { x.hostname(s.byName, s.aRecord, s.aaaaRecord) })
	x.tags(s.tags)
}

func (x *answer) hostname(byName, a, aaaa bool) {
	kind := "ip-name"
	if byName {
		kind = "resource-name"
	}
	x.text("hostnameType", kind)
	x.flag("enableResourceNameDnsARecord", a)
	x.flag("enableResourceNameDnsAAAARecord", aaaa)
}

// arn returns the ARN of an object of the account.
func (a *account) arn(service, resource string) string {
	return "arn:aws:" + service + ":" + a.region + ":" + a.place.account + ":" + resource
}

var subnetKind = &kind[*subnet]{
	ids: "SubnetId", set: "subnetSet", least: 5, most: 1000, missing: noSubnet, write: writeSubnet,
	by: attributes[*subnet]{
		"subnet-id":               func(_ *request, s *subnet) []string { return one(s.id) },
		"subnet-arn":              func(r *request, s *subnet) []string { return one(r.arn(ec2Service, "subnet/"+s.id)) },
		"vpc-id":                  func(_ *request, s *subnet) []string { return one(s.vpc.id) },
		"availability-zone":       func(_ *request, s *subnet) []string { return one(s.zone.name) },
		"availabilityZone":        func(_ *request, s *subnet) []string { return one(s.zone.name) },
		"availability-zone-id":    func(_ *request, s *subnet) []string { return one(s.zone.id) },
		"availabilityZoneId":      func(_ *request, s *subnet) []string { return one(s.zone.id) },
		"cidr":                    func(_ *request, s *subnet) []string { return one(s.v4.String()) },
		"cidrBlock":               func(_ *request, s *subnet) []string { return one(s.v4.String()) },
		"cidr-block":              func(_ *request, s *subnet) []string { return one(s.v4.String()) },
		"default-for-az":          func(_ *request, s *subnet) []string { return yes(s.isDefault) },
		"defaultForAz":            func(_ *request, s *subnet) []string { return yes(s.isDefault) },
		"map-public-ip-on-launch": func(_ *request, s *subnet) []string { return yes(s.public) },
		"ipv6-cidr-block-association.ipv6-cidr-block": func(_ *request, s *subnet) []string { return prefixes(s.v6) },
		"owner-id": func(r *request, _ *subnet) []string { return one(r.place.account) },
		"state":    func(*request, *subnet) []string { return one("available") },
	},
}

func describeSubnets(r *request) error { return describe(r, &r.subnets, subnetKind) }
