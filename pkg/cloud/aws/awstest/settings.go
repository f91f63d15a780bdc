package awstest

import "time"

// Settings are what a test may change while the server runs.
type Settings struct {
	// The following are quotas. The quota of routes counts per address family.
	RoutesPerTable, TablesPerVPC       int
	VPCs, SubnetsPerVPC, CIDRsPerVPC   int
	Gateways, NATsPerZone, Addresses   int
	GroupsPerVPC, RulesPerGroup        int
	GroupsPerInterface, TagsPerObject  int
	Balancers, TargetGroups            int
	ListenersPerBalancer               int
	TargetsPerZone, TargetsPerBalancer int
	GroupsPerBalancer, Endpoints       int

	// Lag is how long describes do not show a new object or route.
	Lag time.Duration
	// LagWrites extends Lag to writes that name the object.
	LagWrites bool

	// The following are the durations of AWS's background operations.
	Boot, Stop, Terminate time.Duration // of instances
	NAT                   time.Duration // a NAT gateway's creation, and its deletion
	Provision             time.Duration // a load balancer's
	Linger                time.Duration // how long the interfaces of a deleted load balancer stay
	Health                time.Duration // a target's first health checks
	// Visible is how long describes show terminated instances and deleted NAT gateways.
	Visible time.Duration

	// Latency is the latency of answers, by action; the key "" is for all others.
	Latency map[string]time.Duration
	// Buckets are the token buckets by action; that of "" is for each other action. The actions
	// on load balancers share buckets, such as that of ReadsOfBalancers. A
	// Bucket of size 0 never refuses.
	Buckets map[string]Bucket

	// Page limits the objects of an answer, also if the request allows more. 0 is each
	// action's own limit.
	Page int
	// StrictCIDRs refuses prefixes with host bits. AWS replaces them with the canonical
	// form, but a client that sends them is probably wrong.
	StrictCIDRs bool
}

// Bucket is a token bucket: its size, and the tokens that return each second.
type Bucket struct{ Size, Rate float64 }

// defaults are the quotas of AWS, and background operations without delay.
func defaults() Settings {
	return Settings{
		RoutesPerTable: 500, TablesPerVPC: 200,
		VPCs: 5, SubnetsPerVPC: 200, CIDRsPerVPC: 5,
		Gateways: 5, NATsPerZone: 5, Addresses: 5,
		GroupsPerVPC: 500, RulesPerGroup: 60, GroupsPerInterface: 5, TagsPerObject: 50,
		Balancers: 50, TargetGroups: 3000, ListenersPerBalancer: 50, TargetsPerZone: 500, TargetsPerBalancer: 3000, GroupsPerBalancer: 5, Endpoints: 20,
		Visible: time.Hour,
	}
}

// Published returns the buckets of an account that AWS has not changed: 100 calls and 20
// a second of what reads, 50 and 5 of what writes, 50 and 10 of an unfiltered read. The
// reads of load balancers together have 40 and 10. The buckets of their changes and of the topology
// are assumptions.
func Published() map[string]Bucket {
	read, write := Bucket{100, 20}, Bucket{50, 5}
	b := map[string]Bucket{
		"": write, unfiltered: {50, 10}, "RunInstances": {5, 2},
		ReadsOfBalancers: {40, 10}, ChangesOfBalancers: {20, 4}, TargetsRegistrations: {20, 4},
	}
	for o, a := range actions {
		if a.reads && o.service != elbService {
			b[o.name] = read
		}
	}
	b["DescribeInstanceTopology"] = Bucket{1, 1} // an assumption
	return b
}

// unfiltered is the key of the buckets of reads without IDs, filters and page size.
const unfiltered = "unfiltered"
