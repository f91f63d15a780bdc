//go:build kubelet

package kubelettest

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// image is a container image that a test makes.
type image struct {
	name       string
	entrypoint []string
	// files are the contents: the path on the machine for each path in the image. A
	// path that begins with "->" is the target of a symbolic link.
	files map[string]string
}

// addProgram adds a program of this machine to the image, and the libraries that the
// program needs.
func (im *image) addProgram(t testing.TB, at, program string) {
	t.Helper()
	im.files[at] = program
	out, err := exec.Command("ldd", program).CombinedOutput()
	if err != nil {
		return // a statically linked program
	}
	for line := range strings.Lines(string(out)) {
		for _, word := range strings.Fields(line) {
			if strings.HasPrefix(word, "/") {
				im.files[strings.TrimPrefix(word, "/")] = word
				break
			}
		}
	}
}

// archive returns the image as an archive that containerd imports.
func (im *image) archive(t testing.TB) []byte {
	t.Helper()
	var layer bytes.Buffer
	files := tar.NewWriter(&layer)
	var paths []string
	for at := range im.files {
		paths = append(paths, at)
	}
	slices.Sort(paths)
	for _, at := range paths {
		if link, is := strings.CutPrefix(im.files[at], "->"); is {
			add(t, files, tar.Header{Typeflag: tar.TypeSymlink, Name: at, Linkname: link}, nil)
			continue
		}
		content, err := os.ReadFile(im.files[at])
		if err != nil {
			t.Fatal(err)
		}
		add(t, files, tar.Header{Name: at, Mode: 0o755}, content)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}

	var all bytes.Buffer
	to := tar.NewWriter(&all)
	blob := func(kind string, content []byte) map[string]any {
		sum := sha256.Sum256(content)
		digest := hex.EncodeToString(sum[:])
		add(t, to, tar.Header{Name: "blobs/sha256/" + digest, Mode: 0o644}, content)
		return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest, "size": len(content)}
	}
	described := blob("layer.v1.tar", layer.Bytes())
	config := blob("config.v1+json", asJSON(t, map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": im.entrypoint, "Env": []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []any{described["digest"]}},
	}))
	manifest := blob("manifest.v1+json", asJSON(t, map[string]any{"schemaVersion": 2, "config": config, "layers": []any{described}}))
	manifest["annotations"] = map[string]string{"io.containerd.image.name": im.name}
	add(t, to, tar.Header{Name: "index.json", Mode: 0o644}, asJSON(t, map[string]any{"schemaVersion": 2, "manifests": []any{manifest}}))
	add(t, to, tar.Header{Name: "oci-layout", Mode: 0o644}, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return all.Bytes()
}

func add(t testing.TB, to *tar.Writer, h tar.Header, content []byte) {
	t.Helper()
	h.Size = int64(len(content))
	err := to.WriteHeader(&h)
	if err == nil {
		_, err = to.Write(content)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func asJSON(t testing.TB, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The images of pods.
const (
	pauseImage = "tulle.test/pause:1"
	podImage   = "tulle.test/pod:1"
)

// podPort is the port at which a pod serves its name.
const podPort = "8080"

// podImages returns the images of sandboxes and of the tests' pods.
func podImages(t testing.TB, program string) [][]byte {
	t.Helper()
	pause := image{name: pauseImage, entrypoint: []string{"/pod", "wait"}, files: map[string]string{"pod": program}}
	pod := image{name: podImage, entrypoint: []string{"/pod", "serve", ":" + podPort}, files: map[string]string{"pod": program}}
	return [][]byte{pause.archive(t), pod.archive(t)}
}

// podProgram builds the program that runs in pods.
func podProgram(t testing.TB) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "pod")
	cmd := exec.Command("go", "build", "-trimpath", "-o", to, "./pod")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	kerneltest.Run(t, cmd)
	return to
}

// tulleImage returns the image that make image builds of this tree, for this processor,
// under a name.
func tulleImage(t testing.TB, name string) []byte {
	t.Helper()
	dir := t.TempDir()
	_, version, _ := strings.Cut(filepath.Base(name), ":")
	environment := append(os.Environ(), "VERSION="+version, "ARCHES="+runtime.GOARCH, "SOURCE_DATE_EPOCH=1234567890")
	for _, command := range [][]string{
		{"dist/release/build.sh", filepath.Join(dir, "release")},
		{"go", "run", "./dist/image", "-release", filepath.Join(dir, "release"), "-to", filepath.Join(dir, "image"), "-version", version},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = "../../..", environment
		kerneltest.Run(t, cmd)
	}
	// The image's index has only its version, but containerd needs the full name.
	index := filepath.Join(dir, "image", "index.json")
	text, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	named := bytes.Replace(text, fmt.Appendf(nil, `"org.opencontainers.image.ref.name":%q`, version), fmt.Appendf(nil, `"io.containerd.image.name":%q`, name), 1)
	if bytes.Equal(named, text) {
		t.Fatalf("%s does not name %s: %s", index, version, text)
	}
	if err := os.WriteFile(index, named, 0o644); err != nil {
		t.Fatal(err)
	}
	archive, err := exec.Command("tar", "-C", filepath.Join(dir, "image"), "-c", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
