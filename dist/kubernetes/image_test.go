//go:build kube

package kubernetes

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// image builds the release's image for this machine, and returns its files as a tar.
func image(t *testing.T) []byte {
	t.Helper()
	const version, epoch = "v1.2.3", "1234567890"
	release, layout := t.TempDir(), filepath.Join(t.TempDir(), "image")
	for _, command := range [][]string{
		{"../release/build.sh", release},
		{"go", "run", "../image", "-release", release, "-to", layout, "-version", version},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH="+epoch, "ARCHES="+runtime.GOARCH)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%q: %v: %s", command, err, out)
		}
	}
	blob := func(digest string, into any) []byte {
		text, err := os.ReadFile(filepath.Join(layout, "blobs/sha256", strings.TrimPrefix(digest, "sha256:")))
		if err == nil && into != nil {
			err = json.Unmarshal(text, into)
		}
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	type names struct{ Manifests, Layers []struct{ Digest string } }
	var top, index, manifest names
	text, err := os.ReadFile(filepath.Join(layout, "index.json"))
	if err == nil {
		err = json.Unmarshal(text, &top)
	}
	if err != nil {
		t.Fatal(err)
	}
	blob(top.Manifests[0].Digest, &index)
	blob(index.Manifests[0].Digest, &manifest)
	z, err := gzip.NewReader(bytes.NewReader(blob(manifest.Layers[0].Digest, nil)))
	if err != nil {
		t.Fatal(err)
	}
	var files bytes.Buffer
	if _, err := files.ReadFrom(z); err != nil {
		t.Fatal(err)
	}
	return files.Bytes()
}
