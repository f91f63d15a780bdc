package cloud

import (
	"cmp"
	"net/netip"
	"slices"
)

// Balancing is what an account has for the load balancing of a cluster.
type Balancing struct {
	Balancers []Balancer
	Groups    []TargetGroup
	Security  []SecurityGroup
}

// Protocol is what a listener or a target group speaks.
type Protocol string

// The protocols, in the words of AWS.
const (
	TCP    Protocol = "TCP"
	UDP    Protocol = "UDP"
	TCPUDP Protocol = "TCP_UDP" // both on one port
	TLS    Protocol = "TLS"     // TCP whose encryption ends at the balancer
	HTTP   Protocol = "HTTP"    // for health checks
	HTTPS  Protocol = "HTTPS"   // for health checks
)

// Scheme is who can reach a Balancer.
type Scheme string

// The schemes, in the words of AWS.
const (
	Internal       Scheme = "internal"
	InternetFacing Scheme = "internet-facing"
)

// AddressFamilies are the families of addresses that a Balancer has.
type AddressFamilies string

// The families, in the words of AWS.
const (
	IPv4Only  AddressFamilies = "ipv4"
	DualStack AddressFamilies = "dualstack"
)

// Balancer is a load balancer.
type Balancer struct {
	// ID is the cloud's own ID, on AWS the ARN.
	ID, Name string
	// Network is the ID of the cloud's network that it is in.
	Network  string
	Scheme   Scheme
	Families AddressFamilies
	// Host is its name in the DNS.
	Host string
	// State is "provisioning", "active", "active_impaired" or "failed", and Why is the
	// reason.
	State, Why string
	// Places are its subnets, in the order of their IDs.
	Places []Place
	// Security are the IDs of its security groups, in order.
	Security []string
	Tags     map[string]string

	// The following are details. Detailed is set if they were read.
	Detailed   bool
	Attributes map[string]string
	Listeners  []Listener
}

// Place is a subnet that a Balancer has an address in.
type Place struct {
	Subnet, Zone string
	// Allocation is the ID of the elastic address there, or "".
	Allocation string
	// IPv4 and IPv6 are addresses that were asked for, or "".
	IPv4, IPv6 string
}

// Listener is a port of a Balancer.
type Listener struct {
	ID       string
	Balancer string // its ID
	Protocol Protocol
	Port     int
	// Group is the ID of the TargetGroup that gets the traffic. It is empty if the
	// listener does anything else.
	Group string
	// Certificate is the ID of the default certificate of TLS, Policy its policy, and
	// ALPN the policy of its protocols, or "".
	Certificate, Policy, ALPN string
}

// HealthCheck is how a target group finds out which targets work. Times are in seconds.
type HealthCheck struct {
	Protocol Protocol // TCP, HTTP or HTTPS
	// Port is a number, or "traffic-port" for the port of the target.
	Port string
	// Path is what HTTP and HTTPS ask for, and Codes are the statuses of a working target,
	// like "200-399".
	Path, Codes        string
	Interval, Timeout  int
	Healthy, Unhealthy int // answers in a row
}

// TargetGroup is a set of targets that a listener leads to.
type TargetGroup struct {
	ID, Name, Network string
	Protocol          Protocol
	Port              int
	// Kind is what the targets are; only "instance" is ours.
	Kind string
	// Family is IPv4Only, or "ipv6".
	Family string
	Health HealthCheck
	// Balancers are the IDs of those whose listeners lead to it.
	Balancers []string
	Tags      map[string]string

	// The following are details. Detailed is set if they were read.
	Detailed   bool
	Attributes map[string]string
	Targets    []Target
}

// Target is an instance of a TargetGroup.
type Target struct {
	ID   string // of the instance
	Port int
	// State is "initial", "healthy", "unhealthy", "unused", "draining" or "unavailable",
	// and Why is the reason in the cloud's words. They are empty in a change. A draining
	// target no longer counts as registered.
	State, Why string
}

// SecurityGroup is a set of rules of which traffic may come in.
type SecurityGroup struct {
	ID, Name, Network, Description string
	Tags                           map[string]string
	// Rules are those of what may come in.
	Rules []Rule
}

// Rule lets traffic come in. Rules are compared with ==.
type Rule struct {
	// Protocol is "tcp", "udp", "icmp", "icmpv6", or "-1" for all.
	Protocol string
	// From and To are ports, or the type and code of ICMP.
	From, To int
	// Source is where the traffic comes from: addresses, or the members of the security
	// group whose ID Group is. Of another source, such as a prefix list, both are zero.
	Source      netip.Prefix
	Group       string
	Description string
}

