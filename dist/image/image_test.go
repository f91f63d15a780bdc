package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const epoch = "1234567890"

// release creates archives like the release's, with text in place of binaries.
func release(t *testing.T, version string, arches ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, arch := range arches {
		top := "tulle-" + version + "-linux-" + arch + "/"
		put(t, filepath.Join(folder, strings.TrimSuffix(top, "/")+".tar.gz"),
			top+"LICENSE", "licence", top+"cni/README.md", "of plugins", top+"cni/bridge", "bridge for "+arch, top+"cni/host-local", "host-local",
			top+"cni/loopback", "loopback", top+"cni/portmap", "portmap", top+"systemd/tulled", "a unit",
			top+"tulled", "binary for "+arch, top+"tulle-etcd", "etcd for "+arch, top+"tulle-wireguard", "wireguard for "+arch, top+"tulle-controller", "controller for "+arch)
	}
	return folder
}

func put(t *testing.T, path string, namesAndTexts ...string) {
	t.Helper()
	var files []file
	for pair := range slices.Chunk(namesAndTexts, 2) {
		files = append(files, file{pair[0], 0o644, []byte(pair[1])})
	}
	var a about
	text, err := pack(files, a.created.AddDate(2000, 0, 0))
	if err == nil {
		text, err = zip(text)
	}
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "image")
	if err := run([]string{"-release", from, "-to", to, "-version", "v1.2.3", "-revision", "abcdef"}, epoch); err != nil {
		t.Fatal(err)
	}
	return to
}

// contents returns the files below a folder.
func contents(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	root := os.DirFS(folder)
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		all[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestImageIsReproducible(t *testing.T) {
	one, other := release(t, "v1.2.3", "amd64", "s390x"), release(t, "v1.2.3", "s390x", "amd64")
	if !maps.Equal(contents(t, build(t, one)), contents(t, build(t, other))) {
		t.Error("the image is not the same when it is made again")
	}
}

// reader follows a layout from its index to each file of each image, as a registry's
// client does.
type reader struct {
	t     *testing.T
	blobs map[string]string
	seen  map[string]bool
}

// blob returns the blob that d names, and compares it with d.
func (r *reader) blob(d descriptor, mediaType string) []byte {
	r.t.Helper()
	name := "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:")
	text := []byte(r.blobs[name])
	if d.MediaType != mediaType || d.Size != len(text) || digest(text) != d.Digest {
		r.t.Fatalf("%+v names %d bytes of %s; want %s", d, len(text), digest(text), mediaType)
	}
	r.seen[name] = true
	return text
}

func (r *reader) decode(text []byte, v any) {
	r.t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		r.t.Fatalf("%s: %v", text, err)
	}
}

func TestImageHasBinaryAndConfig(t *testing.T) {
	arches := []string{"amd64", "arm64", "arm", "ppc64le", "riscv64", "s390x"}
	r := &reader{t, contents(t, build(t, release(t, "v1.2.3", arches...))), map[string]bool{"index.json": true, "oci-layout": true}}
	if got := r.blobs["oci-layout"]; got != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("the layout is %s", got)
	}
	var top, all index
	r.decode([]byte(r.blobs["index.json"]), &top)
	if len(top.Manifests) != 1 || top.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v1.2.3" {
		t.Fatalf("the layout has %+v", top.Manifests)
	}
	r.decode(r.blob(top.Manifests[0], indexType), &all)
	var got []string
	for _, d := range all.Manifests {
		p := *d.Platform
		got = append(got, p.Architecture)
		if p.OS != "linux" || p.Variant != map[string]string{"arm": "v7", "arm64": "v8"}[p.Architecture] {
			t.Errorf("an image is for %+v", p)
		}
		r.image(d)
	}
	if !slices.Equal(got, arches) {
		t.Errorf("there are images for %q, want %q", got, arches)
	}
	for name := range r.blobs {
		if !r.seen[name] {
			t.Errorf("nothing leads to %s", name)
		}
	}
}

