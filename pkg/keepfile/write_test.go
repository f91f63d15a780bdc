package keepfile

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWrite checks what Write replaces, with which mode, and what it leaves after an
// error.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, path string
		before     func(t *testing.T, path string)
		at         string // where it ends, if not at path
	}{
		{name: "new", path: "new"},
		{name: "in folders to be made", path: "a/b/c"},
		{name: "over a file", path: "old", before: func(t *testing.T, path string) { put(t, path, "old", 0o600) }},
		{name: "over a longer one", path: "long", before: func(t *testing.T, path string) { put(t, path, strings.Repeat("x", 1<<17), 0o666) }},
		{name: "through a link", path: "link", at: "elsewhere/file", before: func(t *testing.T, path string) {
			put(t, filepath.Join(dir, "elsewhere/file"), "old", 0o600)
			symlink(t, "elsewhere/file", path)
		}},
		{name: "through a link to nothing", path: "dangling", at: "no/where/yet", before: func(t *testing.T, path string) { symlink(t, filepath.Join(dir, "no/where/yet"), path) }},
		{name: "through many links", path: "l1", at: "l40", before: func(t *testing.T, path string) {
			for i := 1; i < 40; i++ {
				symlink(t, fmt.Sprintf("l%d", i+1), filepath.Join(dir, fmt.Sprintf("l%d", i)))
			}
		}},
		// deep/folder is far away, so that its .. is not deep.
		{name: "through a linked folder", path: "up", at: "far/file", before: func(t *testing.T, path string) {
			mkdir(t, filepath.Join(dir, "far/away"))
			mkdir(t, filepath.Join(dir, "deep"))
			symlink(t, "../far/away", filepath.Join(dir, "deep/folder"))
			symlink(t, "deep/folder/../file", path)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(dir, c.path)
			if c.before != nil {
				c.before(t, path)
			}
			if err := WriteAtomic(path, []byte("new\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			at := path
			if c.at != "" {
				at = filepath.Join(dir, c.at)
				if info, err := os.Lstat(path); err != nil || info.Mode()&fs.ModeSymlink == 0 {
					t.Errorf("the link is gone: %v, %v", info, err)
				}
			}
			has(t, at, "new\n", 0o644)
			noTemporary(t, filepath.Dir(at))
		})
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	mkdir(t, filepath.Join(dir, "folder"))
	put(t, filepath.Join(dir, "file"), "old", 0o600)
	if err := unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
		t.Fatal(err)
	}
	symlink(t, "loop", filepath.Join(dir, "loop"))
	symlink(t, "folder/", filepath.Join(dir, "to folder"))
	open := filepath.Join(dir, "open")
	mkdir(t, open)
	if err := os.Chmod(open, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	symlink(t, "../file", filepath.Join(open, "trap"))
	if err := os.Lchown(filepath.Join(open, "trap"), 12345, 12345); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, says string }{
		{"folder", "folder is a folder; remove it, or name another file"},
		{"to folder", "folder is a folder"},
		{"pipe", "pipe is not a regular file"},
		{"null", "null is not a regular file"},
		{"file/below", "not a directory; remove what stands in a folder's place"},
		{"loop", "too many levels of symbolic links"},
		{"open/trap", "a symbolic link that user 12345 made in a world-writable folder"},
		{strings.Repeat("x", 300), "file name too long"},
	} {
		t.Run(c.path, func(t *testing.T) {
			path := filepath.Join(dir, c.path)
			err := WriteAtomic(path, []byte("new"), 0o644)
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "write "+path+": ") {
				t.Errorf("got %v, want %q", err, c.says)
			}
			noTemporary(t, dir)
		})
	}
	has(t, filepath.Join(dir, "file"), "old", 0o600)
	// One's own link in such a folder is followed.
	symlink(t, "../file", filepath.Join(open, "own"))
	if err := WriteAtomic(filepath.Join(open, "own"), []byte("new"), 0o644); err != nil {
		t.Error(err)
	}
	has(t, filepath.Join(dir, "file"), "new", 0o644)
}

// Whatever fails, the old file stays and nothing beside it.
func TestWriteKeepsTheOld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	put(t, path, "old", 0o600)
	failure := errors.New("out of peers")
	err := Write(path, 0o644, func(w io.Writer) error {
		if _, err := io.WriteString(w, strings.Repeat("x", 1<<20)); err != nil {
			return err
		}
		has(t, path, "old", 0o600)
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	has(t, path, "old", 0o600)
	noTemporary(t, filepath.Dir(path))

	full := tmpfs(t, "size=64k")
	path = filepath.Join(full, "file")
	put(t, path, "old", 0o600)
	err = WriteAtomic(path, bytes.Repeat([]byte("x"), 1<<20), 0o644)
	if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "free space on the file system") {
		t.Errorf("got %v", err)
	}
	has(t, path, "old", 0o600)
	noTemporary(t, full)

	if err := unix.Mount("", full, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	err = WriteAtomic(path, []byte("new"), 0o644)
	if !errors.Is(err, unix.EROFS) || !strings.Contains(err.Error(), "mount the file system writable") {
		t.Errorf("got %v", err)
	}
	has(t, path, "old", 0o600)
}

// What a crash left behind goes, and nothing else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	left := filepath.Join(dir, ".file."+rand.Text()+suffix)
	put(t, left, "half", 0o600)
	alive, err := create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	others := []string{
		filepath.Base(alive.Name()), ".file.tulle", ".file." + rand.Text(), ".file.short" + suffix, "file." + rand.Text() + suffix,
		".files." + rand.Text() + suffix, ".file." + strings.ToLower(rand.Text()) + suffix,
	}
	for _, name := range others[1:] {
		put(t, filepath.Join(dir, name), "another's", 0o600)
	}
	folder := ".file." + rand.Text() + suffix
	mkdir(t, filepath.Join(dir, folder))
	if err := WriteAtomic(path, []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := append(others, folder, "file")
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("there is %q\nwant     %q", got, want)
	}
}

// Many who write one file at once do not trip over each other, and a reader
// always finds the whole of one of them.
func TestWriteAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	content := func(i int) []byte { return bytes.Repeat([]byte{byte('a' + i)}, 100<<10) }
	if err := WriteAtomic(path, content(0), 0o644); err != nil {
		t.Fatal(err)
	}
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for i := range 4 {
		writers.Go(func() {
			for range 10 {
				if err := WriteAtomic(path, content(i), 0o644); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Go(func() {
		for {
			got, err := os.ReadFile(path)
			if err != nil || len(got) != 100<<10 || !bytes.Equal(got, bytes.Repeat(got[:1], len(got))) {
				t.Errorf("read %d bytes, %v", len(got), err)
			}
			select {
			case <-done:
				return
			default:
			}
		}
	})
	writers.Wait()
	close(done)
	readers.Wait()
	noTemporary(t, filepath.Dir(path))
}

func TestIsAsSet(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200000} {
		content := bytes.Repeat([]byte("0123456"), size/7+1)[:size]
		put(t, path, string(content), 0o640)
		if !(regular{content, 0o640}).IsRight(path) {
			t.Errorf("%d bytes are not as set", size)
		}
		if (regular{content, 0o644}).IsRight(path) || (regular{append(bytes.Clone(content), 'x'), 0o640}).IsRight(path) {
			t.Errorf("%d bytes are what they are not", size)
		}
		if size > 0 {
			other := bytes.Clone(content)
			other[size-1]++
			if (regular{other, 0o640}).IsRight(path) || (regular{content[1:], 0o640}).IsRight(path) {
				t.Errorf("%d bytes are what they are not", size)
			}
		}
	}
}
