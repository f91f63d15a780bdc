package awsnet

import (
	"net/netip"
	"slices"
)

// Wanted is an object of a Network, and the tags of its creation. Tags are nil for an
// object that has none of its own.
type Wanted struct {
	Object Object
	Tags   map[string]string
}

// Desired returns the objects of a Network.
func Desired(n Network) map[Key]Wanted {
	d := &desire{n: n, all: make(map[Key]Wanted)}
	d.groups()
	if n.VPCID != "" {
		d.vpc = Foreign(n.VPCID)
		d.taggings()
	} else {
		d.vpc = To(KindVPC, main)
		d.network()
	}
	d.securityGroups()
	d.balancers()
	d.bastion()
	return d.all
}

// desire collects the objects of a Network.
type desire struct {
	n       Network
	vpc     Ref
	sources map[Role]Ref
	all     map[Key]Wanted
}

// add adds an object with tags of its own.
func (d *desire) add(o Object, role, name string, more ...map[string]string) {
	d.all[o.Key()] = Wanted{o, d.n.Owner.tags(o.Key(), role, name, append([]map[string]string{d.n.Tags}, more...)...)}
}

// part adds an object without tags of its own.
func (d *desire) part(o Object) { d.all[o.Key()] = Wanted{Object: o} }

func (d *desire) name(suffix string) string { return d.n.Owner.Cluster + "-" + suffix }

// cloud returns the tag by which cloud controllers find the objects that they may use.
func (d *desire) cloud() map[string]string {
	return map[string]string{clusterTag + d.n.Owner.Cluster: owned}
}

const common = "common"

// defaultGroup is the name of the group that each VPC has. It is wanted only to be empty.
const defaultGroup = "default"

var (
	anyIPv4 = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	anyIPv6 = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	// nat64 is the prefix through which a subnet without IPv4 reaches hosts without
	// IPv6.
	nat64 = netip.MustParsePrefix("64:ff9b::/96")
)

// network adds a VPC of ours and its gateways.
func (d *desire) network() {
	n := d.n
	d.add(VPC{IPv4: n.IPv4, DNSSupport: true, DNSHostnames: true}, common, d.name("vpc"), n.VPCTags)
	for _, p := range n.Secondary {
		d.part(Block{VPC: d.vpc, Prefix: p})
	}
	if n.IPv6 {
		b := Block{VPC: d.vpc, Pool: n.IPv6Pool, Prefix: n.IPv6Block}
		if b.Pool == AmazonPool {
			b.Prefix = netip.Prefix{}
		}
		d.part(b)
	}
	if n.EmptyDefaultGroup {
		d.part(SecurityGroup{Role: defaultGroup, VPC: d.vpc, Title: defaultGroup})
	}
	d.gateways()
	for _, s := range n.Subnets {
		d.subnet(s)
	}
	d.tables()
	for _, service := range n.Endpoints {
		e := Endpoint{Service: service, VPC: d.vpc, Tables: RefsTo(d.tableRefs()...)}
		d.add(e, common, d.name(service))
	}
}

// subnet adds a subnet and its route table.
func (d *desire) subnet(s Net) {
	o := Subnet{
		Name: s.Name, VPC: d.vpc, Zone: s.Zone, IPv4: s.IPv4, IPv6: s.IPv6, HostnameType: d.n.HostnameType,
		PublicIPs:  s.Public && s.ZoneType != WavelengthZone && s.IPv4.IsValid(),
		AssignIPv6: s.HasIPv6,
		DNS64:      s.HasIPv6 && !s.Public && !s.IPv4.IsValid(),
	}
	tags := d.cloud()
	if s.fits() {
		tags[balancerTag(s.Public)] = "1"
	}
	d.add(o, roleOf(s.Public), s.Name, tags, s.Tags)
	d.part(Association{Subnet: To(KindSubnet, s.Name), Table: To(KindRouteTable, d.table(s))})
}

func balancerTag(public bool) string {
	if public {
		return publicTag
	}
	return internalTag
}

// table returns the name of a subnet's route table. All public subnets share one, and
// private subnets share one in each zone. Every table gets the routes of all nodes, so
// there are no more tables than necessary.
func (d *desire) table(s Net) string {
	switch {
	case s.Public && s.ZoneType == WavelengthZone:
		return "carrier"
	case s.Public:
		return "public"
	}
	return "private-" + s.Zone
}

