//go:build kubelet

package kubelettest

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// TestController runs a cluster whose kube-controller-manager runs no node IPAM. Two
// replicas of tulle-controller run as users install them.
func TestController(t *testing.T) {
	k := newKubernetes(t, 2)
	var from, to *pod
	manifest := k.loadTulle()
	controller := readControllerManifest(t)
	k.step(t, "installation", func(t *testing.T) {
		k.awaitNodes("Ready", "False")
		for _, n := range k.nodes {
			if cidrs, err := k.podCIDRs(n.Name); err != nil || len(cidrs) > 0 {
				t.Fatalf("%s has podCIDRs %q, %v", n.Name, cidrs, err)
			}
			k.awaitTaint(n)
		}
		begin := time.Now()
		k.apply(manifest)
		k.apply(controller)
		for _, n := range k.nodes {
			cidrs := k.awaitPodCIDRs(n.Name)
			t.Logf("%v after the manifests: %s has %q", time.Since(begin), n.Name, cidrs)
		}
		k.awaitNodes("Ready", "True")
		t.Logf("%v after the manifests: the Nodes are Ready", time.Since(begin))
		from, to = k.addPod("one", k.nodes[0]), k.addPod("two", k.nodes[1])
		k.Reach(from.Pod, to.Pod)
		t.Logf("%v after the manifests: pods reach each other", time.Since(begin))
		k.Reach(to.Pod, from.Pod)
		k.awaitTulle()
		k.awaitController()
		k.awaitNodes("NetworkUnavailable", "False")
		nodes := make(map[string]bool)
		for _, p := range k.controllers() {
			nodes[p.Spec.NodeName] = true
		}
		if len(nodes) != 2 {
			t.Errorf("replicas run on %v", nodes)
		}
	})
	k.step(t, "confinement", func(t *testing.T) { confined(t, k) })
	k.step(t, "commands of the page", func(t *testing.T) {
		k.documentedIn(installPage, "kubectl -n tulle-system rollout status deployment/tulle-controller")
		said := k.documentedIn(installPage, "kubectl -n tulle-system exec deployment/tulle-controller -- /tulle-controller ipam")
		if !strings.Contains(said, "\n2 Nodes, 0 without podCIDRs") {
			t.Errorf("ipam says:\n%s", said)
		}
	})
	k.step(t, "another node", func(t *testing.T) {
		three := k.join(k.AddHosts(1)[0])
		k.awaitNodes("Ready", "True")
		k.awaitTulle()
		p := k.addPod("three", three)
		k.Reach(from.Pod, p.Pod)
		k.Reach(p.Pod, to.Pod)
	})
	if complaints := k.controllerComplaints(); len(complaints) > 0 {
		t.Errorf("tulle-controller says:\n%s", strings.Join(complaints, "\n"))
	}
	k.step(t, "pod of the leader deleted", func(t *testing.T) {
		pings := k.bothWays(from, to)
		_, was := k.leader()
		holder := k.leadership()
		coming := k.arrive("deleted")
		deleted := make(chan error, 1)
		go func() {
			deleted <- kerneltest.Try(k.kubectlCommand("delete", "pod", "-n", tulleNamespace, was.Metadata.Name))
		}()
		t.Logf("another replica holds the Lease after %v", k.awaitLease(holder))
		if err := <-deleted; err != nil {
			t.Error(err)
		}
		k.awaitReplicas(2)
		if longest := coming.stop(t); longest > 5*time.Second {
			t.Errorf("a Node waited %v for podCIDRs", longest)
		}
		wantNoneLost(t, pings)
	})
	// The Lease lasts 15 s. Replicas poll it every 2 s.
	const mostWithout = 25 * time.Second
	k.step(t, "leader killed", func(t *testing.T) {
		n, was := k.leader()
		id := containerID(was, controllerName)
		holder := k.leadership()
		coming := k.arrive("killed")
		kerneltest.Run(t, n.command("kill", "-9", n.process(id)))
		t.Logf("another replica holds the Lease after %v", k.awaitLease(holder))
		k.awaitReplica(n, id)
		if longest := coming.stop(t); longest > mostWithout {
			t.Errorf("a Node waited %v for podCIDRs", longest)
		}
	})
	k.step(t, "leader hangs", func(t *testing.T) {
		n, was := k.leader()
		id := containerID(was, controllerName)
		holder := k.leadership()
		coming := k.arrive("hung")
		begin := time.Now()
		kerneltest.Run(t, n.command("kill", "-STOP", n.process(id)))
		t.Logf("another replica holds the Lease after %v", k.awaitLease(holder))
		k.eventually(func() error {
			for _, p := range k.controllers() {
				if c := p.Status.ContainerStatuses; p.Metadata.UID == was.Metadata.UID && len(c) == 1 && !c[0].Ready {
					return nil
				}
			}
			return fmt.Errorf("%s is still ready", was.Metadata.Name)
		})
		t.Logf("not ready after %v", time.Since(begin))
		if longest := coming.stop(t); longest > mostWithout {
			t.Errorf("a Node waited %v for podCIDRs", longest)
		}
		k.awaitReplica(n, id)
		t.Logf("the liveness probe restarted it, and it is ready after %v", time.Since(begin))
	})
	k.step(t, "upgrade", func(t *testing.T) { k.upgradeController(t, controller, from, to) })
	k.step(t, "reboot of the leader's node", func(t *testing.T) {
		n, was := k.leader()
		n.reboot()
		k.awaitReplica(n, containerID(was, controllerName))
		k.awaitNodes("Ready", "True")
		k.awaitController()
		k.awaitTulle()
	})
	k.wantDistinct()
}

