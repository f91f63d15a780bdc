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
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// deployment is the part of it that the tests read.
type deployment struct {
	Spec struct {
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     podSpec
		}
	}
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

// variable returns the value of a container's variable, or "".
func (c container) variable(name string) string {
	for _, v := range c.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
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
  allocatorType: MultiCIDRRangeAllocator
  clusterCIDR: 10.245.0.0/16
  nodeMaskIPv4: 26
  nodeMaskIPv6: 80
  serviceRange: 10.97.0.0/16
  extraArgs: [-v=1, --controllers=nodeipam]
  extraEnv: [{name: GOGC, value: "50"}]
  extraVolumes: [{name: key, secret: {secretName: key}}]
  extraVolumeMounts: [{name: key, mountPath: /key, readOnly: true}]
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
		"controller: {enabled: true, allocatorType: MultiCIDRRangeAllocator}":   "",
	} {
		rendered, err := chart("tulle", namespace, values)
		if err != nil {
			t.Fatal(err)
		}
		pod := find[deployment](t, objects(t, rendered), "Deployment").Spec.Template.Spec
		c := pod.Containers[0]
		if is := c.variable("TULLE_CONTROLLER_CLUSTER_CIDR"); is != want {
			t.Errorf("%s: its range is %q, want %q", values, is, want)
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
		volumes := 1
		if strings.Contains(values, "extraVolumes") {
			volumes++
		}
		if pod.HostPID || pod.HostIPC || !pod.HostNetwork || len(pod.Volumes) != volumes || pod.Volumes[0].Projected == nil {
			t.Errorf("%s: the pod has more than the host's network: %+v", values, pod.Volumes)
		}
	}
}

// TestControllerPodOfCloud checks that the pod has the authorities that a cloud's API
// needs, from the host and read-only, and what people add.
func TestControllerPodOfCloud(t *testing.T) {
	for _, kind := range []string{"CloudAllocator", "IPAMFromCloud", "IPAMFromCluster"} {
		rendered, err := chart("tulle", namespace, `
controller:
  enabled: true
  allocatorType: `+kind+`
  extraEnv: [{name: GOOGLE_APPLICATION_CREDENTIALS, value: /google/key.json}]
  extraVolumes: [{name: google, secret: {secretName: google, defaultMode: 0400}}]
  extraVolumeMounts: [{name: google, mountPath: /google, readOnly: true}]
`)
		if err != nil {
			t.Fatal(err)
		}
		pod := find[deployment](t, objects(t, rendered), "Deployment").Spec.Template.Spec
		c := pod.Containers[0]
		if file := c.variable("GOOGLE_APPLICATION_CREDENTIALS"); file != "/google/key.json" {
			t.Errorf("%s: the credentials are %q", kind, file)
		}
		var mounts []string
		for _, m := range c.VolumeMounts {
			if !m.ReadOnly {
				t.Errorf("%s: %s can be written", kind, m.MountPath)
			}
			mounts = append(mounts, m.Name+" "+m.MountPath)
		}
		if want := []string{"token /var/run/secrets/kubernetes.io/serviceaccount", "certificates /etc/ssl/certs", "google /google"}; !slices.Equal(mounts, want) {
			t.Errorf("%s: %q are mounted, want %q", kind, mounts, want)
		}
		var paths []string
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				paths = append(paths, v.Name+" "+v.HostPath.Path)
			}
		}
		if want := []string{"certificates /etc/ssl/certs"}; !slices.Equal(paths, want) {
			t.Errorf("%s: of the host the pod has %q, want %q", kind, paths, want)
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

// TestControllerRolesAreItsRules compares the chart's roles for all types of allocators
// with the rules of all other tests, which know no namespaces. Only these types have more
// rights than the others.
func TestControllerRolesAreItsRules(t *testing.T) {
	want, got := make(map[right]bool), make(map[right]bool)
	for _, rule := range kubetest.ControllerRules {
		addRights(want, rule, "")
	}
	plain, _ := controllerManifest(t)
	least := rightsOf(t, plain)
	for kind, more := range map[string]int{"RangeAllocator": 0, "MultiCIDRRangeAllocator": 3, "CloudAllocator": 1, "IPAMFromCloud": 1, "IPAMFromCluster": 1} {
		rendered, err := chart("tulle", namespace, "controller: {enabled: true, allocatorType: "+kind+"}")
		if err != nil {
			t.Fatal(err)
		}
		rights := make(map[right]bool)
		for _, o := range objects(t, rendered) {
			if o.Metadata.Name == "tulle-controller" {
				maps.Copy(rights, rightsOf(t, []object{o}))
			}
		}
		if len(rights) != len(least)+more {
			t.Errorf("%s has the rights\n%v\nwant %d more than\n%v", kind, rights, more, least)
		}
		for r := range rights {
			r.namespace = ""
			got[r] = true
		}
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
	manifest, _ := controllerManifest(t)
	w := newWitness(t, manifest)
	first := w.replica(true)
	w.l.node("a")
	w.l.node("b", "192.0.2.0/24") // which is an event
	w.awaitPodCIDR("a")
	w.replica(false)
	w.await(right{"list", "nodes", "", ""})
	first.End(syscall.SIGKILL)
	w.l.node("c") // which is fenced off first
	w.awaitPodCIDR("c")
	if used := w.used(); !maps.Equal(used, w.granted) {
		t.Errorf("the replicas used\n%v\nand may\n%v", used, w.granted)
	}
}

// controlled returns a control plane with a manifest of tulle-controller, and the token
// of its service account, once its policy is in force.
func controlled(t *testing.T, manifest []object) (l lab, token string) {
	t.Helper()
	l = newLab(t, kubetest.Options{})
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
	return l, token
}
