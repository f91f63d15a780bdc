package awsnet

import (
	"net/netip"
	"slices"
	"strconv"
)

// Object is one thing that AWS holds: a VPC, Block, InternetGateway, EgressGateway,
// CarrierGateway, Subnet, Address, NATGateway, RouteTable, Route, Association, Endpoint,
// SecurityGroup, Rule, Balancer, TargetGroup, Listener, Bastion or Tagging. All of them are
// comparable. In an Account, Refs have IDs, and Name is empty; both become keys when Sort
// reads the tags.
type Object interface {
	Key() Key
	// refs returns the objects that an object refers to, and a copy of it with each Ref
	// replaced by what to returns.
	refs() []Ref
	with(to func(Ref) Ref) Object
}

// VPC is the cluster's own network.
type VPC struct {
	IPv4                     netip.Prefix
	DNSSupport, DNSHostnames bool
}

// Block is a further block of addresses of the VPC.
type Block struct {
	VPC Ref
	// Prefix is zero in a block of IPv6 that Amazon chooses; an Account has it in
	// Given. It is also zero if any block of another pool is wanted.
	Prefix netip.Prefix
	// Pool is the pool of a block of IPv6: AmazonPool, or the ID of one that the
	// account brought to AWS. It is empty for IPv4.
	Pool string
}

// AmazonPool is the pool of IPv6 addresses of Amazon.
const AmazonPool = "Amazon"

// InternetGateway connects a VPC to the internet. VPC is zero while it is not attached.
type InternetGateway struct{ VPC Ref }

// EgressGateway lets connections over IPv6 out, and none in.
type EgressGateway struct{ VPC Ref }

// CarrierGateway connects wavelength zones to the carrier's network.
type CarrierGateway struct{ VPC Ref }

// Subnet is a part of the VPC in one zone.
type Subnet struct {
	Name string
	VPC  Ref
	Zone string
	IPv4 netip.Prefix // zero in a subnet that has only IPv6
	IPv6 Slice
	// The following fields can be changed. An empty HostnameType leaves AWS's default.
	PublicIPs, AssignIPv6, DNS64 bool
	HostnameType                 string
}

// Slice is a /64 of IPv6: that with the number Nth-1 of the block that AWS chose for
// the VPC, or Prefix. The zero Slice is none.
type Slice struct {
	Nth    int
	Prefix netip.Prefix
}

// In returns the /64 in a VPC for which AWS chose block.
func (s Slice) In(block netip.Prefix) netip.Prefix {
	if s.Nth == 0 || !block.IsValid() {
		return s.Prefix
	}
	p, _ := nth(block, 64, s.Nth-1)
	return p
}

// Address is an elastic address.
type Address struct {
	Name string
	Pool string // the ID of the pool that the account brought to AWS, or ""
}

// NATGateway lets connections of the private subnets of zones out over IPv4.
type NATGateway struct {
	Name            string
	Subnet, Address Ref
}

// RouteTable is a set of routes for subnets.
type RouteTable struct {
	Name string
	VPC  Ref
}

// Route is a route of a table.
type Route struct {
	Table Ref
	To    netip.Prefix
	Via   Ref
	// Blackhole is set if the route's target is gone. A blackhole is never wanted.
	Blackhole bool
}

// Association associates a subnet with a route table.
type Association struct{ Subnet, Table Ref }

// Endpoint is a gateway endpoint, through which subnets reach a service of AWS without
// the internet.
type Endpoint struct {
	Service string // s3 or dynamodb
	VPC     Ref
	Tables  Refs
}

// SecurityGroup is a set of rules.
type SecurityGroup struct {
	Role string
	VPC  Ref
	// Title and Description are AWS's name and description. They cannot be changed.
	Title, Description string
}

// Rule lets traffic into, or out of, a security group. Its source or destination is one
// of Addresses, Group and Elastic.
type Rule struct {
	Owner  Ref // the security group that contains it
	Egress bool
	// Protocol is tcp, udp, icmp, icmpv6, another number, or -1 for all. Ports are zero
	// for a protocol without ports.
	Protocol  string
	From, To  int
	Addresses netip.Prefix
	Group     Ref
	// Elastic is an Address whose public address is not known yet.
	Elastic     Ref
	Description string
}

// Balancer is a network load balancer.
type Balancer struct {
	Name string
	// Title is AWS's name, which cannot be changed.
	Title     string
	Scheme    Scheme
	DualStack bool
	CrossZone bool
	Subnets   Refs
	Groups    Refs
	// Elastic are addresses of ours for the subnets, in the order of both sets. They
	// are assigned when the balancer is created. Without any, AWS chooses the
	// addresses.
	Elastic Refs
}

