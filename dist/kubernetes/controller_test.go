//go:build kube

package kubernetes

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// deployment is the part of it that the tests read.
type deployment struct {
	Spec struct{ Template struct{ Spec podSpec } }
}

// controllerManifest returns the plain manifest of tulle-controller, and its container.
func controllerManifest(t *testing.T) (all []object, c container) {
	t.Helper()
	text, err := os.ReadFile("tulle-controller.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all = objects(t, string(text))
	return all, find[deployment](t, all, "Deployment").Spec.Template.Spec.Containers[0]
}

// controllerProgram builds tulle-controller.
func controllerProgram(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "tulle-controller")
	if out, err := exec.Command("go", "build", "-o", path, "../../pkg/cmd/tulle-controller").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// environment returns a container's variables.
func (c container) environment() (all []string) {
	for _, v := range c.Env {
		all = append(all, v.Name+"="+v.Value)
	}
	return all
}

// controllerValues turns the controller on, with every value another than the default.
const controllerValues = `
controller:
  enabled: true
  replicas: 3
  mode: observe
  clusterCIDR: 10.245.0.0/16
  nodeMaskIPv4: 26
  nodeMaskIPv6: 80
  serviceRange: 10.97.0.0/16
  extraArgs: [-v=1, --controllers=nodeipam]
  healthIP: "::"
  healthPort: 10999
  nodeSelector: {node-role.kubernetes.io/control-plane: ""}
  tolerations: [{operator: Exists}]
  priorityClassName: mine
  resources: {}
`

// TestControllerPod checks that tulle-controller understands its arguments and
// variables, and that its pod has nothing of the host but the network.
func TestControllerPod(t *testing.T) {
	program := controllerProgram(t)
	for values, want := range map[string]string{
		"controller: {enabled: true}": "10.244.0.0/16",
		controllerValues:              "10.245.0.0/16",
		"controller: {enabled: true}\nnetwork: {ipv6: \"fd00:10:244::/56\"}":    "10.244.0.0/16,fd00:10:244::/56",
		"controller: {enabled: true}\nnetwork: {ipv4: \"\", ipv6: \"fd::/56\"}": "fd::/56",
	} {
		rendered, err := chart("tulle", namespace, values)
		if err != nil {
			t.Fatal(err)
		}
		pod := find[deployment](t, objects(t, rendered), "Deployment").Spec.Template.Spec
		c := pod.Containers[0]
		if !slices.Contains(c.environment(), "TULLE_CONTROLLER_CLUSTER_CIDR="+want) {
			t.Errorf("%s: its variables are %q, want %s", values, c.environment(), want)
		}
		run := exec.Command(program, append(c.Args, "--kubeconfig=/missing")...)
		run.Env = c.environment()
		if out, err := run.CombinedOutput(); run.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "/missing") {
			t.Errorf("%s: run with %q and %q: %v %s", values, c.Args, run.Env, err, out)
		}
		s := c.SecurityContext
		if s.AllowPrivilegeEscalation || s.Privileged || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s: the container may do too much: %+v", values, s)
		}
		if p := pod.SecurityContext; !p.RunAsNonRoot || p.RunAsUser == 0 || p.RunAsGroup == 0 || p.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("%s: the pod may do too much: %+v", values, p)
		}
		if pod.HostPID || pod.HostIPC || !pod.HostNetwork || len(pod.Volumes) != 1 || pod.Volumes[0].Projected == nil {
			t.Errorf("%s: the pod has more than the host's network: %+v", values, pod.Volumes)
		}
	}
}

// right is a verb on a kind of resource, in a namespace or on a name, if it is not for all.
type right struct{ verb, resource, namespace, name string }

// rightsOf returns what the roles of a manifest grant.
func rightsOf(t *testing.T, all []object) map[right]bool {
	t.Helper()
	rights := make(map[right]bool)
	for _, o := range all {
		if o.Kind == "ClusterRole" || o.Kind == "Role" {
			for _, rule := range find[struct{ Rules []kubetest.Rule }](t, []object{o}, o.Kind).Rules {
				addRights(rights, rule, o.Metadata.Namespace)
			}
		}
	}
	return rights
}

func addRights(rights map[right]bool, rule kubetest.Rule, namespace string) {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, name := range names {
					rights[right{verb, strings.TrimPrefix(group+"/"+resource, "/"), namespace, name}] = true
				}
			}
		}
	}
}

// TestControllerRolesAreItsRules compares the chart's roles with the rules of all other
// tests, which know no namespaces.
func TestControllerRolesAreItsRules(t *testing.T) {
	want, got := make(map[right]bool), make(map[right]bool)
	for _, rule := range kubetest.ControllerRules {
		addRights(want, rule, "")
	}
	all, _ := controllerManifest(t)
	for r := range rightsOf(t, all) {
		r.namespace = ""
		got[r] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("the roles grant\n%v\nwant\n%v", got, want)
	}
}

// rightFor returns the right that a request needs.
func rightFor(r *http.Request) (need right) {
	path := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	group := path[1] + "/"
	if path = path[3:]; r.URL.Path[1:4] == "api" && r.URL.Path[4] == '/' {
		group, path = "", strings.Split(strings.Trim(r.URL.Path, "/"), "/")[2:]
	}
	if path[0] == "namespaces" {
		need.namespace, path = path[1], path[2:]
	}
	need.resource = group + path[0]
	if len(path) > 1 {
		need.name = path[1]
	} else {
		need.name = strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	}
	if len(path) > 2 {
		need.resource += "/" + path[2]
	}
	need.verb = map[string]string{http.MethodPatch: "patch", http.MethodPut: "update", http.MethodPost: "create", http.MethodDelete: "delete", http.MethodGet: "get"}[r.Method]
	switch {
	case r.URL.Query().Get("watch") != "":
		need.verb = "watch"
	case need.verb == "get" && len(path) == 1:
		need.verb = "list"
	}
	return need
}

