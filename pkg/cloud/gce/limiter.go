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

// budgetOf returns the budget of a bucket. A project's smallest default quota is 1,500
// requests a minute; this is less than half of it.
func budgetOf(bucket string) cloud.Budget {
	if bucket == polls {
		return cloud.Budget{Burst: 10, Rate: 5}
	}
	return cloud.Budget{Burst: 20, Rate: 10}
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
