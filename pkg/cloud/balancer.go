package cloud

import (
	"cmp"
	"net/netip"
	"slices"
)

// Balancing holds the objects of an account that balance the load of a cluster.
type Balancing struct {
	Balancers []Balancer
	Groups    []TargetGroup
	Security  []SecurityGroup
}

// Protocol is the protocol of a listener, a target group or a health check.
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

// Scheme says from where clients can reach a Balancer.
type Scheme string

// The schemes, in the words of AWS.
const (
	Internal       Scheme = "internal"
	InternetFacing Scheme = "internet-facing"
)

// AddressFamilies are the families of a Balancer's addresses.
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
	// Network is the ID of the balancer's network.
	Network  string
	Scheme   Scheme
	Families AddressFamilies
	// Host is its DNS name.
	Host string
	// State is "provisioning", "active", "active_impaired" or "failed". Why is the reason
	// for it.
	State, Why string
	// Mappings are its subnets, in the order of their IDs, each with its address.
	Mappings []SubnetMapping
	// Security are the IDs of its security groups, in order.
	Security []string
	Tags     map[string]string

	// Detailed is set if the other fields below were read, too.
	Detailed   bool
	Attributes map[string]string
	Listeners  []Listener
}

// SubnetMapping is a subnet of a Balancer, and the address that the Balancer has there.
type SubnetMapping struct {
	Subnet, Zone string
	// Allocation is the ID of the elastic address in the subnet, or "".
	Allocation string
	// IPv4 and IPv6 are the addresses that the balancer must have there, or "" for any.
	IPv4, IPv6 string
}

// Listener is a port on which a Balancer accepts connections.
type Listener struct {
	ID       string
	Balancer string // its ID
	Protocol Protocol
	Port     int
	// Group is the ID of the TargetGroup to which the listener forwards. It is empty if
	// the listener has another action.
	Group string
	// Certificate is the ID of the default TLS certificate, Policy the TLS policy, and
	// ALPN the ALPN policy. Each is "" if the listener has none.
	Certificate, Policy, ALPN string
}

// HealthCheck is how a target group checks its targets. Times are in seconds.
type HealthCheck struct {
	Protocol Protocol // TCP, HTTP or HTTPS
	// Port is a number, or "traffic-port" for the port of the target.
	Port string
	// Path is the path that HTTP and HTTPS checks request. Codes are the statuses of a
	// healthy target, like "200-399".
	Path, Codes        string
	Interval, Timeout  int
	Healthy, Unhealthy int // answers in a row
}

// TargetGroup is a set of targets to which a listener forwards.
type TargetGroup struct {
	ID, Name, Network string
	Protocol          Protocol
	Port              int
	// Kind is the kind of the targets. Our groups have "instance".
	Kind string
	// Family is IPv4Only, or "ipv6".
	Family string
	Health HealthCheck
	// Balancers are the IDs of the balancers whose listeners forward to the group.
	Balancers []string
	Tags      map[string]string

	// Detailed is set if the other fields below were read, too.
	Detailed   bool
	Attributes map[string]string
	Targets    []Target
}

// Target is an instance of a TargetGroup.
type Target struct {
	ID   string // of the instance
	Port int
	// State is "initial", "healthy", "unhealthy", "unused", "draining" or "unavailable".
	// Why is the reason in the cloud's words. Both are empty in a change. A draining
	// target no longer counts as registered.
	State, Why string
}

// SecurityGroup is a set of rules that allow ingress.
type SecurityGroup struct {
	ID, Name, Network, Description string
	Tags                           map[string]string
	// Rules are the ingress rules.
	Rules []Rule
}

// Rule allows ingress. Rules are comparable with ==.
type Rule struct {
	// Protocol is "tcp", "udp", "icmp", "icmpv6", or "-1" for all.
	Protocol string
	// From and To are ports, or the type and code of ICMP.
	From, To int
	// Source is the range of addresses from which the traffic comes. Group is the ID of
	// the security group whose members send it. Both are zero for another source, such as
	// a prefix list.
	Source      netip.Prefix
	Group       string
	Description string
}

// Subnet is a part of a cloud's network.
type Subnet struct {
	ID, Name, Network string
	Zone              string
	// Regular is set unless the subnet is in a local zone, a wavelength zone or an outpost.
	Regular bool
	// Public is set if the subnet's route table has a route to an internet gateway.
	Public bool
	IPv4   netip.Prefix
	IPv6   netip.Prefix // zero without IPv6
	// Free is the number of free IPv4 addresses.
	Free int
	Tags map[string]string
}

