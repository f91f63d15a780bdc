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

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/controller/route"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const (
	uninitialized = "node.cloudprovider.kubernetes.io/uninitialized"
	shutdown      = "node.cloudprovider.kubernetes.io/shutdown"
	outlived      = "tulle.net/outlived-instance"
	ledger        = "tulle-controller-routes"
)

// onAWS renders the chart for a cluster on AWS, with more values of the controller.
func onAWS(t *testing.T, more string) []object {
	t.Helper()
	return onCloud(t, "  cloudProvider: aws\n  clusterName: prod\n"+more)
}

// onCloud renders the chart with values of the controller.
func onCloud(t *testing.T, values string) []object {
	t.Helper()
	rendered, err := chart("tulle", namespace, "namespace: {create: true}\ncontroller:\n  enabled: true\n"+values)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(objects(t, rendered), func(o object) bool {
		return o.Kind != "Namespace" && !strings.HasPrefix(o.Metadata.Name, "tulle-controller") && o.Metadata.Name != "tulle-podcidrs"
	})
}

// TestControllerPodOfAWS checks that tulle-controller understands its variables for each
// choice of controllers, and what its pod has of the host and of the cloud.
func TestControllerPodOfAWS(t *testing.T) {
	program := controllerProgram(t)
	for _, controllers := range []string{"['*']", "['*', -nodeipam]", "[cloud-node]", "[cloud-node-lifecycle]", "[route]", "[service]", "['*', service]", "[nodeipam, route]", "['*', -node-route-controller]"} {
		all := onAWS(t, `
  controllers: `+controllers+`
  cloudConfig: |
    [Global]
    VPC = vpc-0a1b2c3d
  serviceAccountAnnotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::123456789012:role/x"}
`)
		pod := find[deployment](t, all, "Deployment").Spec.Template.Spec
		c := pod.Containers[0]
		var mounts []string
		for _, m := range c.VolumeMounts {
			if mounts = append(mounts, m.Name+" "+m.MountPath); !m.ReadOnly {
				t.Errorf("%s: %s can be written", controllers, m.MountPath)
			}
		}
		if want := []string{"token /var/run/secrets/kubernetes.io/serviceaccount", "config /etc/tulle", "certificates /etc/ssl/certs"}; !slices.Equal(mounts, want) {
			t.Errorf("%s: %q are mounted, want %q", controllers, mounts, want)
		}
		account := find[struct {
			Metadata struct{ Annotations map[string]string }
		}](t, all, "ServiceAccount")
		if account.Metadata.Annotations["eks.amazonaws.com/role-arn"] != "arn:aws:iam::123456789012:role/x" {
			t.Errorf("%s: the account has the annotations %q", controllers, account.Metadata.Annotations)
		}
		// The file is that of the ConfigMap.
		file := filepath.Join(t.TempDir(), "cloud.conf")
		config := find[struct{ Data map[string]string }](t, all, "ConfigMap").Data
		if err := os.WriteFile(file, []byte(config[filepath.Base(c.variable("TULLE_CONTROLLER_CLOUD_CONFIG"))]), 0o600); err != nil {
			t.Fatal(err)
		}
		run := exec.Command(program, append(c.Args, "--kubeconfig=/missing", "--cloud-config="+file)...)
		run.Env = c.environment()
		out, err := run.CombinedOutput()
		if run.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "/missing") || strings.Contains(string(out), "gnoring") || len(config) != 1 || !strings.Contains(config["cloud.conf"], "VPC = vpc-0a1b2c3d") {
			t.Errorf("%s: run with %q, %q and %q: %v %s", controllers, c.Args, run.Env, config, err, out)
		}
	}
}

// TestRightsFollowControllers compares the rights of each choice of controllers with
// those that its code uses.
func TestRightsFollowControllers(t *testing.T) {
	always := []right{
		{"list", "nodes", "", ""}, {"watch", "nodes", "", ""}, {"create", "events", "default", ""},
		{"create", "coordination.k8s.io/leases", "kube-system", ""},
	}
	for _, verb := range []string{"get", "list", "watch", "update"} {
		always = append(always, right{verb, "coordination.k8s.io/leases", "kube-system", "tulle-controller"})
	}
	patch, status := right{"patch", "nodes", "", ""}, right{"patch", "nodes/status", "", ""}
	ipam := []right{patch, {"list", "networking.k8s.io/servicecidrs", "", ""}, {"watch", "networking.k8s.io/servicecidrs", "", ""}}
	initial := []right{patch, status}
	lifecycle := []right{patch, {"delete", "nodes", "", ""}, {"get", "coordination.k8s.io/leases", "kube-node-lease", ""}}
	routes := []right{status, {"create", "configmaps", "kube-system", ""}}
	for _, name := range route.PartNames(ledger) {
		routes = append(routes, right{"get", "configmaps", "kube-system", name}, right{"patch", "configmaps", "kube-system", name})
	}
	services := []right{
		{"list", "services", "", ""}, {"watch", "services", "", ""}, {"patch", "services", "", ""}, {"patch", "services/status", "", ""}, {"create", "events", "", ""},
	}
	for controllers, more := range map[string][][]right{
		"[service]":               {services},
		"['*', service]":          {ipam, initial, lifecycle, routes, services},
		"['*']":                   {ipam, initial, lifecycle, routes},
		"['*', -nodeipam]":        {initial, lifecycle, routes},
		"['*', -route]":           {ipam, initial, lifecycle},
		"[nodeipam]":              {ipam},
		"[cloud-node-controller]": {initial},
		"[cloud-node-lifecycle]":  {lifecycle},
		"[node-route-controller]": {routes},
	} {
		for cloud, values := range map[string]string{
			"aws":   "  clusterName: prod\n",
			"azure": "  cloudConfigSecret: azure\n",
			"gce":   "  clusterName: prod\n",
		} {
			if cloud != "aws" && strings.Contains(controllers, "service") {
				continue
			}
			want := make(map[right]bool)
			for _, r := range slices.Concat(append(more, always)...) {
				want[r] = true
			}
			if got := rightsOf(t, onCloud(t, "  cloudProvider: "+cloud+"\n"+values+"  controllers: "+controllers)); !maps.Equal(got, want) {
				t.Errorf("%s, %s: the roles grant\n%v\nwant\n%v", cloud, controllers, got, want)
			}
		}
	}
}