// TestControllerUsesEveryRightAndNoOther runs two replicas with the manifest's
// arguments, variables and rights, and compares the rights with their requests.
func TestControllerUsesEveryRightAndNoOther(t *testing.T) {
	program := controllerProgram(t)
	l, manifest, token := controlled(t)
	_, c := controllerManifest(t)
	granted := rightsOf(t, manifest)
	var mu sync.Mutex
	used := make(map[right]bool)
	tokenFile := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	replica := func(streams bool) *kerneltest.Process {
		proxy := l.Proxy()
		proxy.Answer(func(r *http.Request) http.HandlerFunc {
			need := rightFor(r)
			mu.Lock()
			defer mu.Unlock()
			if all := (right{need.verb, need.resource, need.namespace, ""}); granted[all] {
				need = all
			} else if all.namespace = ""; granted[all] {
				need = all
			}
			used[need] = true
			if apitest.AsksForStream(r) && !streams {
				return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no streams", http.StatusBadRequest) }
			}
			return nil
		})
		p := kerneltest.Launch(t, "", c.environment(), append(append([]string{program}, c.Args...), "--healthz-port=0", "--kubeconfig="+l.KubeconfigAt(proxy.URL, tokenFile))...)
		t.Cleanup(func() {
			p.End(syscall.SIGKILL)
			if said := p.Said(); t.Failed() || strings.Contains(said, "orbidden") || strings.Contains(said, "403") {
				t.Errorf("a replica says\n%s", said)
			}
		})
		return p
	}
	given := func(node string) {
		t.Helper()
		kerneltest.Eventually(t, patience, func() error {
			var n struct{ Spec struct{ PodCIDR string } }
			if l.Do(http.MethodGet, "/api/v1/nodes/"+node, nil, &n); n.Spec.PodCIDR == "" {
				return fmt.Errorf("%s has no podCIDR", node)
			}
			return nil
		})
	}
	first := replica(true)
	l.node("a")
	l.node("b", "192.0.2.0/24") // which is an event
	given("a")
	replica(false)
	kerneltest.Eventually(t, patience, func() error {
		mu.Lock()
		defer mu.Unlock()
		if !used[right{"list", "nodes", "", ""}] {
			return fmt.Errorf("the second replica has not listed Nodes")
		}
		return nil
	})
	first.End(syscall.SIGKILL)
	l.node("c") // which is fenced off first
	given("c")
	mu.Lock()
	defer mu.Unlock()
	if !maps.Equal(used, granted) {
		t.Errorf("the replicas used\n%v\nand may\n%v", used, granted)
	}
}

// controlled returns a control plane with the plain manifest of tulle-controller, and
// the token of its service account, once its policy is in force.
func controlled(t *testing.T) (l lab, manifest []object, token string) {
	t.Helper()
	l = newLab(t, kubetest.Options{})
	manifest, _ = controllerManifest(t)
	l.apply(manifest)
	var made struct{ Status struct{ Token string } }
	l.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/tulle-controller/token", map[string]any{"spec": map[string]any{"expirationSeconds": 3600}}, &made)
	token = made.Status.Token
	l.node("probe")
	kerneltest.Eventually(t, patience, func() error {
		code, said := l.call(token, http.MethodPatch, "/api/v1/nodes/probe?dryRun=All", merging, map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
		if code != http.StatusUnprocessableEntity {
			return fmt.Errorf("%d %s", code, said)
		}
		return nil
	})
	return l, manifest, token
}

// TestControllerPolicyLimitsItToPodCIDRs writes with the token of tulle-controller what
// it may write, and tries what it may not.
func TestControllerPolicyLimitsItToPodCIDRs(t *testing.T) {
	l, _, token := controlled(t)
	l.node("a")
	l.Do(http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/tulle-controller", map[string]any{"rules": []any{
		map[string]any{"apiGroups": []string{""}, "resources": []string{"nodes", "nodes/status"}, "verbs": []string{"*"}},
	}}, nil)
	meta := func(name string, value any) map[string]any {
		return map[string]any{"metadata": map[string]any{name: value}}
	}
	spec := func(name string, value any) map[string]any {
		return map[string]any{"spec": map[string]any{name: value}}
	}
	const only = "may change only "
	for _, c := range []struct {
		what, method, path, content string
		body                        map[string]any
		refused                     string // a part of the reason; "" if it is allowed
	}{
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
		{"a condition", http.MethodPatch, "/a/status", strategic, condition("Ready", "False"), only + "podCIDRs"},
		{"deletion", http.MethodDelete, "/a", asJSON, nil, "neither create nor delete Nodes"},
		{"a new one", http.MethodPost, "", asJSON, meta("name", "d"), "neither create nor delete Nodes"},
	} {
		kerneltest.Eventually(t, patience, func() error {
			code, said := l.call(token, c.method, "/api/v1/nodes"+c.path, c.content, c.body)
			switch {
			case c.refused == "" && code != http.StatusOK:
				t.Fatalf("%s: %d %s", c.what, code, said)
			case c.refused != "" && code < 400:
				t.Fatalf("%s: %d %s; want it refused with %q", c.what, code, said, c.refused)
			case !strings.Contains(said, c.refused): // RBAC may not know the right yet
				return fmt.Errorf("%s: %d %s; want it refused with %q", c.what, code, said, c.refused)
			}
			return nil
		})
	}
	if code, said := l.call(adminToken, http.MethodPatch, "/api/v1/nodes/a", merging, meta("labels", map[string]any{"zone": "c"})); code != http.StatusOK {
		t.Errorf("an admin's label: %d %s", code, said)
	}
}
