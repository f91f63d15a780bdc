package flanneltest

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

// The version of flannel that tests and benchmarks compare tulle with.
const (
	source = "https://github.com/flannel-io/flannel"
	commit = "cdf760595c23292fd03ff4daf03638ac1ceef417"
	// cniPlugin is the last version of the standard plugins that contains flannel's.
	// Later ones are in a module of their own, which is not available everywhere.
	cniPlugin = "github.com/containernetworking/plugins/plugins/meta/flannel@v0.9.1"
)

// Flannel is the paths of flannel's parts.
type Flannel struct {
	// Flanneld is the daemon.
	Flanneld string
	// InstallConf is the program with which its DaemonSet installs the CNI config.
	InstallConf string
	// CNIPlugin is the plugin that reads subnet.env, for IPv4.
	CNIPlugin string
	// Manifest is flannel's own manifest.
	Manifest string
}

// Find returns flannel's parts. It builds what is not in the cache yet. FLANNELD may
// name another flanneld, and FLANNEL_SOURCE another git repository of flannel.
func Find() (Flannel, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return Flannel{}, err
	}
	dir := filepath.Join(cache, "tulle", "flannel-"+commit[:12])
	f := Flannel{
		Flanneld:    filepath.Join(dir, "flanneld"),
		InstallConf: filepath.Join(dir, "install-conf"),
		CNIPlugin:   filepath.Join(dir, "flannel"),
		Manifest:    filepath.Join(dir, "kube-flannel.yml"),
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		from := cmp.Or(os.Getenv("FLANNEL_SOURCE"), source)
		if err := build(from, dir); err != nil {
			return Flannel{}, fmt.Errorf("build flannel of %s: %w; name a git repository that has it in FLANNEL_SOURCE", from, err)
		}
	} else if err != nil {
		return Flannel{}, err
	}
	f.Flanneld = cmp.Or(os.Getenv("FLANNELD"), f.Flanneld)
	return f, nil
}

// build omits the backend for Tencent's cloud: its module is large and not available
// everywhere.
func build(from, to string) error {
	dir, err := os.MkdirTemp("", "tulle-flannel")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "made")
	in := func(env []string, command ...string) error {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
		}
		return nil
	}
	for _, command := range []string{"init -q", "fetch -q --depth 1 " + from + " " + commit, "checkout -q FETCH_HEAD"} {
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
	// These are the settings of flannel's own Makefile and Dockerfile.
	settings := []string{"GOFLAGS=-buildvcs=false", "GOWORK=off", "GOBIN=" + made}
	for _, command := range []string{
		"env CGO_ENABLED=1 go build -trimpath -o made/flanneld .",
		"env CGO_ENABLED=0 go build -trimpath -o made/install-conf ./cmd/install_conf",
		"env CGO_ENABLED=0 GOFLAGS=-mod=mod go install -trimpath " + cniPlugin,
		"cp Documentation/kube-flannel.yml made",
	} {
		if err := in(settings, strings.Fields(command)...); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	// The folder of dir may be on another disk.
	if err := in(nil, "cp", "-r", made, to+".new"); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}
