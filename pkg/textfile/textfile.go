// Package textfile reads small files that a person or a mount, like a ConfigMap's, may
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
	// Interval is Follow's poll interval. A poll is one call to the kernel.
	Interval = time.Second
	// largest is the largest size of a file, in bytes.
	largest = 1 << 20
)

// Read returns the content of the file at path.
func Read(path string) ([]byte, error) {
	text, _, err := read(path)
	return text, err
}

// read also returns the state of the file that it has read, or nil if a retry may
// succeed.
func read(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // O_NONBLOCK: a pipe is refused without waiting for a writer
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, info, errors.New("not a regular file")
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

// Follow calls got with the content of the file at path at once and after each change,
// until ctx ends. While it cannot read the file, it retries, and calls got with each
// failure.
func Follow(ctx context.Context, path string, got func(text []byte, err error)) {
	var seen fs.FileInfo
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	for {
		now, err := os.Stat(path) // follows links
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
