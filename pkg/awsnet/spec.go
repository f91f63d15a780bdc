package awsnet

// Spec is the network of a cluster: the spec of an AWSCluster of Cluster API, version
// v1beta2, and options that only this program has. What it leaves out has a default, which
// Complete fills in.
type Spec struct {
	// Cluster is the cluster's name in tags and names. UID distinguishes it from others
	// of the same name. Neither is part of the serialized spec.
	Cluster string `json:"-"`
	UID     string `json:"-"`
	// APIPort is the port of the API servers, and of their load balancer; 6443 unless set. A
	// Cluster has it in spec.clusterNetwork, and a file in spec.controlPlaneEndpoint.
	APIPort int `json:"-"`

	Region         string            `json:"region,omitempty"`
	Partition      string            `json:"partition,omitempty"`
	Network        NetworkSpec       `json:"network,omitempty"`
	SSHKeyName     *string           `json:"sshKeyName,omitempty"`
	AdditionalTags map[string]string `json:"additionalTags,omitempty"`
	Balancer       *BalancerSpec     `json:"controlPlaneLoadBalancer,omitempty"`
	Secondary      *BalancerSpec     `json:"secondaryControlPlaneLoadBalancer,omitempty"`
	Bastion        BastionSpec       `json:"bastion,omitempty"`

	Options
}

// Options are options that only this program has. In an AWSCluster they are
// annotations.
type Options struct {
	// NATGateways is PerZone (the default), Single or None.
	NATGateways NATMode `json:"natGateways,omitempty"`
	// GatewayEndpoints are the services with a gateway endpoint, which is free; s3 and
	// dynamodb unless set.
	GatewayEndpoints *[]string `json:"gatewayEndpoints,omitempty"`
	// KeepAddresses keeps the elastic addresses of NAT gateways when the network is
	// deleted. A later network of the same cluster name uses them again.
	KeepAddresses bool `json:"keepAddresses,omitempty"`
}

// NATMode is how many NAT gateways the private subnets share.
type NATMode string

// The modes. With NATSingle, the loss of one zone cuts all private subnets off from the
// internet.
const (
	NATPerZone NATMode = "PerZone"
	NATSingle  NATMode = "Single"
	NATNone    NATMode = "None"
)

// NetworkSpec is NetworkSpec of infrastructure.cluster.x-k8s.io/v1beta2.
type NetworkSpec struct {
	VPC                    VPCSpec           `json:"vpc,omitempty"`
	Subnets                []SubnetSpec      `json:"subnets,omitempty"`
	CNI                    *CNISpec          `json:"cni,omitempty"`
	SecurityGroupOverrides map[string]string `json:"securityGroupOverrides,omitempty"`
	ControlPlaneIngress    []IngressSpec     `json:"additionalControlPlaneIngressRules,omitempty"`
	NodeIngress            []IngressSpec     `json:"additionalNodeIngressRules,omitempty"`
	NodePortBlocks         []string          `json:"nodePortIngressRuleCidrBlocks,omitempty"`
}

// VPCSpec is the VPC. If it has an ID, and Tags lack the cluster's tag, it is not ours:
// its subnets and gateways are used unchanged.
type VPCSpec struct {
	ID                string            `json:"id,omitempty"`
	CIDR              string            `json:"cidrBlock,omitempty"`
	Secondary         []BlockSpec       `json:"secondaryCidrBlocks,omitempty"`
	IPAMPool          *IPAMPoolSpec     `json:"ipamPool,omitempty"`
	IPv6              *IPv6Spec         `json:"ipv6,omitempty"`
	InternetGatewayID *string           `json:"internetGatewayId,omitempty"`
	CarrierGatewayID  *string           `json:"carrierGatewayId,omitempty"`
	Tags              map[string]string `json:"tags,omitempty"`
	ZoneLimit         *int              `json:"availabilityZoneUsageLimit,omitempty"`
	ZoneSelection     *string           `json:"availabilityZoneSelection,omitempty"`
	EmptyDefaultGroup bool              `json:"emptyRoutesDefaultVPCSecurityGroup,omitempty"`
	HostnameType      *string           `json:"privateDnsHostnameTypeOnLaunch,omitempty"`
	ElasticIPPool     *ElasticPoolSpec  `json:"elasticIpPool,omitempty"`
	SubnetSchema      *string           `json:"subnetSchema,omitempty"`
}

// BlockSpec is a further block of IPv4 of a VPC.
type BlockSpec struct {
	IPv4 string `json:"ipv4CidrBlock"`
}

// IPv6Spec enables IPv6 in the VPC. Without a block, Amazon chooses a /56.
type IPv6Spec struct {
	CIDR         string        `json:"cidrBlock,omitempty"`
	PoolID       string        `json:"poolId,omitempty"`
	EgressOnlyID *string       `json:"egressOnlyInternetGatewayId,omitempty"`
	IPAMPool     *IPAMPoolSpec `json:"ipamPool,omitempty"`
}

// IPAMPoolSpec is a pool of AWS's address manager, which Check refuses.
type IPAMPoolSpec struct {
	ID     string `json:"id,omitempty"`
	Name   string `json:"name,omitempty"`
	Length int64  `json:"netmaskLength,omitempty"`
}

// ElasticPoolSpec is a pool of public addresses that the account brought to AWS.
type ElasticPoolSpec struct {
	Pool     *string `json:"publicIpv4Pool,omitempty"`
	Fallback *string `json:"publicIpv4PoolFallbackOrder,omitempty"`
}

