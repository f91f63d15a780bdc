//go:build kube

package kubernetes

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestControllerPolicyLimitsItToPodCIDRs writes with the token of tulle-controller what
// it may write, and tries what it may not.
func TestControllerPolicyLimitsItToPodCIDRs(t *testing.T) {
	manifest, _ := controllerManifest(t)
	testControllerPolicy(t, manifest, []write{
		{"a condition", http.MethodPatch, "/a/status", strategic, condition("NetworkUnavailable", "False"), only + "podCIDRs"},
	})
}

// TestControllerPolicyOfCloudAllowsOneCondition does the same if podCIDRs are a cloud's.
func TestControllerPolicyOfCloudAllowsOneCondition(t *testing.T) {
	rendered, err := chart("tulle", namespace, "namespace: {create: true}\ncontroller: {enabled: true, allocatorType: CloudAllocator}")
	if err != nil {
		t.Fatal(err)
	}
	testControllerPolicy(t, objects(t, rendered), []write{
		{"the condition", http.MethodPatch, "/a/status", strategic, condition("NetworkUnavailable", "False"), ""},
		{"another condition", http.MethodPatch, "/a/status", strategic, condition("Ready", "False"), only + "the NetworkUnavailable condition"},
		{"all conditions away", http.MethodPatch, "/a/status", merging, map[string]any{"status": map[string]any{"conditions": nil}}, only + "the NetworkUnavailable condition"},
		{"capacity", http.MethodPatch, "/a/status", merging, map[string]any{"status": map[string]any{"capacity": map[string]any{"cpu": "200"}}}, only + "conditions"},
	})
}

// write is an attempt to write.
type write struct {
	what, method, path, content string
	body                        map[string]any
	refused                     string // a part of the reason; "" if it is allowed
}

// only begins the reasons of refusals.
const only = "may change only "

func testControllerPolicy(t *testing.T, manifest []object, more []write) {
	t.Helper()
	l, token := controlled(t, manifest)
	l.node("a")
	meta := func(name string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{name: value}}
	}
	spec := func(name string, value any) map[string]any {
		return map[string]any{"spec": map[string]any{name: value}}
	}
	l.try(token, append([]write{
		{"its annotation", http.MethodPatch, "/a", merging, annotate("tulle.net/ipam-term", "1"), ""},
		{"podCIDRs and its annotation", http.MethodPatch, "/a", merging, map[string]any{
			"metadata": map[string]any{"annotations": map[string]any{"tulle.net/ipam-term": nil}},
			"spec":     map[string]any{"podCIDR": "10.244.1.0/24", "podCIDRs": []string{"10.244.1.0/24"}},
		}, ""},
		{"nothing", http.MethodPatch, "/a", merging, map[string]any{}, ""},
		{"another annotation", http.MethodPatch, "/a", merging, annotate("example.org/new", "x"), only + "the annotation"},
		{"an annotation away", http.MethodPatch, "/a", merging, annotate("example.org/owner", nil), only + "the annotation"},
		{"a label", http.MethodPatch, "/a", merging, meta("labels", map[string]any{"node-role.kubernetes.io/control-plane": ""}), only + "one annotation"},
		{"finalizers away", http.MethodPatch, "/a", merging, meta("finalizers", nil), only + "one annotation"},
		{"a taint", http.MethodPatch, "/a", merging, spec("taints", []any{map[string]any{"key": "a", "effect": "NoExecute"}}), only + "podCIDRs"},
		{"being unschedulable", http.MethodPatch, "/a", merging, spec("unschedulable", true), only + "podCIDRs"},
		{"a provider's ID", http.MethodPatch, "/a", merging, spec("providerID", "x://y"), only + "podCIDRs"},
		{"deletion", http.MethodDelete, "/a", asJSON, nil, "neither create nor delete Nodes"},
		{"a new one", http.MethodPost, "", asJSON, meta("name", "d"), "neither create nor delete Nodes"},
	}, more...))
	if code, said := l.call(adminToken, http.MethodPatch, "/api/v1/nodes/a", merging, meta("labels", map[string]any{"zone": "c"})); code != http.StatusOK {
		t.Errorf("an admin's label: %d %s", code, said)
	}
}

// try writes with a token whose RBAC allows every change of Nodes and Services, so that only
// the policies refuse some. Paths are those after /api/v1/nodes, or whole.
func (l lab) try(token string, writes []write) {
	l.t.Helper()
	l.Do(http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/tulle-controller", map[string]any{"rules": []any{
		map[string]any{"apiGroups": []string{""}, "resources": []string{"nodes", "nodes/status", "services", "services/status"}, "verbs": []string{"*"}},
	}}, nil)
	for _, c := range writes {
		kerneltest.Eventually(l.t, patience, func() error {
			path := c.path
			if !strings.HasPrefix(path, "/api/") {
				path = "/api/v1/nodes" + path
			}
			code, said := l.call(token, c.method, path, c.content, c.body)
			switch {
			case c.refused == "" && code != http.StatusOK:
				l.t.Fatalf("%s: %d %s", c.what, code, said)
			case c.refused != "" && code < 400:
				l.t.Fatalf("%s: %d %s; want it refused with %q", c.what, code, said, c.refused)
			case !strings.Contains(said, c.refused): // RBAC may not know the right yet
				return fmt.Errorf("%s: %d %s; want it refused with %q", c.what, code, said, c.refused)
			}
			return nil
		})
	}
}
