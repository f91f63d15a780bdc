//go:build kube

package kubernetes

import (
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/kubetest"
)

// networkRules are the rights of the controller of AWSClusters' networks.
var networkRules = []kubetest.Rule{
	{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters"}, Verbs: []string{"list", "watch"}},
	{APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, Resources: []string{"awsclusters"}, Verbs: []string{"list", "watch", "patch"}},
	{APIGroups: []string{"infrastructure.cluster.x-k8s.io"}, Resources: []string{"awsclusters/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"get"}, ResourceNames: []string{"awsclusters.infrastructure.cluster.x-k8s.io"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"create"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "update", "list", "watch"}, ResourceNames: []string{"tulle-controller"}},
}

// clusterRules are the further rights of the controller that does the core's part.
var clusterRules = []kubetest.Rule{
	{APIGroups: []string{"cluster.x-k8s.io"}, Resources: []string{"clusters", "clusters/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "create", "update"}},
}

// TestControllersOfClustersHaveNoRightToNodes: with these controllers alone, the chart grants
// what they need, without any right to Nodes, and needs no cloud.
func TestControllersOfClustersHaveNoRightToNodes(t *testing.T) {
	checkRights(t, "[awscluster]", networkRules)
	checkRights(t, "[awscluster, cluster]", slices.Concat(networkRules, clusterRules))
}

func checkRights(t *testing.T, controllers string, rules []kubetest.Rule) {
	t.Helper()
	want, got := make(map[right]bool), make(map[right]bool)
	for _, rule := range rules {
		addRights(want, rule, "")
	}
	all := onCloud(t, "  controllers: "+controllers+"\n")
	for r := range rightsOf(t, all) {
		r.namespace = ""
		got[r] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("the roles grant\n%v\nwant\n%v", got, want)
	}
	pod := find[deployment](t, all, "Deployment").Spec.Template.Spec
	c := pod.Containers[0]
	var paths []string
	for _, v := range pod.Volumes {
		if v.HostPath != nil {
			paths = append(paths, v.HostPath.Path)
		}
	}
	if !slices.Equal(paths, []string{"/etc/ssl/certs"}) {
		t.Errorf("of the host the pod has %q; it needs the certificates that verify AWS", paths)
	}
	run := exec.Command(controllerProgram(t), append(c.Args, "--kubeconfig=/missing")...)
	run.Env = c.environment()
	if out, err := run.CombinedOutput(); run.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "/missing") {
		t.Errorf("run with %q and %q: %v %s", c.Args, run.Env, err, out)
	}
	for _, o := range all {
		if o.Kind == "ValidatingAdmissionPolicy" {
			t.Errorf("%s limits changes of Nodes", o.Metadata.Name)
		}
	}
}
