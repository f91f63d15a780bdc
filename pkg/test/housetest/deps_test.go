package housetest

import (
	"os/exec"
	"strings"
	"testing"
)

// TestDaemonLinksNoEtcdServer holds what the daemon does not link, by whatever way:
// the etcd server is a program of its own, and costs every node a fifth of its
// memory and its size.
func TestDaemonLinksNoEtcdServer(t *testing.T) {
	list := exec.Command("go", "list", "-deps", ".")
	list.Dir = "../../.."
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.Lines(string(out)) {
		for _, server := range []string{"go.etcd.io/etcd/server/", "go.etcd.io/bbolt", "go.etcd.io/raft/"} {
			if strings.HasPrefix(path, server) {
				t.Errorf("tulled links %s", strings.TrimSpace(path))
			}
		}
	}
}
