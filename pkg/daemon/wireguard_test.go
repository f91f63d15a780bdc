package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// TestWireGuardKeyIsMadeWhenItIsNeeded checks that each instance of a node has one
// lasting key, and that the kernel gets its private part.
func TestWireGuardKeyIsMadeWhenItIsNeeded(t *testing.T) {
	t.Setenv(flannelKeyVariable, filepath.Join(t.TempDir(), "none"))
	dir := filepath.Join(t.TempDir(), "state")
	k := newWireGuardKeys(dir, "node-1")
	if _, err := os.Stat(dir); err == nil {
		t.Error("the state folder exists although no backend needs it")
	}
	keyOf := func(k *wgkey.Store, instance string) (netstate.PublicKey, error) {
		s, err := k.State(instance)
		return s.Device, err
	}
	first, err := keyOf(k, "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := keyOf(k, "node-1"); again != first || err != nil {
		t.Errorf("the node's ID is not its instance: %s, %v", again, err)
	}
	if _, ok := k.PrivateKey(first); !ok {
		t.Error("the kernel would not get the key")
	}
	if restarted, err := keyOf(newWireGuardKeys(dir, "node-1"), ""); restarted != first || err != nil {
		t.Errorf("after a restart it is %s, %v", restarted, err)
	}
	if copied, err := keyOf(newWireGuardKeys(dir, "node-2"), ""); copied == first || err != nil {
		t.Errorf("a copy with another ID has %s, %v", copied, err)
	}
	if _, err := keyOf(newWireGuardKeys("", "node-1"), ""); err == nil || !strings.Contains(err.Error(), "--state-dir") {
		t.Errorf("without a folder: %v", err)
	}
	if err := os.WriteFile(wgkey.Path(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := keyOf(newWireGuardKeys(dir, "node-1"), ""); err == nil || got != (netstate.PublicKey{}) {
		t.Errorf("an invalid file was replaced: %s", got)
	}
}

// TestWireGuardTakesFlannelsKey reads the file that flannel's variable names.
func TestWireGuardTakesFlannelsKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "wgkey")
	text := "QAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAEA="
	if err := os.WriteFile(path, []byte(text+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	t.Setenv(flannelKeyVariable, path)
	want, err := wgkey.ParsePrivate(text)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := newWireGuardKeys(t.TempDir(), "node-1").State("a"); got.Device != want.Public() || err != nil {
		t.Errorf("got %s, %v", got.Device, err)
	}
}