// Scheme is where a balancer's clients are.
type Scheme string

// The schemes, in the words of AWS.
const (
	Internal       Scheme = "internal"
	InternetFacing Scheme = "internet-facing"
)

// TargetGroup is the target of a listener. The instances in it are not part of the
// network.
type TargetGroup struct {
	Name, Title string
	VPC         Ref
	Port        int
	IPv6        bool
	Health      Health
	// PreserveIP keeps the client's address. EndUnhealthy ends the connections of a
	// target that becomes unhealthy.
	PreserveIP, EndUnhealthy bool
}

// Health is how a target group checks its targets. Times are in seconds.
type Health struct {
	Protocol, Port, Path string
	Interval, Timeout    int
	Healthy, Unhealthy   int // consecutive answers
}

// Listener is a port of a balancer.
type Listener struct {
	Balancer Ref
	Port     int
	Group    Ref // zero if the listener does anything except forward to one group
}

// Bastion is a host with a public address for logging in.
type Bastion struct {
	Type, Image, SSHKey string
	Subnet, Group       Ref
}

// Tagging is tags on an object that is not ours.
type Tagging struct {
	ID   string
	Tags Pairs
}

// main is the name of an object of which a cluster has only one.
const main = "main"

// Key returns the key of the VPC.
func (VPC) Key() Key                    { return Key{KindVPC, main} }
func (VPC) refs() []Ref                 { return nil }
func (v VPC) with(func(Ref) Ref) Object { return v }

// Key names the block by its addresses. The VPC has one block of IPv6.
func (b Block) Key() Key {
	if b.Pool != "" {
		return Key{KindBlock, "ipv6"}
	}
	return Key{KindBlock, b.Prefix.String()}
}
func (b Block) refs() []Ref                  { return []Ref{b.VPC} }
func (b Block) with(to func(Ref) Ref) Object { b.VPC = to(b.VPC); return b }

// Key returns the key of the internet gateway.
func (InternetGateway) Key() Key                       { return Key{KindInternetGateway, main} }
func (g InternetGateway) refs() []Ref                  { return []Ref{g.VPC} }
func (g InternetGateway) with(to func(Ref) Ref) Object { g.VPC = to(g.VPC); return g }

// Key returns the key of the egress-only gateway.
func (EgressGateway) Key() Key                       { return Key{KindEgressGateway, main} }
func (g EgressGateway) refs() []Ref                  { return []Ref{g.VPC} }
func (g EgressGateway) with(to func(Ref) Ref) Object { g.VPC = to(g.VPC); return g }

// Key returns the key of the carrier gateway.
func (CarrierGateway) Key() Key                       { return Key{KindCarrierGateway, main} }
func (g CarrierGateway) refs() []Ref                  { return []Ref{g.VPC} }
func (g CarrierGateway) with(to func(Ref) Ref) Object { g.VPC = to(g.VPC); return g }

// Key names the subnet.
func (s Subnet) Key() Key                     { return Key{KindSubnet, s.Name} }
func (s Subnet) refs() []Ref                  { return []Ref{s.VPC} }
func (s Subnet) with(to func(Ref) Ref) Object { s.VPC = to(s.VPC); return s }

// Key names the address.
func (a Address) Key() Key                  { return Key{KindAddress, a.Name} }
func (Address) refs() []Ref                 { return nil }
func (a Address) with(func(Ref) Ref) Object { return a }

// Key names the gateway.
func (g NATGateway) Key() Key    { return Key{KindNATGateway, g.Name} }
func (g NATGateway) refs() []Ref { return []Ref{g.Subnet, g.Address} }
func (g NATGateway) with(to func(Ref) Ref) Object {
	g.Subnet, g.Address = to(g.Subnet), to(g.Address)
	return g
}

// Key names the table.
func (t RouteTable) Key() Key                     { return Key{KindRouteTable, t.Name} }
func (t RouteTable) refs() []Ref                  { return []Ref{t.VPC} }
func (t RouteTable) with(to func(Ref) Ref) Object { t.VPC = to(t.VPC); return t }

// Key names the route by its table and destination.
func (r Route) Key() Key    { return Key{KindRoute, part(r.Table) + "/" + r.To.String()} }
func (r Route) refs() []Ref { return []Ref{r.Table, r.Via} }
func (r Route) with(to func(Ref) Ref) Object {
	r.Table, r.Via = to(r.Table), to(r.Via)
	return r
}

// Key names the association by its subnet.
func (a Association) Key() Key    { return Key{KindAssociation, part(a.Subnet)} }
func (a Association) refs() []Ref { return []Ref{a.Subnet, a.Table} }
func (a Association) with(to func(Ref) Ref) Object {
	a.Subnet, a.Table = to(a.Subnet), to(a.Table)
	return a
}

