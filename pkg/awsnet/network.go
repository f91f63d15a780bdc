package awsnet

import "net/netip"

// Network is a checked Spec: every default is filled in, and every value is valid.
type Network struct {
	Owner  Owner
	Region string
	// VPCID is the VPC's ID if the VPC is not ours. The other fields of the VPC are
	// then empty.
	VPCID     string
	IPv4      netip.Prefix
	Secondary []netip.Prefix
	// IPv6 is set if the VPC has IPv6. IPv6Pool is then AmazonPool or another pool, and
	// IPv6Block the block from the latter.
	IPv6              bool
	IPv6Pool          string
	IPv6Block         netip.Prefix
	HostnameType      string
	AddressPool       string
	EmptyDefaultGroup bool
	VPCTags           map[string]string
	Tags              map[string]string // on every object

	// Subnets are in the order of the Spec.
	Subnets   []Net
	NAT       NATMode
	Endpoints []string
	// KeepAddresses is that of Options.
	KeepAddresses bool

	// Overrides are the IDs of security groups that are not ours, by role.
	Overrides map[Role]string
	// Ingress are the rules of the groups that are ours, by role.
	Ingress   map[Role][]Ingress
	Balancers []Front
	// Bastion is nil if there is none.
	Bastion *BastionHost
}

// Net is a subnet of a Network.
type Net struct {
	// Name is the subnet's name. ID is set if the subnet is not ours.
	Name, ID string
	Zone     string
	ZoneType string
	Parent   string // of Zone
	IPv4     netip.Prefix
	IPv6     Slice
	Public   bool
	HasIPv6  bool
	// PodsOnly is set for a subnet of which only a CNI plugin uses the addresses.
	PodsOnly bool
	Tags     map[string]string
}

// edge reports whether a subnet is in a local or wavelength zone.
func (n Net) edge() bool { return n.ZoneType == LocalZone || n.ZoneType == WavelengthZone }

// fits reports whether a subnet can have NAT gateways and balancers.
func (n Net) fits() bool { return !n.edge() && !n.PodsOnly }

// Role is the role of a security group.
type Role string

// The roles, in the words of Cluster API's AWS provider.
const (
	RoleBastion      Role = "bastion"
	RoleControlPlane Role = "controlplane"
	RoleAPIServerLB  Role = "apiserver-lb"
	RoleNode         Role = "node"
	RoleLB           Role = "lb" // the cloud controllers add rules for Services to it
)

// roles are all roles.
var roles = []Role{RoleBastion, RoleControlPlane, RoleAPIServerLB, RoleNode, RoleLB}

// Ingress is traffic that a security group admits from each of its sources.
type Ingress struct {
	Description string
	Protocol    string
	From, To    int
	Blocks      []netip.Prefix
	Roles       []Role
	GroupIDs    []string
	FromNAT     bool
}

// Front is a load balancer of the API servers.
type Front struct {
	Name, Title string
	Scheme      Scheme
	CrossZone   bool
	// DualStack is set if all its subnets have IPv6.
	DualStack bool
	// Subnets are indexes of Network.Subnets, and SubnetIDs are other subnets.
	Subnets   []int
	SubnetIDs []string
	GroupIDs  []string // further security groups
	Ports     []Port
	Preserve  bool
}

// Port is a port of a Front.
type Port struct {
	Port   int
	IPv6   bool
	Health Health
}

// BastionHost is the bastion of a Network. Subnet is an index of Network.Subnets.
type BastionHost struct {
	Type, Image, SSHKey string
	Subnet              int
}
