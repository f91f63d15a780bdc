package dockertest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// ControlGroup creates a control group. When the test ends, it is removed after all its
// processes have ended.
func ControlGroup(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("/tulle-%s-%d", t.Name(), os.Getpid())
	t.Cleanup(func() {
		for _, at := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			roots, err := filepath.Glob(at + name)
			if err != nil {
				t.Error(err)
			}
			for _, root := range roots {
				kerneltest.Eventually(t, patience, func() error { return removeGroups(root) })
			}
		}
	})
	return name
}

// removeGroups removes a control group and all below it.
func removeGroups(path string) error {
	groups, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, g := range groups {
		if g.IsDir() {
			if err := removeGroups(filepath.Join(path, g.Name())); err != nil {
				return err
			}
		}
	}
	return syscall.Rmdir(path)
}