// Key names the endpoint by its service.
func (e Endpoint) Key() Key    { return Key{KindEndpoint, e.Service} }
func (e Endpoint) refs() []Ref { return append(e.Tables.All(), e.VPC) }
func (e Endpoint) with(to func(Ref) Ref) Object {
	e.VPC, e.Tables = to(e.VPC), e.Tables.each(to)
	return e
}

// Key names the group by its role.
func (g SecurityGroup) Key() Key                     { return Key{KindSecurityGroup, g.Role} }
func (g SecurityGroup) refs() []Ref                  { return []Ref{g.VPC} }
func (g SecurityGroup) with(to func(Ref) Ref) Object { g.VPC = to(g.VPC); return g }

// Key identifies the rule by the fields in which AWS lets two rules of a group differ.
func (r Rule) Key() Key {
	way := "in"
	if r.Egress {
		way = "out"
	}
	peer := ""
	switch {
	case r.Addresses.IsValid():
		peer = r.Addresses.String()
	case r.Group != Ref{}:
		peer = part(r.Group)
	case r.Elastic != Ref{}:
		peer = "address:" + part(r.Elastic)
	}
	return Key{KindRule, part(r.Owner) + "/" + way + "/" + r.Protocol + "/" + strconv.Itoa(r.From) + "-" + strconv.Itoa(r.To) + "/" + peer}
}
func (r Rule) refs() []Ref { return []Ref{r.Owner, r.Group, r.Elastic} }
func (r Rule) with(to func(Ref) Ref) Object {
	r.Owner, r.Group, r.Elastic = to(r.Owner), to(r.Group), to(r.Elastic)
	return r
}

// Key names the balancer.
func (b Balancer) Key() Key { return Key{KindBalancer, b.Name} }
func (b Balancer) refs() []Ref {
	return slices.Concat(b.Subnets.All(), b.Groups.All(), b.Elastic.All())
}
func (b Balancer) with(to func(Ref) Ref) Object {
	b.Subnets, b.Groups, b.Elastic = b.Subnets.each(to), b.Groups.each(to), b.Elastic.each(to)
	return b
}

// Key names the target group.
func (g TargetGroup) Key() Key                     { return Key{KindTargetGroup, g.Name} }
func (g TargetGroup) refs() []Ref                  { return []Ref{g.VPC} }
func (g TargetGroup) with(to func(Ref) Ref) Object { g.VPC = to(g.VPC); return g }

// Key names the listener by its balancer and port.
func (l Listener) Key() Key    { return Key{KindListener, part(l.Balancer) + "/" + strconv.Itoa(l.Port)} }
func (l Listener) refs() []Ref { return []Ref{l.Balancer, l.Group} }
func (l Listener) with(to func(Ref) Ref) Object {
	l.Balancer, l.Group = to(l.Balancer), to(l.Group)
	return l
}

// Key returns the key of the bastion.
func (Bastion) Key() Key      { return Key{KindBastion, main} }
func (b Bastion) refs() []Ref { return []Ref{b.Subnet, b.Group} }
func (b Bastion) with(to func(Ref) Ref) Object {
	b.Subnet, b.Group = to(b.Subnet), to(b.Group)
	return b
}

// Key identifies the object with the tags.
func (t Tagging) Key() Key                  { return Key{KindTagging, t.ID} }
func (Tagging) refs() []Ref                 { return nil }
func (t Tagging) with(func(Ref) Ref) Object { return t }

// part returns what a Ref to an object contributes to the names of the object's parts.
func part(r Ref) string {
	if r.ID != "" {
		return r.ID
	}
	return r.Key.Name
}

// KindOf returns the kind of an object, without the cost of its Key.
func KindOf(o Object) Kind {
	switch o.(type) {
	case VPC:
		return KindVPC
	case Block:
		return KindBlock
	case InternetGateway:
		return KindInternetGateway
	case EgressGateway:
		return KindEgressGateway
	case CarrierGateway:
		return KindCarrierGateway
	case Subnet:
		return KindSubnet
	case Address:
		return KindAddress
	case NATGateway:
		return KindNATGateway
	case RouteTable:
		return KindRouteTable
	case Route:
		return KindRoute
	case Association:
		return KindAssociation
	case Endpoint:
		return KindEndpoint
	case SecurityGroup:
		return KindSecurityGroup
	case Rule:
		return KindRule
	case Balancer:
		return KindBalancer
	case TargetGroup:
		return KindTargetGroup
	case Listener:
		return KindListener
	case Bastion:
		return KindBastion
	}
	return KindTagging
}
