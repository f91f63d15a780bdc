// Package sourcetest builds programs of other projects that tests and benchmarks compare
// tulle-controller with, or run it beside.
package sourcetest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Program is a program of another project.
type Program struct {
	// Variable is the environment variable that names a git repository of the project.
	Variable string
	upstream string
	commit   string
	// pkg is the path of the program's package, and name what the program is called.
	pkg, name string
	// folder is what the programs' folder in the cache is called.
	folder string
	// definitions is the folder of the project's CustomResourceDefinitions, or "".
	definitions string
}

// The programs.
var (
	// CCM is the AWS cloud controller manager of July 2026.
	CCM = Program{
		Variable: "CCM_SOURCE", upstream: "https://github.com/kubernetes/cloud-provider-aws", commit: "63ec440c3275321b55afa45480e2fdfd2b0e93c4",
		pkg: "./cmd/aws-cloud-controller-manager", name: "aws-cloud-controller-manager", folder: "ccm",
	}
	// CAPA is Cluster API's AWS provider of July 2026.
	CAPA = Program{
		Variable: "CAPA_SOURCE", upstream: "https://github.com/kubernetes-sigs/cluster-api-provider-aws", commit: "2cf09d78547d32975570a4b9ba5496bdfe26abeb",
		pkg: ".", name: "capa-manager", folder: "capa", definitions: "config/crd/bases",
	}
	// CAPI is Cluster API's core, version 1.13.5.
	CAPI = Program{
		Variable: "CAPI_SOURCE", upstream: "https://github.com/kubernetes-sigs/cluster-api", commit: "30be34da2ba56735e128c280370df3135d048015",
		pkg: ".", name: "capi-manager", folder: "capi", definitions: "config/crd/bases",
	}
)

// Hint says how to get the program.
func (p Program) Hint() string { return p.Variable + "=" + p.upstream + " or a local clone of it" }

// Commit returns the commit from which the program is built, shortened.
func (p Program) Commit() string { return p.commit[:7] }

// Find returns the path of the program. It builds the program unless it is in the cache. If
// its variable is not set, Find returns "".
func (p Program) Find() (path string, err error) {
	return p.find(p.name, func(dir, to string) error {
		return run(dir, "nice", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, p.pkg)
	})
}

// Definitions returns the folder of the project's CustomResourceDefinitions. If its variable is not
// set, Definitions returns "".
func (p Program) Definitions() (path string, err error) {
	return p.find("definitions", func(dir, to string) error {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
		return os.CopyFS(to, os.DirFS(filepath.Join(dir, p.definitions)))
	})
}

// one makes tests that run at once wait until one of them has filled the cache.
var one sync.Mutex

// find returns the path of a file or folder in the cache. If it is not there, get makes it from a
// clone in a temporary folder.
func (p Program) find(name string, get func(clone, to string) error) (path string, err error) {
	from := os.Getenv(p.Variable)
	if from == "" {
		return "", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(cache, "tulle", p.folder+"-"+p.commit[:12], name)
	one.Lock()
	defer one.Unlock()
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := p.make(from, path, get); err != nil {
		return "", fmt.Errorf("%s of %s: %w; name a git repository that has commit %s in %s", name, from, err, p.commit, p.Variable)
	}
	return path, nil
}

func (p Program) make(from, to string, get func(clone, to string) error) error {
	dir, err := os.MkdirTemp("", "tulle-"+p.folder)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	for _, command := range [][]string{{"git", "init", "-q"}, {"git", "fetch", "-q", "--depth", "1", from, p.commit}, {"git", "checkout", "-q", "FETCH_HEAD"}} {
		if err := run(dir, command...); err != nil {
			return err
		}
	}
	if err := get(dir, to+".new"); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

func run(dir string, command ...string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
	}
	return nil
}
