package command

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/answer"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// TestRotateKey requests a rotation once, whether a daemon answers or not.
func TestRotateKey(t *testing.T) {
	logtest.Capture(t, 0)
	o := options.Options{StateDir: filepath.Join(t.TempDir(), "state"), StatusSocket: filepath.Join(t.TempDir(), "none")}
	run := func() (string, error) {
		var out bytes.Buffer
		err := rotateKey(t.Context(), o, &out)
		return out.String(), err
	}
	if _, err := run(); err == nil || !strings.Contains(err.Error(), "has no WireGuard key") {
		t.Errorf("without a key: %v", err)
	}
	if _, err := os.Stat(o.StateDir); err == nil {
		t.Error("it made a folder")
	}
	keys := wgkey.NewStore(o.StateDir, "", "node")
	state, err := keys.State("")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := run(); err != nil || !strings.HasPrefix(text, "requested; ") || !strings.Contains(text, "tulled does not answer") {
		t.Errorf("got %q, %v", text, err)
	}
	o.StatusSocket = (&fakeDaemon{}).serve(t)
	if text, err := run(); err != nil || !strings.HasPrefix(text, "already requested; ") || strings.Contains(text, "does not answer") {
		t.Errorf("got %q, %v", text, err)
	}
	if changed, err := keys.Rotate("", wgkey.Facts{Known: true, Published: true}); !changed || err != nil {
		t.Fatal(changed, err)
	}
	if text, err := run(); err != nil || !strings.HasPrefix(text, "already under way, in the step move") {
		t.Errorf("got %q, %v", text, err)
	}
	o.Output = answer.JSON
	text, err := run()
	if err != nil || text != "{\n  \"schema\": \"tulle.rotation/v1\",\n  \"requested\": false,\n  \"step\": \"move\",\n  \"running\": true\n}\n" {
		t.Errorf("got %q, %v", text, err)
	}
	content, err := os.ReadFile(wgkey.Path(o.StateDir))
	if err != nil || !bytes.Contains(content, []byte("private_key")) || strings.Contains(text, state.Device.String()) {
		t.Errorf("the file is %q, %v", content, err)
	}
}

// TestRotateKeyOnAReadOnlyFolder names the path and the fix, and writes nothing.
func TestRotateKeyOnAReadOnlyFolder(t *testing.T) {
	logtest.Capture(t, 0)
	o := options.Options{StateDir: t.TempDir(), StatusSocket: filepath.Join(t.TempDir(), "none")}
	if _, err := wgkey.NewStore(o.StateDir, "", "node").State(""); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount(o.StateDir, o.StateDir, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(o.StateDir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := syscall.Mount("", o.StateDir, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	err := rotateKey(t.Context(), o, &bytes.Buffer{})
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), wgkey.RequestPath(o.StateDir)) || !strings.Contains(err.Error(), "mount the file system writable") {
		t.Errorf("got %v", err)
	}
	if all, err := filepath.Glob(o.StateDir + "/*"); err != nil || len(all) != 1 {
		t.Errorf("the folder has %q, %v", all, err)
	}
}
