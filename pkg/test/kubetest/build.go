package kubetest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// modules is the folder of the modules whose programs are built, below the root of this
// module. A change of the nodes' module does not rebuild the servers.
const modules = "pkg/test/kubetest"

// Version is the version of Kubernetes.
const Version = "v1.34.10"

const (
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
)

// NodePrograms returns a folder with kubelet, kube-proxy, kubectl and kube-scheduler.
func NodePrograms(t testing.TB) string {
	t.Helper()
	return programs(t, "node", "kubelet", "kube-proxy", "kubectl", scheduler)
}

// Kubeadm returns the path of kubeadm.
func Kubeadm(t testing.TB) string {
	t.Helper()
	return filepath.Join(programs(t, "kubeadm", "kubeadm"), "kubeadm")
}

// ServerPrograms returns a folder with kube-apiserver and kube-controller-manager.
func ServerPrograms(t testing.TB) string {
	t.Helper()
	return programs(t, "server", apiServer, controllerManager)
}

// programs builds the programs of a module, unless they are in the cache, and returns
// their folder.
func programs(t testing.TB, module string, names ...string) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatalf("go env GOMOD: %v", err)
	}
	from := filepath.Join(filepath.Dir(strings.TrimSpace(string(root))), modules, module)
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = h.Write(text)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "tulle-kube", hex.EncodeToString(h.Sum(nil)[:8]))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// Other tests may need them at the same time.
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			continue
		}
		t.Logf("building %s, which takes some minutes", name)
		build := exec.Command("nice", "go", "build", "-C", from, "-trimpath", "-buildvcs=false", "-ldflags",
			"-s -w -X k8s.io/component-base/version.gitVersion="+Version, "-o", filepath.Join(dir, name+".new"), "k8s.io/kubernetes/cmd/"+name)
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", name, err, said)
		}
		if err := os.Rename(filepath.Join(dir, name+".new"), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
