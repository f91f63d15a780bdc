package keepfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteAtomic makes content the whole of the file at path, see Write.
func WriteAtomic(path string, content []byte, mode fs.FileMode) error {
	return Write(path, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// Write replaces the file at path with what fill writes, which is buffered. The
// file is on the disk when Write returns; until then, and when there is an
// error, also fill's, the old one stays as it was. Missing folders are made. A
// symbolic link stays, and what it leads to is replaced. Other than a regular
// file nothing is replaced: a folder or a device is an error.
func Write(path string, mode fs.FileMode, fill func(io.Writer) error) error {
	hops, err := follow(path)
	if err != nil {
		return writeError(path, err)
	}
	target := hops[len(hops)-1]
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return writeError(path, err)
	}
	switch info, err := os.Lstat(target); {
	case err == nil && !info.Mode().IsRegular():
		return writeError(path, notAFile(target, info))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return writeError(path, err)
	}
	if err := replace(target, mode, fill); err != nil {
		return writeError(path, err)
	}
	return nil
}

// writeError returns the error of a write, with the fix.
func writeError(path string, err error) error {
	return fmt.Errorf("write %s: %w%s", path, err, Fix(err, "name another file"))
}

// Fix returns how an administrator corrects an error of the file system, as the end of
// an error's text, or "". instead is the way out that leaves the file system as it is.
func Fix(err error, instead string) string {
	switch {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return "; free space on the file system"
	case errors.Is(err, unix.EROFS):
		return "; mount the file system writable, or " + instead
	case errors.Is(err, fs.ErrPermission):
		return "; run as root, or " + instead
	case errors.Is(err, unix.ENOTDIR):
		return "; remove what stands in a folder's place, or " + instead
	}
	return ""
}

func notAFile(path string, info fs.FileInfo) error {
	kind := "not a regular file"
	if info.IsDir() {
		kind = "a folder"
	}
	return fmt.Errorf("%s is %s; remove it, or name another file", path, kind)
}

// replace does Write for a path that is no link, in a folder that is there.
func replace(path string, mode fs.FileMode, fill func(io.Writer) error) (err error) {
	if err := sweep(path); err != nil {
		return err
	}
	f, err := create(path)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
		f.Close()
	}()
	w := bufio.NewWriterSize(f, 64<<10)
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename last. Not every file system can, or needs to.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := dir.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}
