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
)

// The flags of kube-controller-manager with node IPAM, and without.
const (
	on  = "--controllers=*,bootstrapsigner,tokencleaner"
	off = on + ",-node-ipam-controller"
)

// TestTakeOverFromKubeadm moves node IPAM from the kube-controller-manager of a cluster
// that kubeadm made to tulle-controller, and back. It runs the page's commands in their
// order.
func TestTakeOverFromKubeadm(t *testing.T) {
	k := newKubeadm(t, 2)
	programs := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(programs, controllerName), "../../cmd/tulle-controller")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	kerneltest.Run(t, build)
	one, two := k.nodes[0], k.nodes[1]
	manifest, controller := k.loadTulle(), readControllerManifest(t)
	var from, to, late *pod
	k.step(t, "network", func(t *testing.T) {
		k.apply(manifest)
		k.awaitNodes("Ready", "True")
		k.awaitTulle()
		from, to = k.addPod("one", one), k.addPod("two", two)
		k.Reach(from.Pod, to.Pod)
	})
	k.step(t, "flags", func(t *testing.T) {
		const command = "grep -E 'cidr|service-cluster-ip-range|controllers' "
		if got, want := k.documentedOn(one, programs, command), strings.TrimSpace(outputIn(t, installPage, command)); got != want {
			t.Errorf("kubeadm's flags are\n%s\nand on the page\n%s", got, want)
		}
	})
	plan := func(t *testing.T) {
		if said := k.documentedOn(one, programs, "tulle-controller plan --kubeconfig=/etc/kubernetes/admin.conf "); said != "nothing to write" {
			t.Errorf("plan prints %s", said)
		}
	}
	k.step(t, "plan", plan)
	k.step(t, "observer", func(t *testing.T) {
		k.apply(strings.Replace(controller, "--mode=write", "--mode=observe", 1))
		k.awaitController()
		k.awaitPlanned(0)
	})
	k.step(t, "off", func(t *testing.T) {
		begin := time.Now()
		k.documentedOn(one, programs, "sed -i '/ --controllers=/s/$/")
		k.awaitManager(off)
		t.Logf("node IPAM is off %v after the edit", time.Since(begin))
		three := k.joinNode(k.AddHosts(1)[0])
		three.load(k.tulle)
		k.awaitPlanned(1)
		if cidrs, err := k.podCIDRs(three.Name); err != nil || len(cidrs) > 0 {
			t.Errorf("%s has podCIDRs %q, %v", three.Name, cidrs, err)
		}
	})
	k.step(t, "write", func(t *testing.T) {
		pings := k.bothWays(from, to)
		three := k.nodes[2]
		begin := time.Now()
		k.apply(controller)
		k.awaitPodCIDRs(three.Name)
		t.Logf("%v after the manifest, the waiting Node has podCIDRs", time.Since(begin))
		k.awaitController()
		k.leader()
		k.awaitNodes("Ready", "True")
		late = k.addPod("three", three)
		k.Reach(late.Pod, from.Pod)
		k.Reach(to.Pod, late.Pod)
		plan(t)
		if said := k.documentedIn(installPage, "kubectl -n tulle-system exec deployment/tulle-controller -- /tulle-controller ipam"); !strings.HasSuffix(said, "\n3 Nodes, 0 without podCIDRs") {
			t.Errorf("ipam says:\n%s", said)
		}
		wantNoneLost(t, pings)
	})
	k.step(t, "kubeadm upgrade", func(t *testing.T) {
		k.editKubeadmConfig("controllerManager: {}", strings.TrimSpace(outputIn(t, installPage, "    controllerManager:")))
		t.Log(kerneltest.Run(t, k.onNode(one, programs, "kubeadm upgrade node phase control-plane")))
		k.awaitManager(off)
	})
	k.step(t, "the way back", func(t *testing.T) {
		pings := k.bothWays(from, late)
		k.documentedIn(installPage, "kubectl -n tulle-system scale deployment tulle-controller ")
		k.awaitReplicas(0)
		k.documentedOn(one, programs, "sed -i 's/,-node-ipam-controller//' ")
		k.awaitManager(on)
		four := k.joinNode(k.AddHosts(1)[0])
		four.load(k.tulle)
		k.awaitPodCIDRs(four.Name)
		k.wantDistinct()
		k.awaitNodes("Ready", "True")
		k.Reach(k.addPod("four", four).Pod, late.Pod)
		plan(t)
		wantNoneLost(t, pings)
	})
}

// awaitPlanned waits until every replica observes, and plans a number of writes.
func (k *kubeadmCluster) awaitPlanned(writes int) {
	k.t.Helper()
	for _, p := range k.controllers() {
		k.eventually(func() error {
			text, err := k.metrics(k.node(p.Spec.NodeName))
			if err == nil && !(strings.Contains(text, "\ntulle_controller_observing 1\n") && strings.Contains(text, fmt.Sprintf("\ntulle_controller_writes_planned{controller=\"node-ipam-controller\"} %d\n", writes))) {
				err = fmt.Errorf("%s does not plan %d writes", p.Spec.NodeName, writes)
			}
			return err
		})
	}
}

// awaitManager waits until kube-controller-manager runs with a flag, as the page's
// command shows it, and is ready.
func (k *kubeadmCluster) awaitManager(flag string) {
	k.t.Helper()
	k.eventually(func() error {
		said := k.documentedIn(installPage, "kubectl -n kube-system get pods -l component=kube-controller-manager ")
		if !strings.Contains(said, `"`+flag+`"`) {
			return fmt.Errorf("kube-controller-manager runs with %s", said)
		}
		for _, p := range k.pods("-n kube-system -l component=kube-controller-manager") {
			if c := p.Status.ContainerStatuses; len(c) != 1 || !c[0].Ready {
				return fmt.Errorf("kube-controller-manager is not ready: %+v", p.Status)
			}
		}
		return nil
	})
}

// editKubeadmConfig replaces a line in kubeadm's ConfigMap with kubectl edit, as people
// do.
func (k *kubeadmCluster) editKubeadmConfig(old, now string) {
	k.t.Helper()
	dir := k.t.TempDir()
	rule := "s/^    " + old + "$/    " + strings.ReplaceAll(strings.ReplaceAll(now, "\n", `\n`), "*", `\*`) + "/"
	editor := writeFile(k.t, dir, "editor", "#!/bin/sh\nexec sed -i -f "+writeFile(k.t, dir, "rule", rule)+" \"$1\"\n")
	cmd := k.commandOf(installPage, "kubectl -n kube-system edit configmap kubeadm-config")
	cmd.Env = append(cmd.Env, "KUBE_EDITOR="+editor)
	kerneltest.Run(k.t, cmd)
}
