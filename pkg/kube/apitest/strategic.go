package apitest

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mergeLists completes a strategic merge patch. Conditions and podCIDRs are the only lists
// in which the two kinds of patches differ for what controllers write: taints are one
// value, as in a merge patch.
func mergeLists(before, change map[string]any) {
	mergeConditions(before, change)
	addCIDRs(before, change)
}

// mergeConditions completes a patch of a status: the conditions that it does not name
// stay.
func mergeConditions(before, change map[string]any) {
	status, _ := change["status"].(map[string]any)
	named, ok := status["conditions"].([]any)
	if !ok {
		return
	}
	kind := func(condition any) any { c, _ := condition.(map[string]any); return c["type"] }
	old, _ := before["status"].(map[string]any)
	all, _ := old["conditions"].([]any)
	merged := []any{}
	for _, was := range all {
		for i, now := range named {
			if kind(now) == kind(was) {
				was = merge(was, now)
				named = append(named[:i:i], named[i+1:]...)
				break
			}
		}
		merged = append(merged, was)
	}
	status["conditions"] = append(merged, named...)
}

// addCIDRs adds to a Node's podCIDRs what a change has, as in a strategic merge patch.
func addCIDRs(before, change map[string]any) {
	more, found, _ := unstructured.NestedSlice(change, "spec", "podCIDRs")
	if !found {
		return
	}
	all, _, _ := unstructured.NestedSlice(before, "spec", "podCIDRs")
	for _, cidr := range more {
		if !slices.Contains(all, cidr) {
			all = append(all, cidr)
		}
	}
	change["spec"].(map[string]any)["podCIDRs"] = all
}
