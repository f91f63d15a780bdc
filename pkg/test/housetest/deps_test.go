package housetest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDaemonLinksNoEtcdServer keeps the etcd server in a program of its own. In the
// daemon it would add a fifth to the memory of every node, and to the program's size.
func TestDaemonLinksNoEtcdServer(t *testing.T) {
	for _, path := range linked(t) {
		for _, server := range []string{"go.etcd.io/etcd/server/", "go.etcd.io/bbolt", "go.etcd.io/raft/"} {
			if strings.HasPrefix(path, server) {
				t.Errorf("tulled links %s", path)
			}
		}
	}
}

// TestDaemonLinksNoCloud keeps out the SDKs of clouds, which only the cluster-wide
// program speaks to.
func TestDaemonLinksNoCloud(t *testing.T) {
	for _, path := range linked(t) {
		for _, sdk := range []string{"github.com/aws/", "golang.org/x/oauth2/google", "cloud.google.com/", module + "/pkg/cloud"} {
			if strings.HasPrefix(path, sdk) {
				t.Errorf("tulled links %s", path)
			}
		}
	}
}

// TestDaemonLinksNoTemplates keeps out templates, which call methods by name. The
// linker then keeps every exported method, which is a fifth of the daemon's size.
func TestDaemonLinksNoTemplates(t *testing.T) {
	if slices.Contains(linked(t), "text/template") {
		t.Error("tulled links text/template; go list -tags grpcnotrace -deps . shows what imports it")
	}
}

// linked returns the packages in the daemon as it is released.
func linked(t *testing.T) []string {
	t.Helper()
	list := exec.Command("go", "list", "-tags", "grpcnotrace", "-deps", ".")
	list.Dir = "../../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}
