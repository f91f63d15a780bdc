// Package ccmtest builds the AWS cloud controller manager that tests and benchmarks
// compare tulle-controller with.
package ccmtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Source is the environment variable that names a git repository of
// k8s.io/cloud-provider-aws.
const Source = "CCM_SOURCE"

const (
	upstream = "https://github.com/kubernetes/cloud-provider-aws"
	// commit is the one of July 2026.
	commit  = "63ec440c3275321b55afa45480e2fdfd2b0e93c4"
	program = "aws-cloud-controller-manager"
)

// Hint says how to get the program.
const Hint = Source + "=" + upstream + " or a local clone of it"

// Find returns the path of the program. It builds the program unless it is in the
// cache. Without CCM_SOURCE it returns "".
func Find() (path string, err error) {
	from := os.Getenv(Source)
	if from == "" {
		return "", nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path = filepath.Join(cache, "tulle", "ccm-"+commit[:12], program)
	if _, err := os.Stat(path); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := build(from, path); err != nil {
		return "", fmt.Errorf("build %s of %s: %w; name a git repository that has commit %s in %s", program, from, err, commit, Source)
	}
	return path, nil
}

// build clones the repository into a temporary folder, and builds the program there.
func build(from, to string) error {
	dir, err := os.MkdirTemp("", "tulle-ccm")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"git", "init", "-q"}, {"git", "fetch", "-q", "--depth", "1", from, commit}, {"git", "checkout", "-q", "FETCH_HEAD"},
		{"nice", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to + ".new", "./cmd/" + program},
	} {
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", strings.Join(command, " "), err, out)
		}
	}
	return os.Rename(to+".new", to)
}
