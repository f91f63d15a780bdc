//go:build kube

package kubernetes

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/kube"
)

// policed returns a control plane with the plain manifest, Nodes a and b, and the
// token of the daemon on a, once the policy is in force. Flags are more of the
// server's.
func policed(t *testing.T, flags ...string) (l lab, token string) {
	t.Helper()
	l = newLab(t, kubetest.Options{Flags: flags})
	manifest := plain(t)
	l.apply(manifest)
	l.node("a", "10.244.1.0/24")
	l.node("b", "10.244.2.0/24")
	token = l.pod(manifest, "a")
	kerneltest.Eventually(t, patience, func() error {
		code, said := l.call(token, http.MethodPatch, "/api/v1/nodes/b/status?dryRun=All", merging, annotate("flannel.alpha.coreos.com/public-ip", "192.0.2.7"))
		if code == http.StatusOK {
			return fmt.Errorf("%d %s", code, said)
		}
		return nil
	})
	return l, token
}

func annotate(name string, value any) map[string]any {
	return map[string]any{"metadata": map[string]any{"annotations": map[string]any{name: value}}}
}

func condition(kind, status string) map[string]any {
	return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": kind, "status": status, "reason": "Test", "lastHeartbeatTime": "2031-01-01T00:00:00Z", "lastTransitionTime": "2031-01-01T00:00:00Z",
	}}}}
}

// TestPolicyLimitsNodesToThemselves writes with a daemon's token what it may write,
// and tries what it may not.
func TestPolicyLimitsNodesToThemselves(t *testing.T) {
	testPolicy(t)
}

// TestPolicyOldServer does the same with expressions compiled as in the oldest
// Kubernetes that the server can emulate.
func TestPolicyOldServer(t *testing.T) {
	testPolicy(t, "--emulated-version=1.31")
}

