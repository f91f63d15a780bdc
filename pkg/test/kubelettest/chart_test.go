//go:build kubelet

package kubelettest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// TestControllerByChart installs both programs by the chart, in a dual-stack cluster in
// which no other program assigns podCIDRs.
func TestControllerByChart(t *testing.T) {
	k := newKubernetes(t, 2)
	k.loadTulle()
	helm := helmProgram(t)
	one, two := k.nodes[0], k.nodes[1]
	var from, to *pod
	k.step(t, "without the controller", func(t *testing.T) {
		k.documented("kubectl create namespace tulle-system")
		k.documented("kubectl label namespace tulle-system ")
		k.helm(helm, "install tulle dist/kubernetes/chart/tulle --namespace tulle-system --set network.ipv6=fd00:10:244::/56")
		k.eventually(func() error {
			out, err := k.inTulled(one, "/tulled", "status").CombinedOutput()
			if !strings.Contains(string(out), "has no IPv4 podCIDR; run tulle-controller (controller.enabled in the chart)") {
				return fmt.Errorf("tulled does not name the fix: %w: %s", err, out)
			}
			return nil
		})
	})
	k.step(t, "the switch", func(t *testing.T) {
		begin := time.Now()
		k.helm(helm, strings.TrimPrefix(commandIn(t, installPage, "helm upgrade tulle dist/kubernetes/chart/tulle --namespace tulle-system --reset-then-reuse-values --set controller.enabled=true"), "helm "))
		for _, n := range k.nodes {
			if cidrs := k.awaitPodCIDRs(n.Name); len(cidrs) != 2 || !strings.HasPrefix(cidrs[0], "10.244.") || !strings.HasPrefix(cidrs[1], "fd00:10:244:") {
				t.Errorf("%s has %q", n.Name, cidrs)
			}
		}
		t.Logf("the Nodes have podCIDRs %v after the switch began", time.Since(begin))
		k.awaitController()
		k.awaitNodes("Ready", "True")
		k.awaitTulle()
		from, to = k.addPod("one", one), k.addPod("two", two)
		for f, a := range to.Addr {
			if !a.IsValid() {
				t.Fatalf("a pod has no %s address", subnet.Family(f))
			}
		}
		k.Reach(from.Pod, to.Pod)
		k.Reach(to.Pod, from.Pod)
	})
	k.step(t, "removal", func(t *testing.T) {
		pings := k.bothWays(from, to)
		k.helm(helm, strings.TrimPrefix(commandIn(t, installPage, "helm upgrade tulle dist/kubernetes/chart/tulle --namespace tulle-system --reset-then-reuse-values --set controller.enabled=false"), "helm "))
		k.awaitReplicas(0)
		k.eventually(func() error {
			const kinds = "deployments,replicasets,pdb,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings"
			if left := k.kubectl("get " + kinds + " -A -o name -l app.kubernetes.io/name=tulle-controller"); left != "" {
				return fmt.Errorf("the chart has left behind\n%s", left)
			}
			return nil
		})
		k.wantDistinct()
		k.Reach(from.Pod, to.Pod)
		wantNoneLost(t, pings)
	})
}

// helmProgram builds helm, of the version that the chart is tested with.
func helmProgram(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "helm")
	cmd := exec.Command("go", "build", "-o", path, "helm.sh/helm/v3/cmd/helm")
	cmd.Dir = "../../../dist/kubernetes/tools"
	kerneltest.Run(t, cmd)
	return path
}

// helm runs a helm command in the folder in which the commands of the pages run.
func (k *kubernetes) helm(program, command string) {
	k.t.Helper()
	cmd := k.EtcdHost().NS.Command(append([]string{program}, strings.Fields(command)...)...)
	cmd.Dir = "../../.."
	cmd.Env = append(os.Environ(), "KUBECONFIG="+k.kubeconfig, "HOME="+k.t.TempDir())
	kerneltest.Run(k.t, cmd)
}
