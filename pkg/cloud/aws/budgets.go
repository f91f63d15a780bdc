package aws

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// defaultShare is the part of the published rates that is used.
const defaultShare = 0.5

// published are the buckets that Amazon EC2 gives each account in each region, for each
// action: how many requests at once, and how many more a second. Actions that are not
// here have those of reads or of changes.
var published = map[string]cloud.Budget{
	"ModifyNetworkInterfaceAttribute": {Burst: 100, Rate: 5},
	// All reads of Elastic Load Balancing share a bucket. What the changes have is not
	// published.
	readsOfBalancers:   {Burst: 40, Rate: 10},
	changesOfBalancers: {Burst: 20, Rate: 4},
	// Service Quotas and STS publish none. These are asked for rarely.
	"GetServiceQuota": {Burst: 4, Rate: 1},
}

var (
	publishedRead   = cloud.Budget{Burst: 100, Rate: 20}
	publishedChange = cloud.Budget{Burst: 50, Rate: 5}
)

// The buckets that actions of Elastic Load Balancing share.
const (
	readsOfBalancers   = "reads of load balancers"
	changesOfBalancers = "changes of load balancers"
)

// bucketOf returns the name of the bucket that an action is paced by: its own, or one that
// it shares with others.
func bucketOf(action string) string {
	switch {
	case !balancing[action]:
		return action
	case strings.HasPrefix(action, "Describe"):
		return readsOfBalancers
	}
	return changesOfBalancers
}

// whole are actions whose whole bucket may be used at once. Programs other than route
// controllers do not request them. What returns to the bucket is shared.
var whole = map[string]bool{"CreateRoute": true, "ReplaceRoute": true, "DeleteRoute": true}

// budgetOf returns the budget of an action. A share of more than 1 is for an account
// whose limits were raised.
func budgetOf(action string, share float64) cloud.Budget {
	b, known := published[bucketOf(action)]
	switch {
	case known:
	case strings.HasPrefix(action, "Describe"):
		b = publishedRead
	default:
		b = publishedChange
	}
	burst := share
	if whole[action] {
		burst = max(1, share)
	}
	return cloud.Budget{Burst: max(1, b.Burst*burst), Rate: b.Rate * share}
}