func testPolicy(t *testing.T, flags ...string) {
	t.Helper()
	l, token := policed(t, flags...)
	const prefix = "flannel.alpha.coreos.com/"
	meta := func(name string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{name: value}}
	}
	status := func(name string, value any) map[string]any {
		return map[string]any{"status": map[string]any{name: value}}
	}
	only := "may change only "
	for _, c := range []struct {
		what, node, content string
		patch               map[string]any
		refused             string // a part of the reason; "" if it is allowed
	}{
		{"its annotations", "a", merging, map[string]any{"metadata": map[string]any{"annotations": map[string]any{
			prefix + "kube-subnet-manager": "true", prefix + "backend-type": "vxlan", prefix + "backend-data": `{"VNI":1}`, prefix + "backend-v6-data": "null",
			prefix + "public-ip": "192.0.2.7", prefix + "public-ipv6": "fd00::7", prefix + "tulle": "{}",
		}}}, ""},
		{"its podCIDRs, once more", "a", merging, annotate(prefix+"tulle-subnets", "10.244.1.0/24"), ""},
		{"another's podCIDR", "a", merging, annotate(prefix+"tulle-subnets", "10.244.2.0/24"), "claim only its own"},
		{"its own and another's", "a", merging, annotate(prefix+"tulle-subnets", "10.244.1.0/24,10.244.2.0/24"), "claim only its own"},
		{"none", "a", merging, annotate(prefix+"tulle-subnets", ""), "claim only its own"},
		{"one of them", "a", merging, annotate(prefix+"public-ip", "192.0.2.8"), ""},
		{"one of them away", "a", merging, annotate(prefix+"backend-v6-data", nil), ""},
		{"nothing", "a", merging, map[string]any{}, ""},
		{"the condition", "a", strategic, condition("NetworkUnavailable", "False"), ""},
		{"the condition again", "a", strategic, condition("NetworkUnavailable", "True"), ""},

		{"another's annotation", "b", merging, annotate(prefix+"public-ip", "192.0.2.7"), "only its own Node"},
		{"another's condition", "b", strategic, condition("NetworkUnavailable", "False"), "only its own Node"},
		{"nothing of another", "b", merging, map[string]any{}, "only its own Node"},
		{"a person's annotation", "a", merging, annotate("example.org/owner", "me"), only + "the network's own annotations"},
		{"a person's annotation away", "a", merging, annotate("example.org/owner", nil), only + "the network's own annotations"},
		{"a new annotation", "a", merging, annotate("example.org/new", "x"), only + "the network's own annotations"},
		{"an empty one", "a", merging, annotate("example.org/new", ""), only + "the network's own annotations"},
		{"what people say of addresses", "a", merging, annotate(prefix+"public-ip-overwrite", "192.0.2.9"), only + "the network's own annotations"},
		{"kubelet's annotation", "a", merging, annotate("node.alpha.kubernetes.io/ttl", "0"), only + "the network's own annotations"},
		{"a label", "a", merging, meta("labels", map[string]any{"zone": "b"}), only + "annotations in a Node's metadata"},
		{"a new label", "a", merging, meta("labels", map[string]any{"node-role.kubernetes.io/control-plane": ""}), only + "annotations in a Node's metadata"},
		{"a label away", "a", merging, meta("labels", map[string]any{"zone": nil}), only + "annotations in a Node's metadata"},
		{"all labels away", "a", merging, meta("labels", nil), only + "annotations in a Node's metadata"},
		{"a finalizer", "a", merging, meta("finalizers", []string{"example.org/mine"}), only + "annotations in a Node's metadata"},
		{"finalizers away", "a", merging, meta("finalizers", nil), only + "annotations in a Node's metadata"},
		{"an owner", "a", merging, meta("ownerReferences", []any{map[string]any{"apiVersion": "v1", "kind": "Node", "name": "b", "uid": "x"}}), only + "annotations in a Node's metadata"},
		{"being ready", "a", strategic, condition("Ready", "False"), only + "the NetworkUnavailable condition of a Node"},
		{"a new condition", "a", strategic, condition("DiskPressure", "True"), only + "the NetworkUnavailable condition of a Node"},
		{"other conditions away", "a", merging, condition("NetworkUnavailable", "False"), only + "the NetworkUnavailable condition of a Node"},
		{"all conditions away", "a", merging, status("conditions", nil), only + "the NetworkUnavailable condition of a Node"},
		{"addresses", "a", merging, status("addresses", []any{map[string]any{"type": "InternalIP", "address": "198.18.0.2"}}), only + "conditions in a Node's status"},
		{"addresses away", "a", merging, status("addresses", nil), only + "conditions in a Node's status"},
		{"capacity", "a", merging, status("capacity", map[string]any{"cpu": "200"}), only + "conditions in a Node's status"},
		{"what it runs", "a", merging, status("nodeInfo", map[string]any{"kubeletVersion": "v9"}), only + "conditions in a Node's status"},
		{"images away", "a", merging, status("images", nil), only + "conditions in a Node's status"},
	} {
		code, said := l.call(token, http.MethodPatch, "/api/v1/nodes/"+c.node+"/status", c.content, c.patch)
		switch {
		case c.refused == "" && code != http.StatusOK:
			t.Errorf("%s: %d %s", c.what, code, said)
		case c.refused != "" && (code < 400 || !strings.Contains(said, c.refused)):
			t.Errorf("%s: %d %s; want it refused with %q", c.what, code, said, c.refused)
		}
	}
	// A write of the status changes nothing outside the status, with or without the
	// policy.
	before := l.get("a")
	if code, said := l.call(token, http.MethodPatch, "/api/v1/nodes/a/status", merging, map[string]any{"spec": map[string]any{"unschedulable": true}}); code == http.StatusOK && l.get("a") != before {
		t.Errorf("its spec: %d %s", code, said)
	}

	// Even if RBAC gives it more rights, the policy holds.
	l.Do(http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/tulle", map[string]any{"rules": []any{
		map[string]any{"apiGroups": []string{""}, "resources": []string{"nodes", "nodes/status"}, "verbs": []string{"*"}},
	}}, nil)
	for _, c := range []struct {
		what, method, path string
		body               map[string]any
		refused            string
	}{
		{"its spec", http.MethodPatch, "/a", map[string]any{"spec": map[string]any{"unschedulable": true}}, "only annotations and the NetworkUnavailable condition"},
		{"a label", http.MethodPatch, "/a", meta("labels", map[string]any{"zone": "b"}), only + "annotations in a Node's metadata"},
		{"another's annotation", http.MethodPatch, "/b", annotate(prefix+"public-ip", "192.0.2.7"), "only its own Node"},
		{"itself", http.MethodDelete, "/a", nil, "neither create nor delete Nodes"},
		{"another", http.MethodDelete, "/b", nil, "neither create nor delete Nodes"},
		{"a new one", http.MethodPost, "", map[string]any{"metadata": map[string]any{"name": "c"}}, "neither create nor delete Nodes"},
	} {
		content := asJSON
		if c.method == http.MethodPatch {
			content = merging
		}
		kerneltest.Eventually(t, patience, func() error {
			code, said := l.call(token, c.method, "/api/v1/nodes"+c.path, content, c.body)
			if code < 400 {
				t.Fatalf("with every right, %s: %d %s", c.what, code, said)
			}
			if !strings.Contains(said, c.refused) { // RBAC may not know the right yet
				return fmt.Errorf("with every right, %s: %d %s; want it refused with %q", c.what, code, said, c.refused)
			}
			return nil
		})
	}
	// It does not concern other users.
	if code, said := l.call(adminToken, http.MethodPatch, "/api/v1/nodes/b", merging, meta("labels", map[string]any{"zone": "c"})); code != http.StatusOK {
		t.Errorf("an admin's label: %d %s", code, said)
	}
}

