// Package textfile reads small files that a person, or something that mounts them, may
// change at any time.
package textfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

const (
	// Interval is how often Follow polls the file: one call to the kernel.
	Interval = time.Second
	// largest is more than any such file has.
	largest = 1 << 20
)

// Read returns the content of the file at path.
func Read(path string) ([]byte, error) {
	text, _, err := read(path)
	return text, err
}

// read also returns the state of the file that it has read, or nil if a second try may
// succeed.
func read(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe is refused, not waited for
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, errors.New("not a file")
	}
	text, err := io.ReadAll(io.LimitReader(f, largest+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(text) > largest:
		return nil, info, fmt.Errorf("more than %d bytes", largest)
	}
	return text, info, nil
}

// Follow calls got with the content of the file at path, and again whenever the file
// changes, until ctx ends. While the file cannot be read, it calls got with the reason at each
// try.
func Follow(ctx context.Context, path string, got func(text []byte, err error)) {
	var seen fs.FileInfo
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		now, err := os.Stat(path) // of what links lead to
		if err != nil || seen == nil || !same(seen, now) {
			var text []byte
			text, seen, err = read(path)
			got(text, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size() && a.Mode() == b.Mode()
}
