package aws

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// defaultShare is the part of the published rates that a Client uses.
const defaultShare = 0.5

// published are the token buckets of an account in a region, by action or by the bucket that
// actions share. Amazon publishes most of them. Other actions have publishedRead or
// publishedChange.
var published = map[string]cloud.Budget{
	"ModifyNetworkInterfaceAttribute": {Burst: 100, Rate: 5},
	createNAT:                         {Burst: 10, Rate: 1},
	deleteNAT:                         {Burst: 10, Rate: 1},
	createTags:                        {Burst: 100, Rate: 10},
	deleteTags:                        {Burst: 100, Rate: 10},
	runInstances:                      {Burst: 5, Rate: 2},
	terminateInstances:                {Burst: 100, Rate: 5},
	createEndpoint:                    {Burst: 4, Rate: 0.3},
	modifyEndpoint:                    {Burst: 4, Rate: 0.3},
	deleteEndpoints:                   {Burst: 4, Rate: 0.3},
	// This is an assumption. A Client needs the action only for new Nodes of a few types.
	describeTopology: {Burst: 1, Rate: 1},
	// All reads of Elastic Load Balancing share a bucket. The bucket of the changes is not
	// published, so this one is an assumption.
	readsOfBalancers:   {Burst: 40, Rate: 10},
	changesOfBalancers: {Burst: 20, Rate: 4},
	// The bucket of Service Quotas is not published. A Client needs it rarely.
	"GetServiceQuota": {Burst: 4, Rate: 1},
}

var (
	publishedRead   = cloud.Budget{Burst: 100, Rate: 20}
	publishedChange = cloud.Budget{Burst: 50, Rate: 5}
)

// Actions of Elastic Load Balancing share these buckets.
const (
	readsOfBalancers   = "reads of load balancers"
	changesOfBalancers = "changes of load balancers"
)

// bucketOf returns the name of the bucket of an action: its own, or one that it shares with
// others.
func bucketOf(action string) string {
	switch {
	case !balancing[action]:
		return action
	case strings.HasPrefix(action, "Describe"):
		return readsOfBalancers
	}
	return changesOfBalancers
}

// whole are the actions whose whole bucket the Client may use at once, because only route
// controllers request them. It uses only its share of the tokens that return.
var whole = map[string]bool{"CreateRoute": true, "ReplaceRoute": true, "DeleteRoute": true}

// budgetOf returns the budget of an action. share is the part of the published rates to use;
// more than 1 is for an account with raised limits.
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