// BalancerVerb is the kind of a BalancerChange.
type BalancerVerb string

// The verbs, each with the fields of BalancerChange that it needs.
const (
	// CreateSecurityGroup needs Security: Name, Network, Description, Tags.
	CreateSecurityGroup BalancerVerb = "create-security-group"
	// DeleteSecurityGroup needs Security.ID. It fails with Taken while interfaces use the
	// group.
	DeleteSecurityGroup BalancerVerb = "delete-security-group"
	// AllowIngress and RevokeIngress need Security.ID, and in Security.Rules the rules to
	// add or remove. They succeed if a rule to add exists, or one to remove does not.
	AllowIngress  BalancerVerb = "allow-ingress"
	RevokeIngress BalancerVerb = "revoke-ingress"
	// DescribeIngress needs Security.ID, and in Security.Rules existing rules with new
	// descriptions.
	DescribeIngress BalancerVerb = "describe-ingress"

	// CreateGroup needs Group: Name, Network, Protocol, Port, Kind, Family, Health, Tags.
	CreateGroup BalancerVerb = "create-target-group"
	// SetHealthCheck needs Group: ID, Health.
	SetHealthCheck BalancerVerb = "set-health-check"
	// SetGroupAttributes needs Group: ID, and in Attributes those to set.
	SetGroupAttributes BalancerVerb = "set-target-group-attributes"
	// DeleteGroup needs Group.ID. It fails with Taken while a listener forwards to the
	// group.
	DeleteGroup BalancerVerb = "delete-target-group"
	// Register and Deregister need Group: ID, and in Targets at most MostTargets.
	Register   BalancerVerb = "register-targets"
	Deregister BalancerVerb = "deregister-targets"

	// CreateBalancer needs Balancer: Name, Scheme, Families, Mappings, Security, Tags.
	CreateBalancer BalancerVerb = "create-load-balancer"
	// SetBalancerAttributes needs Balancer: ID, and in Attributes those to set.
	SetBalancerAttributes BalancerVerb = "set-load-balancer-attributes"
	// SetSubnets needs Balancer: ID, Families, and all Mappings.
	SetSubnets BalancerVerb = "set-subnets"
	// SetFamilies needs Balancer: ID, Families.
	SetFamilies BalancerVerb = "set-ip-address-type"
	// SetSecurity needs Balancer: ID, and all of Security.
	SetSecurity BalancerVerb = "set-security-groups"
	// DeleteBalancer needs Balancer.ID. It deletes the balancer's listeners, too.
	DeleteBalancer BalancerVerb = "delete-load-balancer"

	// CreateListener needs Listener: all but ID; and Tags.
	CreateListener BalancerVerb = "create-listener"
	// SetListener needs Listener: all of it.
	SetListener BalancerVerb = "set-listener"
	// DeleteListener needs Listener.ID.
	DeleteListener BalancerVerb = "delete-listener"

	// AddTags needs Object and Tags: the ID of a balancer, a target group or a security
	// group, and the tags to set.
	AddTags BalancerVerb = "add-tags"
)

// MostTargets is the maximum number of targets in one Register or Deregister.
const MostTargets = 100

// BalancerChange is one request that changes the load balancing of an account.
type BalancerChange struct {
	Verb     BalancerVerb
	Balancer Balancer
	Group    TargetGroup
	Listener Listener
	Security SecurityGroup
	Tags     map[string]string // of CreateListener and AddTags
	Object   string            // of AddTags
}

// BalancerQuota holds the maximum numbers of objects. 0 is unknown.
type BalancerQuota struct {
	Balancers, Groups int // in the region
	// Listeners is the maximum of a balancer, Targets that of a balancer in one zone, and
	// GroupTargets that of a target group.
	Listeners, Targets, GroupTargets int
	// Rules are those of a security group. Assumed is why they are the usual number and not
	// the account's, or "".
	Rules   int
	Assumed string
}

// Compare orders rules.
func (r Rule) Compare(o Rule) int {
	return cmp.Or(
		cmp.Compare(r.Description, o.Description), cmp.Compare(r.Protocol, o.Protocol), cmp.Compare(r.From, o.From), cmp.Compare(r.To, o.To),
		r.Source.Compare(o.Source), cmp.Compare(r.Group, o.Group),
	)
}

// SortMappings orders mappings by their subnets.
func SortMappings(all []SubnetMapping) {
	slices.SortFunc(all, func(a, b SubnetMapping) int { return cmp.Compare(a.Subnet, b.Subnet) })
}
