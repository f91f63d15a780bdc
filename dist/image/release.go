package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// platform is the platform of an image, in OCI's format.
type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	Variant      string `json:"variant,omitempty"`
}

// platforms are those of the releases.
var platforms = []platform{
	{Architecture: "amd64"}, {Architecture: "arm64", Variant: "v8"}, {Architecture: "arm", Variant: "v7"},
	{Architecture: "ppc64le"}, {Architecture: "riscv64"}, {Architecture: "s390x"},
}

// archive is the archive of a release for a platform.
type archive struct {
	platform platform
	path     string
	top      string // the folder that contains everything
}

// open finds the archives of a version.
func open(folder, version string) ([]archive, error) {
	var found []archive
	for _, p := range platforms {
		p.OS = "linux"
		top := fmt.Sprintf("tulle-%s-%s-%s", version, p.OS, p.Architecture)
		path := filepath.Join(folder, top+".tar.gz")
		if _, err := os.Stat(path); err == nil {
			found = append(found, archive{p, path, top})
		} else if !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%s has no archive of %s; dist/release/build.sh makes them", folder, version)
	}
	return found, nil
}

// plugins are what container runtimes run for the CNI config that tulled writes, and
// for loopback.
var plugins = []string{"bridge", "host-local", "loopback", "portmap"}

// file is a file of an image.
type file struct {
	name string
	mode int64
	text []byte
}

// files returns the files of the archive that belong into an image.
func (a archive) files() ([]file, error) {
	wanted := []file{{name: "LICENSE", mode: 0o644}, {name: "tulled", mode: 0o755}, {name: "tulle-etcd", mode: 0o755},
		{name: "tulle-wireguard", mode: 0o755}, {name: "tulle-controller", mode: 0o755}, {name: "cni/README.md", mode: 0o644}}
	for _, plugin := range plugins {
		wanted = append(wanted, file{name: "cni/" + plugin, mode: 0o755})
	}
	packed, err := os.Open(a.path)
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack %s: %w", a.path, err)
	}
	for r := tar.NewReader(unpacked); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("unpack %s: %w", a.path, err)
		}
		i := slices.IndexFunc(wanted, func(f file) bool { return h.Name == a.top+"/"+f.name })
		if i < 0 || h.Typeflag != tar.TypeReg {
			continue
		}
		if wanted[i].text, err = io.ReadAll(r); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", a.path, err)
		}
	}
	for _, f := range wanted {
		if len(f.text) == 0 {
			return nil, fmt.Errorf("%s has no %s", a.path, strings.Join([]string{a.top, f.name}, "/"))
		}
	}
	return wanted, nil
}
