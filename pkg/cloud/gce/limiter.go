package gce

import (
	"strings"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The buckets of requests: the API has quotas a minute for each of these, which a project
// shares with other programs.
const (
	reads   = "reads"
	changes = "changes"
	polls   = "polls"
)

// defaultShare is the part of the rates that a Client uses.
const defaultShare = 0.5

// budgetOf returns the budget of a bucket. By default, a project has 1,500 requests a minute
// for each kind of request, which is 25 a second. The rates here are lower.
func budgetOf(bucket string, share float64) cloud.Budget {
	rates := cloud.Budget{Burst: 40, Rate: 20}
	if bucket == polls {
		rates = cloud.Budget{Burst: 20, Rate: 10}
	}
	return cloud.Budget{Burst: max(1, rates.Burst*share), Rate: rates.Rate * share}
}

// bucketOf returns the bucket of an action.
func bucketOf(action string) string {
	_, verb, _ := strings.Cut(action, ".")
	switch {
	case strings.Contains(action, "Operations."):
		return polls
	case verb == "get" || verb == "list" || verb == "aggregatedList":
		return reads
	}
	return changes
}
