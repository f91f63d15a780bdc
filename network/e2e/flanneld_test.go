package e2e

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The flannel that tests and benchmarks have beside tulle.
const (
	flannelSource = "https://github.com/flannel-io/flannel"
	flannelCommit = "cdf760595c23292fd03ff4daf03638ac1ceef417"
)

// findFlanneld is the flanneld that FLANNELD names, or else one that is built of
// flannelCommit and kept in the user's cache folder. FLANNEL_SOURCE may name
// another git repository to have that from.
func findFlanneld() (path string, err error) {
	if path := os.Getenv("FLANNELD"); path != "" {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(cache, "tulle", "flanneld-"+flannelCommit[:12])
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	source := cmp.Or(os.Getenv("FLANNEL_SOURCE"), flannelSource)
	if err := buildFlanneld(source, path); err != nil {
		return "", fmt.Errorf("build flanneld of %s: %w; name a ready one in FLANNELD, or a git repository in FLANNEL_SOURCE", source, err)
	}
	return path, nil
}

// buildFlanneld leaves out the backend for Tencent's cloud: its module is large
// and not to be had everywhere.
func buildFlanneld(source, path string) error {
	dir, err := os.MkdirTemp("", "tulle-flannel")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	in := func(env []string, command ...string) error {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
		}
		return nil
	}
	for _, command := range []string{"init -q", "fetch -q --depth 1 " + source + " " + flannelCommit, "checkout -q FETCH_HEAD"} {
		if err := in(nil, append([]string{"git"}, strings.Fields(command)...)...); err != nil {
			return err
		}
	}
	main := filepath.Join(dir, "main.go")
	text, err := os.ReadFile(main)
	if err != nil {
		return err
	}
	without := bytes.Replace(text, []byte("\t_ \"github.com/flannel-io/flannel/pkg/backend/tencentvpc\"\n"), nil, 1)
	if len(without) == len(text) {
		return fmt.Errorf("%s does not import what is to be left out", main)
	}
	if err := os.WriteFile(main, without, 0o644); err != nil {
		return err
	}
	// As flannel's own Makefile has it.
	if err := in([]string{"CGO_ENABLED=1", "GOFLAGS=-buildvcs=false", "GOWORK=off"}, "go", "build", "-trimpath", "-o", path+".new", "."); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
