package keepfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

// log is what was logged.
var log logtest.Log

func TestMain(m *testing.M) {
	log.Keep()
	goleak.VerifyTestMain(m)
}

func put(t testing.TB, path, content string, mode fs.FileMode) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func mkdir(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

func symlink(t testing.TB, to, path string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	if err := os.Symlink(to, path); err != nil {
		t.Fatal(err)
	}
}

// isFile says why there is not this file at path.
func isFile(path, content string, mode fs.FileMode) error {
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if string(got) != content || info.Mode() != mode {
		return fmt.Errorf("%s has %.40q, %v; want %.40q, %v", path, got, info.Mode(), content, mode)
	}
	return nil
}

func has(t testing.TB, path, content string, mode fs.FileMode) {
	t.Helper()
	if err := isFile(path, content, mode); err != nil {
		t.Error(err)
	}
}

func becomes(t testing.TB, path, content string, mode fs.FileMode) {
	t.Helper()
	kerneltest.Eventually(t, 20*time.Second, func() error { return isFile(path, content, mode) })
}

func noTemporary(t testing.TB, dir string) {
	t.Helper()
	left, err := filepath.Glob(filepath.Join(dir, ".*"+suffix))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// inode returns a file's inode, which a rewrite changes.
func inode(t testing.TB, path string) uint64 {
	t.Helper()
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		t.Fatal(err)
	}
	return stat.Ino
}

// tmpfs is a folder with a file system of its own.
func tmpfs(t testing.TB, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tulle-test", dir, "tmpfs", 0, options); err != nil {
		t.Fatalf("mount a tmpfs, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}
