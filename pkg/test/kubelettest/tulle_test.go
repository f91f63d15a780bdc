//go:build kubelet

package kubelettest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// The DaemonSet's name, and the selector of its pods.
const (
	tulleNamespace = "tulle-system"
	tulleName      = "tulled"
	tulleSelector  = "-n tulle-system -l app.kubernetes.io/name=tulle"
	tulleContainer = "tulled"
)

// tulleManifest is the path of the manifest that users apply.
const tulleManifest = "../../../dist/kubernetes/tulle.yaml"

var imageLine = regexp.MustCompile(`(?m)^\s+image: "?([^\s"]+)"?$`)

// loadTulle loads the image of this tree into all nodes, under the name in the
// manifest. It returns the manifest.
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
	k.tulle = tulleImage(k.t, string(name[1]))
	k.load(k.tulle)
	return string(text)
}

// awaitTulle waits until the DaemonSet is rolled out.
func (k *kubernetes) awaitTulle() {
	k.t.Helper()
	kerneltest.Run(k.t, k.kubectlCommand("rollout", "status", "-n", tulleNamespace, "daemonset/"+tulleName, "--timeout", patience.String()))
}

// tulled returns the DaemonSet's pod on a node.
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

// inTulled returns a command that runs in the daemon's container on a node.
func (k *kubernetes) inTulled(n *node, args ...string) *exec.Cmd {
	k.t.Helper()
	id := fmt.Sprintf("test-%d", rand.Uint64())
	return n.command(append([]string{"ctr", "-n", "k8s.io", "tasks", "exec", "--exec-id", id, containerID(k.tulled(n), tulleContainer)}, args...)...)
}

func (k *kubernetes) status(t testing.TB, n *node) string {
	t.Helper()
	return kerneltest.Run(t, k.inTulled(n, "/tulled", "status"))
}

// readyz returns an error unless a node's daemon is ready.
func (k *kubernetes) readyz(n *node) error {
	return kerneltest.Try(n.command(k.podProgram, "get", "http://127.0.0.1:8479/readyz"))
}

var complaint = regexp.MustCompile(`(?m)^\S+ std(?:out|err) F [WEF]\d{4} .*$`)

// wantNoComplaint fails the test if a running daemon has logged a warning or an error.
func (k *kubernetes) wantNoComplaint(t testing.TB) {
	t.Helper()
	for _, n := range k.nodes {
		logs, err := filepath.Glob(n.path("/var/log/pods/" + tulleNamespace + "_*/" + tulleContainer + "/*.log"))
		if err != nil || len(logs) == 0 {
			t.Errorf("%s has no logs: %v", n.Name, err)
		}
		for _, log := range logs {
			text, err := os.ReadFile(log)
			if err != nil {
				t.Error(err)
			}
			for _, line := range complaint.FindAll(text, -1) {
				t.Errorf("tulled of %s: %s", n.Name, line)
			}
		}
	}
}