// Subnet is a part of a cloud's network.
type Subnet struct {
	ID, Name, Network string
	Zone              string
	// Regular is set if the zone is no local, wavelength or outpost zone.
	Regular bool
	// Public is set if its route table leads to an internet gateway.
	Public bool
	IPv4   netip.Prefix
	IPv6   netip.Prefix // zero without IPv6
	// Free are the addresses of IPv4 that are not in use.
	Free int
	Tags map[string]string
}

// BalancerVerb is one call that changes an account's load balancing.
type BalancerVerb string

// The verbs, each with the fields of BalancerChange that it needs.
const (
	// CreateSecurityGroup needs Security: Name, Network, Description, Tags.
	CreateSecurityGroup BalancerVerb = "create-security-group"
	// DeleteSecurityGroup needs Security.ID. A group that interfaces still use is Taken.
	DeleteSecurityGroup BalancerVerb = "delete-security-group"
	// AllowIngress and RevokeIngress need Security.ID, and in Security.Rules what to add
	// or remove. To add what is there, and to remove what is not, is no error.
	AllowIngress  BalancerVerb = "allow-ingress"
	RevokeIngress BalancerVerb = "revoke-ingress"
	// DescribeIngress needs Security.ID, and in Security.Rules some that are there, with
	// other descriptions.
	DescribeIngress BalancerVerb = "describe-ingress"

	// CreateGroup needs Group: Name, Network, Protocol, Port, Kind, Family, Health, Tags.
	CreateGroup BalancerVerb = "create-target-group"
	// SetHealthCheck needs Group: ID, Health.
	SetHealthCheck BalancerVerb = "set-health-check"
	// SetGroupAttributes needs Group: ID, and in Attributes those to set.
	SetGroupAttributes BalancerVerb = "set-target-group-attributes"
	// DeleteGroup needs Group.ID. One that a listener still leads to is Taken.
	DeleteGroup BalancerVerb = "delete-target-group"
	// Register and Deregister need Group: ID, and in Targets at most MostTargets.
	Register   BalancerVerb = "register-targets"
	Deregister BalancerVerb = "deregister-targets"

	// CreateBalancer needs Balancer: Name, Scheme, Families, Places, Security, Tags.
	CreateBalancer BalancerVerb = "create-load-balancer"
	// SetBalancerAttributes needs Balancer: ID, and in Attributes those to set.
	SetBalancerAttributes BalancerVerb = "set-load-balancer-attributes"
	// SetPlaces needs Balancer: ID, Families, and all Places.
	SetPlaces BalancerVerb = "set-subnets"
	// SetFamilies needs Balancer: ID, Families.
	SetFamilies BalancerVerb = "set-ip-address-type"
	// SetSecurity needs Balancer: ID, and all of Security.
	SetSecurity BalancerVerb = "set-security-groups"
	// DeleteBalancer needs Balancer.ID. Its listeners go with it.
	DeleteBalancer BalancerVerb = "delete-load-balancer"

	// CreateListener needs Listener: all but ID; and Tags.
	CreateListener BalancerVerb = "create-listener"
	// SetListener needs Listener: all of it.
	SetListener BalancerVerb = "set-listener"
	// DeleteListener needs Listener.ID.
	DeleteListener BalancerVerb = "delete-listener"

	// AddTags needs Object, the ID of a balancer, a target group or a security group, and
	// Tags, those to set.
	AddTags BalancerVerb = "add-tags"
)

// MostTargets is how many targets one Register or Deregister may have.
const MostTargets = 100

// BalancerChange is one call that changes an account's load balancing.
type BalancerChange struct {
	Verb     BalancerVerb
	Balancer Balancer
	Group    TargetGroup
	Listener Listener
	Security SecurityGroup
	Tags     map[string]string // of CreateListener and AddTags
	Object   string            // of AddTags
}

// BalancerQuota is how many objects the cloud allows. 0 is unknown.
type BalancerQuota struct {
	Balancers, Groups int // in the region
	// Listeners are those of a balancer, Targets those of a balancer in a zone, and
	// GroupTargets those of a target group.
	Listeners, Targets, GroupTargets int
}

// Compare orders rules.
func (r Rule) Compare(o Rule) int {
	return cmp.Or(
		cmp.Compare(r.Description, o.Description), cmp.Compare(r.Protocol, o.Protocol), cmp.Compare(r.From, o.From), cmp.Compare(r.To, o.To),
		r.Source.Compare(o.Source), cmp.Compare(r.Group, o.Group),
	)
}

// SortPlaces orders places by their subnets.
func SortPlaces(all []Place) {
	slices.SortFunc(all, func(a, b Place) int { return cmp.Compare(a.Subnet, b.Subnet) })
}