// SubnetSpec is a subnet. ID is its name in a VPC of ours, and otherwise its AWS ID.
type SubnetSpec struct {
	ID           string            `json:"id"`
	ResourceID   string            `json:"resourceID,omitempty"`
	CIDR         string            `json:"cidrBlock,omitempty"`
	IPv6CIDR     string            `json:"ipv6CidrBlock,omitempty"`
	Zone         string            `json:"availabilityZone,omitempty"`
	Public       bool              `json:"isPublic,omitempty"`
	IPv6         bool              `json:"isIpv6,omitempty"`
	RouteTableID *string           `json:"routeTableId,omitempty"`
	NATGatewayID *string           `json:"natGatewayId,omitempty"`
	Tags         map[string]string `json:"tags,omitempty"`
	ZoneType     *string           `json:"zoneType,omitempty"`
	ParentZone   *string           `json:"parentZoneName,omitempty"`
}

// CNISpec is the rules that the pod network needs between nodes.
type CNISpec struct {
	Ingress []CNIRuleSpec `json:"cniIngressRules,omitempty"`
}

// CNIRuleSpec lets nodes and control plane send each other a kind of traffic.
type CNIRuleSpec struct {
	Description string `json:"description"`
	Protocol    string `json:"protocol"`
	From        int64  `json:"fromPort"`
	To          int64  `json:"toPort"`
}

// IngressSpec lets traffic into a security group.
type IngressSpec struct {
	Description string   `json:"description"`
	Protocol    string   `json:"protocol"`
	From        int64    `json:"fromPort"`
	To          int64    `json:"toPort"`
	IPv4        []string `json:"cidrBlocks,omitempty"`
	IPv6        []string `json:"ipv6CidrBlocks,omitempty"`
	GroupIDs    []string `json:"sourceSecurityGroupIds,omitempty"`
	GroupRoles  []string `json:"sourceSecurityGroupRoles,omitempty"`
	FromNAT     bool     `json:"natGatewaysIPsSource,omitempty"`
}

// BalancerSpec is a load balancer of the API servers.
type BalancerSpec struct {
	Name                *string        `json:"name,omitempty"`
	Scheme              *string        `json:"scheme,omitempty"`
	CrossZone           bool           `json:"crossZoneLoadBalancing,omitempty"`
	Subnets             []string       `json:"subnets,omitempty"`
	HealthCheckProtocol *string        `json:"healthCheckProtocol,omitempty"`
	HealthCheck         *HealthSpec    `json:"healthCheck,omitempty"`
	SecurityGroups      []string       `json:"additionalSecurityGroups,omitempty"`
	Listeners           []ListenerSpec `json:"additionalListeners,omitempty"`
	Ingress             []IngressSpec  `json:"ingressRules,omitempty"`
	// Type is nlb (the default) or disabled. Check refuses the others.
	Type                string  `json:"loadBalancerType,omitempty"`
	DisableHostsRewrite bool    `json:"disableHostsRewrite,omitempty"`
	PreserveClientIP    bool    `json:"preserveClientIP,omitempty"`
	TargetFamily        *string `json:"targetGroupIPType,omitempty"`
	DNSCheck            *string `json:"dnsResolutionCheck,omitempty"`
}

// ListenerSpec is a further port of a load balancer.
type ListenerSpec struct {
	Port         int64       `json:"port"`
	Protocol     string      `json:"protocol,omitempty"`
	HealthCheck  *HealthSpec `json:"healthCheck,omitempty"`
	TargetFamily *string     `json:"targetGroupIPType,omitempty"`
}

// HealthSpec is how a target group checks its targets. Protocol, Port and Path are only
// for additional listeners.
type HealthSpec struct {
	Protocol  *string `json:"protocol,omitempty"`
	Port      *string `json:"port,omitempty"`
	Path      *string `json:"path,omitempty"`
	Interval  *int64  `json:"intervalSeconds,omitempty"`
	Timeout   *int64  `json:"timeoutSeconds,omitempty"`
	Healthy   *int64  `json:"thresholdCount,omitempty"`
	Unhealthy *int64  `json:"unhealthyThresholdCount,omitempty"`
}

// BastionSpec is a host with a public address for logging in.
type BastionSpec struct {
	Enabled        bool     `json:"enabled,omitempty"`
	DisableIngress bool     `json:"disableIngressRules,omitempty"`
	AllowedBlocks  []string `json:"allowedCIDRBlocks,omitempty"`
	InstanceType   string   `json:"instanceType,omitempty"`
	AMI            string   `json:"ami,omitempty"`
}

// Zone is a zone of the region.
type Zone struct {
	Name string
	// Type is availability-zone, local-zone or wavelength-zone.
	Type string
	// Parent is the availability zone of a local or wavelength zone.
	Parent string
	// Usable is set if the zone is available and the account has opted in to it.
	Usable bool
	// Used is set if it has subnets of the cluster. See Prefer.
	Used bool
}

// The types of zones.
const (
	RegularZone    = "availability-zone"
	LocalZone      = "local-zone"
	WavelengthZone = "wavelength-zone"
)

// Problem is a reason why a Spec cannot be built. Text has the value and the fix.
type Problem struct {
	// Field is the path in the spec, such as network.subnets[2].cidrBlock.
	Field, Text string
}

func (p Problem) String() string { return p.Field + ": " + p.Text }
