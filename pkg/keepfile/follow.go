package keepfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

const maxHops = 40 // as many as the kernel's

// follow goes from path to what it leads to: path itself, and each symbolic
// link's target after it. An administrator may have put a link to where the file
// is to be; the last is that place, whether there is a file or not.
func follow(path string) (hops []string, err error) {
	path = filepath.Clean(path)
	for {
		hops = append(hops, path)
		info, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode()&fs.ModeSymlink == 0 {
			return hops, nil
		}
		if err != nil {
			return hops, err
		}
		if len(hops) > maxHops {
			return hops, &fs.PathError{Op: "follow", Path: hops[0], Err: unix.ELOOP}
		}
		if err := trusted(path, info); err != nil {
			return hops, err
		}
		to, err := os.Readlink(path)
		if err != nil {
			return hops, err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Dir(path) + "/" + to
		}
		if path, err = inFolder(to); err != nil {
			return hops, err
		}
	}
}

// inFolder cleans a path of its folder's links, without which .. is not what it
// looks like. A folder that is not there has none.
func inFolder(path string) (string, error) {
	folder, name := filepath.Split(path)
	real, err := filepath.EvalSymlinks(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return filepath.Clean(path), nil
	}
	return filepath.Join(real, name), err
}

// trusted applies the kernel's rule of protected_symlinks: in a folder like /tmp a
// link counts only if it is our own or that of the folder's owner, or else
// any user could make us overwrite anything.
func trusted(path string, link fs.FileInfo) error {
	dir, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return err
	}
	owner, folder := uid(link), uid(dir)
	if dir.Mode()&fs.ModeSticky == 0 || dir.Mode().Perm()&0o002 == 0 || owner == os.Geteuid() || owner == folder {
		return nil
	}
	return fmt.Errorf("%s is a symbolic link that user %d made in a world-writable folder; remove it, or name another file", path, owner)
}

func uid(info fs.FileInfo) int {
	return int(info.Sys().(*syscall.Stat_t).Uid)
}