// image checks one image of the index.
func (r *reader) image(d descriptor) {
	r.t.Helper()
	var m manifest
	var c config
	r.decode(r.blob(d, manifestType), &m)
	r.decode(r.blob(m.Config, configType), &c)
	if c.platform != *d.Platform || c.Config.User != "0:0" || !slices.Equal(c.Config.Entrypoint, []string{"/tulled"}) ||
		c.Created.Unix() != 1234567890 || !maps.Equal(c.Config.Labels, m.Annotations) || len(m.Layers) != 1 {
		r.t.Errorf("an image is %+v, %+v", m, c)
	}
	for label, want := range map[string]string{"version": "v1.2.3", "revision": "abcdef", "created": "2009-02-13T23:31:30Z", "licenses": "Apache-2.0"} {
		if got := c.Config.Labels["org.opencontainers.image."+label]; got != want {
			r.t.Errorf("the label %s is %q, want %q", label, got, want)
		}
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(r.blob(m.Layers[0], layerType)))
	if err != nil {
		r.t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		r.t.Fatal(err)
	}
	if !slices.Equal(c.RootFS.DiffIDs, []string{digest(text)}) {
		r.t.Errorf("the layer is %s, and said to be %q", digest(text), c.RootFS.DiffIDs)
	}
	want := map[string]string{
		"LICENSE 644": "licence", "tulled 755": "binary for " + d.Platform.Architecture, "tulle-etcd 755": "etcd for " + d.Platform.Architecture,
		"tulle-wireguard 755": "wireguard for " + d.Platform.Architecture, "tulle-controller 755": "controller for " + d.Platform.Architecture, "cni/ 755": "", "cni/README.md 644": "of plugins",
		"cni/bridge 755": "bridge for " + d.Platform.Architecture, "cni/host-local 755": "host-local", "cni/loopback 755": "loopback", "cni/portmap 755": "portmap",
	}
	got := make(map[string]string)
	for files := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			r.t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			r.t.Fatal(err)
		}
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 1234567890 {
			r.t.Errorf("%s is of %d:%d and %s", h.Name, h.Uid, h.Gid, h.ModTime)
		}
		mode := map[int64]string{0o644: "644", 0o755: "755"}[h.Mode]
		got[h.Name+" "+mode] = string(text)
	}
	if !maps.Equal(got, want) {
		r.t.Errorf("the image has %q, want %q", got, want)
	}
}

func TestBadReleaseIsRefused(t *testing.T) {
	good := release(t, "v1.2.3", "amd64")
	bad := t.TempDir()
	put(t, filepath.Join(bad, "tulle-v1.2.3-linux-arm.tar.gz"), "tulle-v1.2.3-linux-arm/LICENSE", "licence")
	if err := os.WriteFile(filepath.Join(bad, "tulle-v2-linux-amd64.tar.gz"), []byte("rubbish"), 0o644); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "image")
	for _, c := range []struct {
		args  []string
		epoch string
		want  string
	}{
		{[]string{"-release", good, "-to", to, "-version", "v1.2.3"}, "", "SOURCE_DATE_EPOCH"},
		{[]string{"-release", good, "-version", "v1.2.3"}, epoch, "-to"},
		{[]string{"-release", good, "-to", to, "-version", "v1.2.3", "more"}, epoch, "no arguments"},
		{[]string{"-release", good, "-to", to, "-version", "v9"}, epoch, "no archive of v9"},
		{[]string{"-release", good, "-to", good, "-version", "v1.2.3"}, epoch, "exists; remove it"},
		{[]string{"-release", bad, "-to", to, "-version", "v1.2.3"}, epoch, "has no tulle-v1.2.3-linux-arm/tulled"},
		{[]string{"-release", bad, "-to", to, "-version", "v2"}, epoch, "unpack"},
	} {
		if err := run(c.args, c.epoch); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %s", c.args, err, c.want)
		}
		if _, err := os.Lstat(to); err == nil {
			t.Fatalf("%q has left an image", c.args)
		}
	}
}
