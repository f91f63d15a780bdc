package housetest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestDaemonLinksNoEtcdServer: the etcd server is a program of its own. In the daemon
// it would cost every node a fifth of its memory and its size.
func TestDaemonLinksNoEtcdServer(t *testing.T) {
	for _, path := range linked(t) {
		for _, server := range []string{"go.etcd.io/etcd/server/", "go.etcd.io/bbolt", "go.etcd.io/raft/"} {
			if strings.HasPrefix(path, server) {
				t.Errorf("tulled links %s", path)
			}
		}
	}
}

// TestDaemonLinksNoTemplates: templates call methods by name. A program with them
// keeps every exported method of what it links, which is a fifth of the daemon's size.
func TestDaemonLinksNoTemplates(t *testing.T) {
	if slices.Contains(linked(t), "text/template") {
		t.Error("tulled links text/template; go list -tags grpcnotrace -deps . tells what imports it")
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
