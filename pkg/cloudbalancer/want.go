package cloudbalancer

import (
	"net/netip"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// Options are what is the same for all Services.
type Options struct {
	// Cluster is the NAME of the tag kubernetes.io/cluster/NAME.
	Cluster string
	// Class is the loadBalancerClass of Services that are ours. Default is set if those
	// without a class are, too.
	Class   string
	Default bool
	// DefaultName is what texts call the setting of Default, like --default-load-balancer-class.
	DefaultName string
	// NodeRules is set if the security groups of Nodes get rules.
	NodeRules bool
	// Security is the ID of the security group of balancers whose Services name none, or ""
	// for one of ours each.
	Security string
}

// Port is a port of a Service.
type Port struct {
	Name, Protocol string
	Port, NodePort int
}

// Service is what a Service of Kubernetes says.
type Service struct {
	Ref
	// Balances is set if its type is LoadBalancer.
	Balances bool
	Class    *string
	// Annotations are those that begin with Prefix, and SourceRangesAnnotation.
	Annotations map[string]string
	Ports       []Port
	// Local is set if its externalTrafficPolicy is Local, and HealthPort is its
	// healthCheckNodePort.
	Local        bool
	HealthPort   int
	SourceRanges []string
	// Address is its loadBalancerIP.
	Address string
	// Sticky is set if its sessionAffinity is ClientIP.
	Sticky bool
	// Families are its ipFamilies.
	Families []string
	// Hosts are the host names of its status.
	Hosts []string
}

// Front is a port of a balancer, and what is behind it.
type Front struct {
	Port     int
	Protocol cloud.Protocol
	// Certificate, Policy and ALPN are those of TLS.
	Certificate, Policy, ALPN string
	// NodePort and Backend are where the targets listen, and what they speak.
	NodePort int
	Backend  cloud.Protocol
	Health   cloud.HealthCheck
}

// Want is what a Service wants.
type Want struct {
	Ref
	cluster string
	// Balancer is its name.
	Balancer string
	Scheme   cloud.Scheme
	// Families are those of the balancer, and GroupFamily is that of target groups.
	Families    cloud.AddressFamilies
	GroupFamily string
	// Subnets are IDs or names; without any, tags choose.
	Subnets []string
	// Allocations, IPv4 and IPv6 are addresses for each subnet, in their order.
	Allocations, IPv4, IPv6 []string
	// Security are the IDs of security groups in place of our own, and Extra those
	// beside it.
	Security, Extra []string
	// asks is set if the Service itself names any of them.
	asks    bool
	Sources []netip.Prefix
	// Attributes and GroupAttributes are those to set.
	Attributes, GroupAttributes map[string]string
	Tags                        map[string]string
	Fronts                      []Front
	// NodeLabels are labels of the Nodes that are targets. An empty value is any.
	NodeLabels map[string]string
	// NodesUnclear is set if these labels are invalid. The targets then stay as they are.
	NodesUnclear bool
}

// Problem is what is wrong with a Service, with the fix.
type Problem struct {
	// Fatal is set if the balancer is not changed as long as the problem lasts. Its
	// targets still follow the Nodes.
	Fatal bool
	Text  string
}

// Claim is whether a Service is ours.
type Claim struct {
	Ours bool
	// Why is, for a Service of type LoadBalancer that is not ours, whose it is and how it
	// becomes ours.
	Why string
}
