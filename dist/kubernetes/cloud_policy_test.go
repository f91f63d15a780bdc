//go:build kube

package kubernetes

import (
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// taints is a patch to these taints.
func taints(all ...any) map[string]any {
	return map[string]any{"spec": map[string]any{"taints": append([]any{}, all...)}}
}

func taint(key, effect string) map[string]any { return map[string]any{"key": key, "effect": effect} }

func labels(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"labels": map[string]any{name: value}}}
}

// status is a patch of one field of a status.
func status(name string, value any) map[string]any {
	return map[string]any{"status": map[string]any{name: value}}
}

// TestControllerPolicyOfAWS writes with the token of tulle-controller what its controllers
// of a cloud write, and tries what they do not.
func TestControllerPolicyOfAWS(t *testing.T) {
	l, token := controlled(t, onAWS(t, ""))
	l.node("a")
	for _, name := range []string{"gone", "nameless"} {
		l.register(name, func(n *corev1.Node) {
			if n.Status.Conditions[0].Status = corev1.ConditionUnknown; name == "gone" {
				n.Spec.ProviderID = "aws:///z/i-0123456789abcdef0"
			}
		})
	}
	waiting := map[string]any{"key": uninitialized, "value": "true", "effect": "NoSchedule"}
	dedicated := taint("example.org/dedicated", "NoExecute")
	l.Do(http.MethodPatch, "/api/v1/nodes/a", taints(waiting, dedicated), nil)
	addresses := status("addresses", []any{map[string]any{"type": "InternalIP", "address": "198.18.0.2"}})
	patch := func(what, path string, body map[string]any, refused string) write {
		return write{what, http.MethodPatch, path, merging, body, refused}
	}
	l.try(token, []write{
		patch("addresses", "/a/status", addresses, ""),
		{"the condition", http.MethodPatch, "/a/status", strategic, condition("NetworkUnavailable", "False"), ""},
		{"another condition", http.MethodPatch, "/a/status", strategic, condition("Ready", "False"), only + "the NetworkUnavailable condition"},
		patch("capacity", "/a/status", status("capacity", map[string]any{"cpu": "200"}), only+"addresses and conditions"),
		patch("images away", "/a/status", status("images", nil), only+"addresses and conditions"),
		patch("a zone", "/a", labels("topology.kubernetes.io/zone", "eu-central-1a"), ""),
		patch("an ID of a zone", "/a", labels("topology.k8s.aws/zone-id", "euc1-az2"), ""),
		patch("a network node", "/a", labels("topology.k8s.aws/network-node-layer-1", "nn-0123456789abcdef0"), ""),
		patch("one of no layer", "/a", labels("topology.k8s.aws/network-node-layer-10", "nn-0123456789abcdef0"), only+"the labels"),
		patch("one of another group", "/a", labels("x.topology.k8s.aws/network-node-layer-1", "nn-0123456789abcdef0"), only+"the labels"),
		patch("a role", "/a", labels("node-role.kubernetes.io/control-plane", ""), only+"the labels"),
		patch("a label changed", "/a", labels("kubernetes.io/hostname", "b"), only+"the labels"),
		patch("a label away", "/a", labels("zone", nil), only+"the labels"),
		patch("a role by the status", "/a/status", labels("node-role.kubernetes.io/control-plane", ""), only+"the labels"),
		patch("an annotation", "/a", annotate("example.org/new", "x"), only+"the annotation"),
		patch("its annotation", "/a", annotate("tulle.net/ipam-term", "1"), ""),
		patch("what nodes read of its routes", "/a/status", annotate("tulle.net/routed", "vpc-1 192.0.2.1 10.244.1.0/24"), ""),
		patch("that away", "/a/status", annotate("tulle.net/routed", nil), ""),
		patch("finalizers away", "/a", map[string]any{"metadata": map[string]any{"finalizers": nil}}, only+"three annotations and labels"),
		patch("being unschedulable", "/a", map[string]any{"spec": map[string]any{"unschedulable": true}}, only+"podCIDRs, providerID, taints"),
		patch("another taint away", "/a", taints(waiting), only+"the taints"),
		patch("another taint added", "/a", taints(waiting, dedicated, taint("a", "NoExecute")), only+"the taints"),
		patch("the taint of a stopped instance", "/a", taints(waiting, dedicated, taint(shutdown, "NoSchedule")), ""),
		patch("that with another effect", "/a", taints(waiting, dedicated, taint(shutdown, "NoExecute")), "may add only the taint"),
		patch("the first taint changed", "/a", taints(taint(uninitialized, "NoExecute"), dedicated), "may add only the taint"),
		patch("its taints away", "/a", taints(dedicated), ""),
		patch("the first taint again", "/a", taints(waiting, dedicated), "may add only the taint"),
		patch("an ID of an instance", "/a", map[string]any{"spec": map[string]any{"providerID": "aws:///z/i-0123456789abcdef1"}}, ""),
		patch("the mark of another instance", "/a", annotate(outlived, "aws:///z/i-0123456789abcdef2"), "only to the Node's providerID"),
		patch("the mark of its instance", "/a", annotate(outlived, "aws:///z/i-0123456789abcdef1"), ""),
		patch("the mark away", "/a", map[string]any{"metadata": map[string]any{"annotations": map[string]any{outlived: nil}}}, ""),
		patch("another one", "/a", map[string]any{"spec": map[string]any{"providerID": "aws:///z/i-0123456789abcdef2"}}, "providerID"),
		{"a new Node", http.MethodPost, "", asJSON, map[string]any{"metadata": map[string]any{"name": "d"}}, "may not create Nodes"},
		{"deletion of a ready Node", http.MethodDelete, "/a", asJSON, nil, "may delete only Nodes of a cloud that are not ready"},
		{"deletion of a Node without an instance", http.MethodDelete, "/nameless", asJSON, nil, "may delete only Nodes of a cloud that are not ready"},
		{"deletion", http.MethodDelete, "/gone", asJSON, nil, ""},
	})
}

// TestControllerPolicyWithoutLifecycle checks that what a controller writes is denied if
// that controller does not run.
func TestControllerPolicyWithoutLifecycle(t *testing.T) {
	l, token := controlled(t, onAWS(t, "  controllers: [cloud-node]"))
	waiting := map[string]any{"key": uninitialized, "value": "true", "effect": "NoSchedule"}
	l.register("a", func(n *corev1.Node) {
		n.Spec.ProviderID = "aws:///z/i-0123456789abcdef0"
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	})
	l.Do(http.MethodPatch, "/api/v1/nodes/a", taints(waiting), nil) // without those that the server adds
	l.try(token, []write{
		{"deletion", http.MethodDelete, "/a", asJSON, nil, "neither create nor delete Nodes"},
		{"podCIDRs", http.MethodPatch, "/a", merging, map[string]any{"spec": map[string]any{"podCIDR": "10.244.1.0/24", "podCIDRs": []string{"10.244.1.0/24"}}}, only + "providerID, taints"},
		{"its annotation", http.MethodPatch, "/a", merging, annotate("tulle.net/ipam-term", "1"), only + "labels"},
		{"the mark of its instance", http.MethodPatch, "/a", merging, annotate(outlived, "aws:///z/i-0123456789abcdef0"), only + "labels"},
		{"the condition", http.MethodPatch, "/a/status", strategic, condition("NetworkUnavailable", "False"), only + "addresses"},
		{"the taint of a stopped instance", http.MethodPatch, "/a", merging, taints(waiting, taint(shutdown, "NoSchedule")), only + "the taint"},
		{"the last taint away", http.MethodPatch, "/a", merging, taints(), ""},
	})
}
