package keepfile

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// suffix ends the name of every temporary file, like .subnet.env.RANDOM.tulle, which
// stands beside the file that it is to replace. No other file has such a name. RANDOM
// cannot be guessed, and a runtime that reads every .conf of a folder skips it. Its
// writer holds a lock on it; a file without a lock is left over from a crash.
const suffix = ".tulle"

var randomLen = len(rand.Text())

func prefixOf(path string) string { return "." + filepath.Base(path) + "." }

// create makes a temporary file for path, locked.
func create(path string) (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(path), prefixOf(path)+rand.Text()+suffix)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		kept, err := lock(f)
		if err != nil {
			os.Remove(name)
		}
		if err == nil && kept {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
		// Another swept it away before the lock was on.
	}
}

// lock locks a file, and reports whether it still has a name after that.
func lock(f *os.File) (kept bool, err error) {
	if err := flock(f, unix.LOCK_EX); err != nil {
		return false, err
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return false, fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	return stat.Nlink > 0, nil
}

func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOLCK):
			return nil // the file system knows no locks: then no process can hold one
		case !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// sweep removes the temporary files for path that a crash left behind.
func sweep(path string) error {
	folder := filepath.Dir(path)
	dir, err := os.Open(folder)
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if isTemporary(name, path) {
				removeIfLeft(filepath.Join(folder, name))
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func isTemporary(name, path string) bool {
	random, ok := strings.CutPrefix(name, prefixOf(path))
	if !ok {
		return false
	}
	random, ok = strings.CutSuffix(random, suffix)
	return ok && len(random) == randomLen && !strings.ContainsFunc(random, func(r rune) bool {
		return (r < 'A' || r > 'Z') && (r < '2' || r > '7')
	})
}

// removeIfLeft removes a temporary file unless its writer lives. One that
// cannot be removed does no harm.
func removeIfLeft(name string) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode()&fs.ModeType != 0 {
		return
	}
	if flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil {
		os.Remove(name)
	}
}
