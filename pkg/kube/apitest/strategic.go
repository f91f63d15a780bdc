package apitest

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// mergeLists completes a strategic merge patch. Conditions, addresses and podCIDRs are the
// only lists in which the two kinds of patches differ for what controllers write: taints
// are one value, as in a merge patch.
func mergeLists(before, change map[string]any) {
	mergeByType(before, change, "conditions")
	mergeByType(before, change, "addresses")
	addCIDRs(before, change)
}

// mergeByType completes a patch of a list in a status: what it does not name stays, unless
// the list begins with the order to replace all.
func mergeByType(before, change map[string]any, list string) {
	status, _ := change["status"].(map[string]any)
	named, ok := status[list].([]any)
	if !ok {
		return
	}
	if len(named) > 0 {
		if first, _ := named[0].(map[string]any); first["$patch"] == "replace" {
			status[list] = named[1:]
			return
		}
	}
	kind := func(element any) any { c, _ := element.(map[string]any); return c["type"] }
	old, _ := before["status"].(map[string]any)
	all, _ := old[list].([]any)
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
	status[list] = append(merged, named...)
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
