//go:build kubelet

package kubelettest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"testing"
)

// The DaemonSet's name, and what finds its pods.
const (
	tulleNamespace = "tulle-system"
	tulleName      = "tulled"
	tulleSelector  = "-n tulle-system -l app.kubernetes.io/name=tulle"
	tulleContainer = "tulled"
)

// tulleManifest is where the manifest is that users apply.
const tulleManifest = "../../dist/kubernetes/tulle.yaml"

var imageLine = regexp.MustCompile(`(?m)^\s+image: (\S+)$`)

// loadTulle has all nodes know the image of the tree, by the name that the manifest
// has for it, and returns the manifest.
func (k *kubernetes) loadTulle() (manifest string) {
	k.t.Helper()
	text, err := os.ReadFile(tulleManifest)
	if err != nil {
		k.t.Fatal(err)
	}
	name := imageLine.FindSubmatch(text)
	if name == nil {
		k.t.Fatalf("%s names no image", tulleManifest)
	}
	archive := tulleImage(k.t, string(name[1]))
	for _, n := range k.nodes {
		n.load(archive)
	}
	return string(text)
}

// awaitTulle waits until the DaemonSet is rolled out.
func (k *kubernetes) awaitTulle() {
	k.t.Helper()
	run(k.t, k.kubectlCommand("rollout", "status", "-n", tulleNamespace, "daemonset/"+tulleName, "--timeout", patience.String()))
}

// tulled is the pod of the DaemonSet on a node.
func (k *kubernetes) tulled(n *node) (p podObject) {
	k.t.Helper()
	k.eventually(func() error {
		for _, p = range k.pods(tulleSelector) {
			if p.Spec.NodeName == n.Name && p.Metadata.DeletionTimestamp == "" && containerID(p, tulleContainer) != "" {
				return nil
			}
		}
		return fmt.Errorf("%s has no tulled", n.Name)
	})
	return p
}

// inTulled is a command to be run in the daemon's container on a node.
func (k *kubernetes) inTulled(n *node, args ...string) *exec.Cmd {
	k.t.Helper()
	id := fmt.Sprintf("test-%d", rand.Uint64())
	return n.command(append([]string{"ctr", "-n", "k8s.io", "tasks", "exec", "--exec-id", id, containerID(k.tulled(n), tulleContainer)}, args...)...)
}

func (k *kubernetes) status(t testing.TB, n *node) string {
	t.Helper()
	return run(t, k.inTulled(n, "/tulled", "status"))
}
