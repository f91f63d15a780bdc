package aws

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/tulle-net/tulle/pkg/awsnet"
)

// part is a part of a reading, which one read returns. of is the object that it is
// about, if there is one.
type part struct{ name, of string }

// The parts of a reading.
const (
	partVPCs           = "VPCs"
	partHostnames      = "hostnames"
	partSupport        = "DNS support"
	partSubnets        = "subnets"
	partTables         = "tables"
	partGateways       = "gateways"
	partTaggedGateways = "tagged gateways"
	partEgress         = "egress-only gateways"
	partCarriers       = "carrier gateways"
	partAddresses      = "addresses"
	partNATs           = "NAT gateways"
	partEndpoints      = "endpoints"
	partGroups         = "groups"
	partRules          = "rules"
	partBastion        = "bastion"
	partHolders        = "interfaces"
	// The parts about load balancers. The first two lists have everything in the VPC,
	// and the next two only the cluster's.
	partBalancers            = "balancers"
	partTargetGroups         = "target groups"
	partOurBalancers         = "our balancers"
	partOurTargetGroups      = "our target groups"
	partListeners            = "listeners"
	partBalancerTags         = "balancer tags"
	partOurTags              = "tags of our balancers"
	partListenerTags         = "listener tags"
	partBalancerAttributes   = "balancer attributes"
	partTargetGroupAttribute = "target group attributes"
)

// partReads are the functions that read the parts.
var partReads map[string]func(*networkReader, context.Context, part) error

// init breaks the initialization cycle between partReads and the functions in it.
func init() {
	partReads = map[string]func(*networkReader, context.Context, part) error{
		partVPCs: (*networkReader).readVPCs, partHostnames: (*networkReader).readVPCAttribute, partSupport: (*networkReader).readVPCAttribute,
		partSubnets: (*networkReader).readSubnets, partTables: (*networkReader).readTables,
		partGateways: (*networkReader).readGateways, partTaggedGateways: (*networkReader).readGateways, partEgress: (*networkReader).readEgress,
		partCarriers: (*networkReader).readCarriers, partAddresses: (*networkReader).readAddresses, partNATs: (*networkReader).readNATs,
		partEndpoints: (*networkReader).readEndpoints, partGroups: (*networkReader).readGroups, partRules: (*networkReader).readRules,
		partBastion: (*networkReader).readBastion, partHolders: (*networkReader).readHolders,
		partBalancers: (*networkReader).readBalancers, partOurBalancers: (*networkReader).readBalancers,
		partTargetGroups: (*networkReader).readTargetGroups, partOurTargetGroups: (*networkReader).readTargetGroups,
		partListeners: (*networkReader).readListeners, partBalancerTags: (*networkReader).readBalancerTags, partOurTags: (*networkReader).readBalancerTags, partListenerTags: (*networkReader).readListenerTags,
		partBalancerAttributes: (*networkReader).readBalancerAttributes, partTargetGroupAttribute: (*networkReader).readTargetGroupAttributes,
	}
}

// fastParts are the parts that every reading reads: together they prove that all
// objects exist. Only complete readings read whole lists of load balancers, and the
// tags of foreign ones.
var (
	fastParts = []string{partSubnets, partTables, partGroups, partHostnames, partOurBalancers, partListeners}
	onceParts = []string{partBalancers, partTargetGroups, partBalancerTags, partHolders}
)

// facts are the results of a reading, by part. Values of one part have one type, and
// are equal if and only if AWS's answers are.
type facts map[part]any

// parts returns the parts that each later reading reads, and those that later readings
// read in turn.
func (f facts) parts() (fast, slow []part) {
	for p := range f {
		switch {
		case slices.Contains(fastParts, p.name):
			fast = append(fast, p)
		case !slices.Contains(onceParts, p.name) && !f.empty(p):
			slow = append(slow, p)
		}
	}
	order := func(a, b part) int { return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.of, b.of)) }
	slices.SortFunc(fast, order)
	slices.SortFunc(slow, order)
	return fast, slow
}

// empty reports whether a part needs no call, because it is about no object.
func (f facts) empty(p part) bool {
	switch p.name {
	case partOurTags, partListenerTags:
		return len(f[p].(map[string]map[string]string)) == 0
	case partOurTargetGroups:
		return len(f[p].(targetGroupList)) == 0
	}
	return false
}

// foundList is a part whose objects need no other part.
type foundList []awsnet.Found

func (l foundList) shows(id string) bool {
	return slices.ContainsFunc(l, func(f awsnet.Found) bool { return f.ID == id })
}

// partOf are the parts that contain an object, by the prefix of its ID.
var partOf = map[string]string{
	"vpc": partVPCs, "subnet": partSubnets, "rtb": partTables, "igw": partTaggedGateways, "eigw": partEgress, "cagw": partCarriers,
	"eipalloc": partAddresses, "nat": partNATs, "vpce": partEndpoints, "sg": partGroups, "i": partBastion,
}

// covers reports whether the reading has the part that contains an object in its VPCs.
func (f facts) covers(id string) bool {
	prefix, _, _ := strings.Cut(id, "-")
	name := partOf[prefix]
	switch {
	case balancerARN.MatchString(id):
		name = partBalancers
	case groupARN.MatchString(id):
		name = partTargetGroups
	}
	for p := range f {
		if p.name == name {
			return true
		}
	}
	return false
}

// shows reports whether the reading has an object, even one that is deleted.
func (f facts) shows(id string) bool {
	for _, value := range f {
		if list, ok := value.(interface{ shows(id string) bool }); ok && list.shows(id) {
			return true
		}
	}
	return false
}