// register creates a Node as its kubelet does.
func (l lab) register(name string, change func(*corev1.Node)) {
	l.t.Helper()
	n := &corev1.Node{}
	n.Name = name
	n.Spec.Taints = []corev1.Taint{{Key: uninitialized, Value: "true", Effect: corev1.TaintEffectNoSchedule}, {Key: "example.org/dedicated", Effect: corev1.TaintEffectNoExecute}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	change(n)
	l.Do(http.MethodPost, "/api/v1/nodes", n, nil)
}

// TestCloudControllersUseEveryRightAndNoOther runs two replicas with the chart's rights
// for each cloud, until Nodes are initialised and routed, and compares the rights with
// their requests. A deletion needs five minutes of answers: the test of the policy deletes.
func TestCloudControllersUseEveryRightAndNoOther(t *testing.T) {
	for name, build := range map[string]func(*testing.T) site{"aws": awsSite, "azure": azureSite, "gce": googleSite} {
		t.Run(name, func(t *testing.T) { testCloudRights(t, build(t)) })
	}
}

func testCloudRights(t *testing.T, s site) {
	w := newWitness(t, s.manifest, s.env...)
	awaitNode := func(i int) {
		t.Helper()
		at := s.machines[i]
		kerneltest.Eventually(t, patience, func() error {
			var n corev1.Node
			w.l.Do(http.MethodGet, "/api/v1/nodes/"+at.node, nil, &n)
			routed := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse && c.Reason == "RouteCreated"
			})
			led := n.Spec.PodCIDR != "" && s.leads(i, n.Spec.PodCIDR)
			var noted struct{ Data map[string]string }
			if routed {
				w.l.Do(http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/"+ledger, nil, &noted)
			}
			switch key := strings.Replace(n.Spec.PodCIDR, "/", "_", 1); {
			case n.Spec.ProviderID != at.providerID, n.Labels["topology.kubernetes.io/zone"] != at.zone, slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == uninitialized }), len(n.Status.Addresses) < 2, !routed, !led:
				return fmt.Errorf("%s: %+v %+v %+v, a route: %t", at.node, n.Labels, n.Spec, n.Status, led)
			case !strings.Contains(noted.Data[key], at.noted+" "+at.node):
				return fmt.Errorf("the ledger has %q", noted.Data)
			}
			return nil
		})
	}
	first := w.replica(true)
	asItIs := func(*corev1.Node) {}
	w.l.register(s.machines[0].node, asItIs)
	awaitNode(0)
	w.l.register(s.machines[1].node, func(n *corev1.Node) { n.Spec.PodCIDR, n.Spec.PodCIDRs = "192.0.2.0/24", []string{"192.0.2.0/24"} }) // which is an event
	w.replica(false)
	w.await(right{"list", "nodes", "", ""})
	// The Lease of one whose instance is gone is read.
	s.remove(2)
	w.l.register(s.machines[2].node, func(n *corev1.Node) {
		n.Spec.ProviderID = s.machines[2].providerID
		n.Spec.Taints = nil
		n.Status.Conditions[0].Status = corev1.ConditionUnknown
	})
	lease := right{"get", "coordination.k8s.io/leases", "kube-node-lease", ""}
	w.await(lease)
	first.End(syscall.SIGKILL)
	w.l.register(s.machines[3].node, asItIs)
	awaitNode(3)
	used := w.used()
	used[right{"delete", "nodes", "", ""}] = true
	for _, name := range route.PartNames(ledger)[1:] { // thousands of Nodes use them
		used[right{"get", "configmaps", "kube-system", name}], used[right{"patch", "configmaps", "kube-system", name}] = true, true
	}
	if !maps.Equal(used, w.granted) {
		t.Errorf("the replicas used\n%v\nand may\n%v", used, w.granted)
	}
	// RBAC refuses what no controller needs.
	for _, r := range []struct{ method, path string }{
		{http.MethodGet, "/api/v1/nodes/" + s.machines[0].node},
		{http.MethodGet, "/api/v1/namespaces/kube-system/configmaps"},
		{http.MethodGet, "/api/v1/namespaces/kube-system/configmaps/kube-root-ca.crt"},
		{http.MethodDelete, "/api/v1/namespaces/kube-system/configmaps/" + ledger},
		{http.MethodGet, "/api/v1/namespaces/" + namespace + "/configmaps/" + ledger},
		{http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"},
		{http.MethodDelete, "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/x"},
		{http.MethodGet, "/api/v1/namespaces/kube-system/secrets"},
		{http.MethodDelete, "/api/v1/nodes"},
	} {
		if code, said := w.l.call(w.token, r.method, r.path, asJSON, nil); code != http.StatusForbidden {
			t.Errorf("%s %s: %d %s", r.method, r.path, code, said)
		}
	}
}