// awaitTaint waits until a Node that is not ready has the taint that keeps pods off it.
func (k *kubernetes) awaitTaint(n *node) {
	k.t.Helper()
	k.eventually(func() error {
		var object nodeObject
		if err := k.tryGet("node "+n.Name, &object); err != nil {
			return err
		}
		for _, taint := range object.Spec.Taints {
			if taint.Key == "node.kubernetes.io/not-ready" {
				return nil
			}
		}
		return fmt.Errorf("%s has the taints %v", n.Name, object.Spec.Taints)
	})
}

// confined checks the limits that the kernel sets for a replica's process.
func confined(t *testing.T, k *kubernetes) {
	n, p := k.leader()
	id := containerID(p, controllerName)
	proc := "/proc/" + n.process(id)
	status := kerneltest.Run(t, n.command("cat", proc+"/status"))
	for _, line := range []string{
		"Uid:\t65534\t65534\t65534\t65534", "Gid:\t65534\t65534\t65534\t65534", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000",
		"CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(status, "\n"+line+"\n") {
			t.Errorf("its status has no line %q:\n%s", line, status)
		}
	}
	mounts := kerneltest.Run(t, n.command("cat", proc+"/mounts"))
	if root := regexp.MustCompile(`(?m)^\S+ / \S+ (\S+)`).FindStringSubmatch(mounts); root == nil || !slices.Contains(strings.Split(root[1], ","), "ro") {
		t.Errorf("its root file system is writable: %q", root)
	}
}

var versionLabel = regexp.MustCompile(`v0\.1\.0`)

// upgradeController rolls out another version while Nodes are created, and rolls it
// back.
func (k *kubernetes) upgradeController(t *testing.T, manifest string, from, to *pod) {
	const next = "v0.2.0"
	name := imageLine.FindStringSubmatch(manifest)[1]
	k.load(tulleImage(t, versionLabel.ReplaceAllString(name, next)))
	upgraded := versionLabel.ReplaceAllString(manifest, next)
	if upgraded == manifest {
		t.Fatalf("%s names no version", controllerManifest)
	}
	pings := k.bothWays(from, to)
	for _, step := range []struct{ version, manifest string }{{next, upgraded}, {"v0.1.0", manifest}} {
		coming := k.arrive("to-" + strings.ReplaceAll(step.version, ".", "-"))
		begin := time.Now()
		k.apply(step.manifest)
		k.awaitController()
		t.Logf("%s is rolled out after %v", step.version, time.Since(begin))
		if longest := coming.stop(t); longest > 5*time.Second {
			t.Errorf("a Node waited %v for podCIDRs", longest)
		}
		for _, p := range k.controllers() {
			if text, err := k.metrics(k.node(p.Spec.NodeName)); err != nil || !strings.Contains(text, `version="`+step.version+`"`) {
				t.Errorf("%s does not run %s: %v", p.Metadata.Name, step.version, err)
			}
		}
	}
	k.Reach(from.Pod, to.Pod)
	wantNoneLost(t, pings)
}

// installPage is the page that operators read to install tulle-controller.
const installPage = "../../../Documentation/controller-install.md"

// documentedIn runs the only command of a page that begins with the given words.
func (k *kubernetes) documentedIn(page, beginning string, open ...string) string {
	k.t.Helper()
	return kerneltest.Run(k.t, k.commandOf(page, beginning, open...))
}
