//go:build kube

package kubernetes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

const (
	namespace = "tulle-system" // of the plain manifest
	patience  = time.Minute
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	os.Exit(m.Run())
}

// tool runs one of the tools that the module in tools names.
func tool(args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"tool"}, args...)...)
	cmd.Dir = "tools"
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, &said)
	}
	return out.String(), nil
}

// chart renders the chart with values, as YAML.
func chart(release, namespace, values string) (string, error) {
	f, err := os.CreateTemp("", "values-*.yaml")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	if _, err = f.WriteString(values); err == nil {
		err = f.Close()
	}
	if err != nil {
		return "", err
	}
	return tool("helm", "template", release, "../chart/tulle", "--namespace", namespace, "--values", f.Name())
}

// object is an object of a manifest.
type object struct {
	APIVersion, Kind string
	Metadata         struct{ Name, Namespace string }
	text             []byte // as JSON
}

var separator = regexp.MustCompile(`(?m)^---$`)

// objects returns the objects of a manifest.
func objects(t *testing.T, manifest string) (all []object) {
	t.Helper()
	for _, text := range separator.Split(manifest, -1) {
		doc, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		o := object{text: doc}
		if err := json.Unmarshal(doc, &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind != "" {
			all = append(all, o)
		}
	}
	return all
}

// find returns an object of a kind, decoded.
func find[T any](t *testing.T, all []object, kind string) (v T) {
	t.Helper()
	for _, o := range all {
		if o.Kind == kind {
			if err := json.Unmarshal(o.text, &v); err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("there is no %s", kind)
	return v
}

// resources are the kinds of objects, with their names in a path.
var resources = map[string]string{
	"Namespace": "namespaces", "ServiceAccount": "serviceaccounts", "ConfigMap": "configmaps", "DaemonSet": "daemonsets",
	"ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings", "Role": "roles", "RoleBinding": "rolebindings",
	"ValidatingAdmissionPolicy": "validatingadmissionpolicies", "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
	"Deployment": "deployments", "PodDisruptionBudget": "poddisruptionbudgets",
	"PodMonitor": "podmonitors", "PrometheusRule": "prometheusrules",
}

func (o object) path(t *testing.T) string {
	t.Helper()
	resource := resources[o.Kind]
	if resource == "" {
		t.Fatalf("where a %s is in the API is not known", o.Kind)
	}
	path := "/apis/" + o.APIVersion
	if o.APIVersion == "v1" {
		path = "/api/v1"
	}
	if o.Metadata.Namespace != "" {
		path += "/namespaces/" + o.Metadata.Namespace
	}
	return path + "/" + resource + "/" + o.Metadata.Name
}

// lab is a control plane.
type lab struct {
	*kubetest.Cluster
	t *testing.T
}

func newLab(t *testing.T, o kubetest.Options) lab {
	t.Helper()
	c := kubetest.Start(t, o)
	t.Cleanup(c.Client().CloseIdleConnections)
	return lab{c, t}
}

const (
	applying   = "application/apply-patch+yaml"
	merging    = "application/merge-patch+json"
	strategic  = "application/strategic-merge-patch+json"
	asJSON     = "application/json"
	adminToken = "" // the client has it
)

// call sends a request with a token, or the admin's, and returns the answer.
func (l lab) call(token, method, path, content string, body any) (int, string) {
	l.t.Helper()
	text, ok := body.([]byte)
	if !ok {
		var err error
		if text, err = json.Marshal(body); err != nil {
			l.t.Fatal(err)
		}
	}
	r, err := http.NewRequest(method, l.URL+path, bytes.NewReader(text))
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("Content-Type", content)
	if token != adminToken {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	a, err := l.Client().Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer a.Body.Close()
	said, err := io.ReadAll(a.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return a.StatusCode, string(said)
}

// apply applies a manifest's objects as kubectl apply --server-side does, first as a
// dry run. The server rejects unknown fields.
func (l lab) apply(all []object) {
	l.t.Helper()
	for _, query := range []string{"&dryRun=All", ""} {
		for _, o := range all {
			if o.Kind == "Namespace" {
				query := "" // all others need it, also as if
				l.applyOne(o, query)
				continue
			}
			l.applyOne(o, query)
		}
	}
}

func (l lab) applyOne(o object, query string) {
	l.t.Helper()
	path := o.path(l.t)
	// The server creates the namespace default a moment after it is ready.
	kerneltest.Eventually(l.t, patience, func() error {
		code, said := l.call(adminToken, http.MethodPatch, path+"?fieldManager=test&fieldValidation=Strict"+query, applying, o.text)
		if code != http.StatusOK && code != http.StatusCreated {
			err := fmt.Errorf("%s %q: %d %s", path, query, code, said)
			if code != http.StatusNotFound {
				l.t.Fatal(err)
			}
			return err
		}
		return nil
	})
}

// plain returns the plain manifest.
func plain(t *testing.T) []object {
	t.Helper()
	text, err := os.ReadFile("tulle.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, string(text))
}

// node creates a Node, as a kubelet and people leave one.
func (l lab) node(name string, cidrs ...string) {
	l.t.Helper()
	spec := map[string]any{}
	if len(cidrs) > 0 {
		spec = map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs}
	}
	l.Do(http.MethodPost, "/api/v1/nodes", map[string]any{
		"metadata": map[string]any{
			"name": name, "labels": map[string]any{"kubernetes.io/hostname": name, "zone": "a"},
			"annotations": map[string]any{"example.org/owner": "someone"}, "finalizers": []string{"example.org/keep"},
		},
		"spec": spec,
		"status": map[string]any{
			"capacity": map[string]any{"cpu": "2", "memory": "4Gi"}, "addresses": []any{map[string]any{"type": "InternalIP", "address": "198.18.0.1"}},
			"conditions": []any{
				map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": "2030-01-01T00:00:00Z", "lastTransitionTime": "2030-01-01T00:00:00Z"},
				map[string]any{"type": "NetworkUnavailable", "status": "True", "reason": "NoRouteCreated", "lastHeartbeatTime": "2030-01-01T00:00:00Z", "lastTransitionTime": "2030-01-01T00:00:00Z"},
			},
			"nodeInfo": map[string]any{
				"machineID": "x", "systemUUID": "x", "bootID": "x", "kernelVersion": "6.1", "osImage": "x", "containerRuntimeVersion": "containerd://2", "kubeletVersion": "v1.34.0",
				"kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
			},
			"images": []any{map[string]any{"names": []string{"registry.example/x:1"}, "sizeBytes": 12}},
		},
	}, nil)
	l.t.Cleanup(func() {
		l.call(adminToken, http.MethodPatch, "/api/v1/nodes/"+name, merging, map[string]any{"metadata": map[string]any{"finalizers": nil}})
		l.call(adminToken, http.MethodDelete, "/api/v1/nodes/"+name, asJSON, nil)
	})
}

// pod creates a pod of the DaemonSet on a node, as its controller would, and returns
// a token as that node's kubelet mounts it.
func (l lab) pod(all []object, node string) (token string) {
	l.t.Helper()
	set := find[struct {
		Spec struct {
			Template struct {
				Metadata, Spec map[string]any
			}
		}
	}](l.t, all, "DaemonSet").Spec.Template
	set.Metadata["name"], set.Spec["nodeName"] = "tulled-"+node, node
	// The API server knows it a moment after its creation.
	kerneltest.Eventually(l.t, patience, func() error {
		code, said := l.call(adminToken, http.MethodPost, "/api/v1/namespaces/"+namespace+"/pods?fieldValidation=Strict", asJSON, map[string]any{"metadata": set.Metadata, "spec": set.Spec})
		if code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, said)
		}
		return nil
	})
	var made struct {
		Metadata struct{ UID string }
		Status   struct{ Token string }
	}
	l.Do(http.MethodGet, "/api/v1/namespaces/"+namespace+"/pods/tulled-"+node, nil, &made)
	l.Do(http.MethodPost, "/api/v1/namespaces/"+namespace+"/serviceaccounts/tulled/token", map[string]any{"spec": map[string]any{
		"expirationSeconds": 3600, "boundObjectRef": map[string]any{"kind": "Pod", "apiVersion": "v1", "name": "tulled-" + node, "uid": made.Metadata.UID},
	}}, &made)
	return made.Status.Token
}
