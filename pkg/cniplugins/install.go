package cniplugins

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/tulle-net/tulle/pkg/keepfile"
)

// Outcome is what Install did with a plugin.
type Outcome string

// The outcomes.
const (
	Installed Outcome = "installed"
	Replaced  Outcome = "replaced" // an earlier one of ours
	Kept      Outcome = "unchanged"
	Left      Outcome = "foreign" // another program's
)

// Plugin is one that is to be in a folder.
type Plugin struct {
	Path    string
	Outcome Outcome
}

// Install copies the programs of the folder from into the folder to. Each is there
// whole or not at all, also if the host loses power. A failure of one does not stop
// the others; the error joins all failures.
func Install(from, to string) ([]Plugin, error) {
	entries, err := os.ReadDir(from)
	if err != nil {
		return nil, fmt.Errorf("find CNI plugins: %w; they are in tulle's image, and in the folder cni of its archives", err)
	}
	l, err := readList(filepath.Join(to, listName))
	if err != nil {
		return nil, err
	}
	var done []Plugin
	var failed []error
	programs := 0
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return done, fmt.Errorf("find CNI plugins: %w", err)
		}
		if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
			continue // a licence, for one
		}
		programs++
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		outcome, err := l.install(e.Name(), source, target)
		if err != nil {
			failed = append(failed, fmt.Errorf("install the CNI plugin %s: %w", target, err))
			continue
		}
		done = append(done, Plugin{target, outcome})
	}
	if programs == 0 {
		return nil, fmt.Errorf("no CNI plugins in %s; they are in tulle's image, and in the folder cni of its archives", from)
	}
	if err := l.write(); err != nil {
		failed = append(failed, err)
	}
	return done, errors.Join(failed...)
}

// install does so with one, and records it in the list.
func (l *list) install(name, source, target string) (Outcome, error) {
	want, err := checksum(source)
	if err != nil {
		return "", err
	}
	has, err := checksum(target)
	outcome := Installed
	switch ours := l.sums[name]; {
	case errors.Is(err, fs.ErrNotExist):
	case errors.Is(err, unix.ELOOP): // a person made the link
		delete(l.sums, name)
		if info, err := os.Stat(target); err != nil || !info.Mode().IsRegular() {
			return "", errors.New("a symbolic link that leads to no file; remove it")
		}
		return Left, nil
	case err != nil:
		return "", err
	case has == want:
		l.sums[name] = want
		return Kept, nil
	case has != ours:
		delete(l.sums, name)
		return Left, nil
	default:
		outcome = Replaced
	}
	err = keepfile.Write(target, 0o755, func(w io.Writer) error {
		f, err := open(source)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err == nil {
		l.sums[name] = want
	}
	return outcome, err
}

// open opens a file, and nothing else: no link, no folder, no pipe.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file; remove it")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// checksum is that of a file.
func checksum(path string) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
