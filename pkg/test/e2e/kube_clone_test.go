//go:build kube

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestKubeClones adds hosts of one image to a cluster, with the machine-id and the
// state folder of the first. The daemons tell them apart by their Nodes' names.
func TestKubeClones(t *testing.T) {
	t.Parallel()
	k := newKubeWorld(t, 3, dualNetwork, false)
	first := k.Hosts[0]
	for _, h := range k.Hosts {
		h.SetMachineID(imageID)
		k.register(h)
	}
	k.start(first).WaitLog("Kernel in sync with all peers")
	k.daemons[first].Stop() // the daemon saves its snapshot
	for _, h := range k.Hosts[1:] {
		if err := os.CopyFS(h.StateDir, os.DirFS(first.StateDir)); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range k.Hosts {
		k.start(h)
	}
	for _, h := range k.Hosts {
		h.AddPod()
	}
	k.Matrix()
	for _, h := range k.Hosts {
		k.silent(h, "CLONE")
		if log := k.daemons[h].Log(); strings.Contains(log, sharedID) {
			t.Errorf("%s says\n%s", h.Name, log)
		}
		if note := k.node(h.Name).Metadata.Annotations[notes+"tulle"]; strings.Contains(note, "Instance") || !strings.Contains(note, `"NodeID":"`+h.Name+`"`) {
			t.Errorf("%s publishes %s", h.Name, note)
		}
		if _, err := os.Lstat(filepath.Join(h.StateDir, "identity")); err == nil {
			t.Errorf("%s keeps an identity", h.Name)
		}
	}
}