// get returns a Node's spec and status from the server.
func (l lab) get(node string) string {
	l.t.Helper()
	var n struct{ Spec, Status any }
	l.Do(http.MethodGet, "/api/v1/nodes/"+node, nil, &n)
	return fmt.Sprint(n)
}

// TestPolicyWantsANode checks that the policy rejects a token that names no Node.
func TestPolicyWantsANode(t *testing.T) {
	l, _ := policed(t)
	var token struct{ Status struct{ Token string } }
	l.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/tulled/token", map[string]any{"spec": map[string]any{"expirationSeconds": 3600}}, &token)
	for _, node := range []string{"a", "b"} {
		code, said := l.call(token.Status.Token, http.MethodPatch, "/api/v1/nodes/"+node+"/status", merging, annotate("flannel.alpha.coreos.com/public-ip", "192.0.2.7"))
		if code != http.StatusUnprocessableEntity || !strings.Contains(said, "only its own Node, which its token must name") {
			t.Errorf("%s: %d %s", node, code, said)
		}
	}
}

// TestStoreWorksWithDaemonsRights runs every operation of the store with a daemon's token.
func TestStoreWorksWithDaemonsRights(t *testing.T) {
	l, token := policed(t)
	config := filepath.Join(t.TempDir(), "net-conf.json")
	if err := os.WriteFile(config, []byte(`{"Network": "10.244.0.0/16", "Backend": {"Type": "vxlan"}}`), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := kube.Open(kube.Options{Kubeconfig: l.Kubeconfig(token), NodeName: "a", Prefix: "flannel.alpha.coreos.com", ConfigFile: config, Program: "tulled"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var claim subnet.Claim
	claim.PublicIP[subnet.IPv4] = netip.MustParseAddr("192.0.2.7")
	claim.BackendType, claim.BackendData[subnet.IPv4] = "vxlan", `{"VNI":1,"VtepMAC":"02:00:00:00:00:07"}`
	claim.Node = subnet.Node{ID: "a", Name: "a", MTU: 1450}
	lease, err := s.Acquire(t.Context(), claim)
	if err != nil || lease.Subnets[subnet.IPv4] != netip.MustParsePrefix("10.244.1.0/24") {
		t.Fatalf("%+v, %v", lease, err)
	}
	for _, c := range []kube.Condition{kube.Up, {Unavailable: true, Reason: "TulleNotReady", Message: "no subnet"}, kube.Up} {
		if err := s.SetNetworkUnavailable(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Event(t.Context(), true, "SubnetChanged", "another has it"); err != nil {
		t.Fatal(err)
	}
	if failing := s.Status().Failing; len(failing) > 0 {
		t.Errorf("%q", failing)
	}
}

// TestStoreOddPodCIDR leases a podCIDR that a person wrote in another form than the
// store would.
func TestStoreOddPodCIDR(t *testing.T) {
	l, _ := policed(t)
	l.node("c", "FD00:10:244:0001::/64")
	config := filepath.Join(t.TempDir(), "net-conf.json")
	if err := os.WriteFile(config, []byte(`{"EnableIPv4": false, "EnableIPv6": true, "IPv6Network": "fd00:10:244::/56"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := kube.Open(kube.Options{Kubeconfig: l.Kubeconfig(l.pod(plain(t), "c")), NodeName: "c", Prefix: "flannel.alpha.coreos.com", ConfigFile: config, Program: "tulled"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var claim subnet.Claim
	claim.PublicIP[subnet.IPv6] = netip.MustParseAddr("2001:db8::7")
	claim.BackendType, claim.BackendData[subnet.IPv6] = "vxlan", `{"VNI":1,"VtepMAC":"02:00:00:00:00:07"}`
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	lease, err := s.Acquire(ctx, claim)
	if err != nil || lease.Subnets[subnet.IPv6] != netip.MustParsePrefix("fd00:10:244:1::/64") {
		t.Fatalf("%+v, %v: %q", lease, err, s.Status().Failing)
	}
}

// TestDaemonHasNoMoreRights asks the server for the rights of a daemon's token.
func TestDaemonHasNoMoreRights(t *testing.T) {
	l, token := policed(t)
	for _, c := range []struct {
		verb, group, resource, subresource, namespace string
		want                                          bool
	}{
		{"get", "", "nodes", "", "", true},
		{"list", "", "nodes", "", "", true},
		{"watch", "", "nodes", "", "", true},
		{"patch", "", "nodes", "status", "", true},
		{"create", "", "events", "", "default", true},

		{"patch", "", "nodes", "", "", false},
		{"update", "", "nodes", "", "", false},
		{"update", "", "nodes", "status", "", false},
		{"create", "", "nodes", "", "", false},
		{"delete", "", "nodes", "", "", false},
		{"get", "", "nodes", "proxy", "", false},
		{"create", "", "events", "", namespace, false},
		{"list", "", "events", "", "default", false},
		{"get", "", "pods", "", namespace, false},
		{"list", "", "pods", "", "", false},
		{"create", "", "pods", "", namespace, false},
		{"create", "", "pods", "exec", namespace, false},
		{"get", "", "secrets", "", namespace, false},
		{"list", "", "secrets", "", "", false},
		{"get", "", "configmaps", "", namespace, false},
		{"create", "", "serviceaccounts", "token", namespace, false},
		{"impersonate", "", "users", "", "", false},
		{"bind", "rbac.authorization.k8s.io", "clusterroles", "", "", false},
		{"patch", "apps", "daemonsets", "", namespace, false},
		{"delete", "admissionregistration.k8s.io", "validatingadmissionpolicybindings", "", "", false},
	} {
		review := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": map[string]any{"resourceAttributes": map[string]any{
			"verb": c.verb, "group": c.group, "resource": c.resource, "subresource": c.subresource, "namespace": c.namespace,
		}}}
		code, said := l.call(token, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", asJSON, review)
		if code != http.StatusCreated || strings.Contains(said, `"allowed":true`) != c.want {
			t.Errorf("%s %s/%s of %q in %q: %d %s; want it allowed: %t", c.verb, c.resource, c.subresource, c.group, c.namespace, code, said, c.want)
		}
	}
	// And the server enforces them.
	for path, want := range map[string]int{
		"/api/v1/nodes": http.StatusOK, "/api/v1/nodes?watch=true&timeoutSeconds=1": http.StatusOK,
		"/api/v1/nodes/a": http.StatusOK, "/api/v1/secrets": http.StatusForbidden, "/api/v1/pods": http.StatusForbidden,
	} {
		if code, said := l.call(token, http.MethodGet, path, asJSON, nil); code != want {
			t.Errorf("%s: %d %s", path, code, said)
		}
	}
}