// gateways adds the gateways that the subnets need.
func (d *desire) gateways() {
	n := d.n
	has := func(f func(Net) bool) bool { return slices.ContainsFunc(n.Subnets, f) }
	if has(func(s Net) bool { return s.Public && s.ZoneType != WavelengthZone }) {
		d.add(InternetGateway{VPC: d.vpc}, common, d.name("igw"))
	}
	if has(func(s Net) bool { return s.Public && s.ZoneType == WavelengthZone }) {
		d.add(CarrierGateway{VPC: d.vpc}, common, d.name("cagw"))
	}
	if has(func(s Net) bool { return !s.Public && s.HasIPv6 }) {
		d.add(EgressGateway{VPC: d.vpc}, common, d.name("eigw"))
	}
	for _, zone := range n.natZones() {
		i := slices.IndexFunc(n.Subnets, func(s Net) bool { return s.Zone == zone && s.Public && s.fits() })
		address := Address{Name: "nat-" + zone, Pool: n.AddressPool}
		kept := map[string]string{}
		if n.KeepAddresses {
			kept[KeptTag] = "true"
		}
		d.add(address, common, d.name("eip-nat-"+zone), kept)
		d.add(NATGateway{Name: zone, Subnet: To(KindSubnet, n.Subnets[i].Name), Address: To(KindAddress, address.Name)}, common, d.name("nat-"+zone))
	}
}

// natZones returns the zones that have a NAT gateway, in order.
func (n Network) natZones() (zones []string) {
	if n.NAT == NATNone || n.VPCID != "" {
		return nil
	}
	can := func(zone string) bool {
		return slices.ContainsFunc(n.Subnets, func(s Net) bool { return s.Zone == zone && s.Public && s.fits() })
	}
	first := ""
	for _, s := range n.Subnets {
		if s.Public && s.fits() && (first == "" || s.Zone < first) {
			first = s.Zone
		}
	}
	for _, s := range n.Subnets {
		if s.Public {
			continue
		}
		zone := s.Zone
		if s.edge() {
			zone = s.Parent
		}
		if !can(zone) {
			zone = first
		}
		if zone != "" && !slices.Contains(zones, zone) {
			zones = append(zones, zone)
		}
	}
	slices.Sort(zones)
	if n.NAT == NATSingle && len(zones) > 1 {
		zones = zones[:1]
	}
	return zones
}

// natFor returns the name of the NAT gateway for a private subnet, or "".
func (n Network) natFor(s Net) string {
	zones := n.natZones()
	for _, zone := range []string{s.Zone, s.Parent} {
		if slices.Contains(zones, zone) {
			return zone
		}
	}
	if len(zones) == 0 {
		return ""
	}
	return zones[0]
}

// tables adds the route tables and their routes.
func (d *desire) tables() {
	for _, s := range d.n.Subnets {
		name := d.table(s)
		table := To(KindRouteTable, name)
		d.add(RouteTable{Name: name, VPC: d.vpc}, common, d.name("rt-"+name), d.cloud())
		to := func(p netip.Prefix, via Ref) { d.part(Route{Table: table, To: p, Via: via}) }
		switch nat := d.n.natFor(s); {
		case name == "carrier":
			to(anyIPv4, To(KindCarrierGateway, main))
		case s.Public:
			to(anyIPv4, To(KindInternetGateway, main))
			if s.HasIPv6 {
				to(anyIPv6, To(KindInternetGateway, main))
			}
		default:
			if nat != "" {
				to(anyIPv4, To(KindNATGateway, nat))
			}
			if nat != "" && s.HasIPv6 && !s.IPv4.IsValid() {
				to(nat64, To(KindNATGateway, nat))
			}
			if s.HasIPv6 {
				to(anyIPv6, To(KindEgressGateway, main))
			}
		}
	}
}

func (d *desire) tableRefs() (all []Ref) {
	for _, k := range d.keys(KindRouteTable) {
		all = append(all, Ref{Key: k})
	}
	return all
}

func (d *desire) keys(kind Kind) (all []Key) {
	for k := range d.all {
		if k.Kind == kind {
			all = append(all, k)
		}
	}
	slices.SortFunc(all, compareKeys)
	return all
}

// taggings adds the tags on the subnets of a VPC that is not ours.
func (d *desire) taggings() {
	o := d.n.Owner
	for _, s := range d.n.Subnets {
		tags := map[string]string{clusterTag + o.Cluster: shared, sharerPrefix + o.Cluster: o.UID}
		if s.fits() {
			tags[balancerTag(s.Public)] = "1"
		}
		d.part(Tagging{ID: s.ID, Tags: PairsOf(tags)})
	}
}
