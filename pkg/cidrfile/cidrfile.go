// Package cidrfile reads networks from a file that a person, or something that
// mounts it, may change at any time: one a line, # begins a comment.
package cidrfile

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/trouble"
)

const (
	// interval is how often Follow checks the file for changes: one call to the kernel.
	interval = time.Second
	// largest is more than any such file has.
	largest = 1 << 20
)

// Parse returns the networks in text. An error names the line.
func Parse(text []byte) ([]netip.Prefix, error) {
	if len(text) > largest {
		return nil, fmt.Errorf("more than %d bytes", largest)
	}
	var all []netip.Prefix
	known := make(map[netip.Prefix]bool)
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p, err := netip.ParsePrefix(line)
		if err != nil || p.Addr().Is4In6() {
			return nil, fmt.Errorf("line %d: %.60q is not a network; write one a line, like 192.0.2.0/24 or 2001:db8::/32", n, line)
		}
		if p = p.Masked(); !known[p] {
			all = append(all, p)
		}
		known[p] = true
	}
	return all, lines.Err()
}

// read reads the file at path.
func read(path string) ([]netip.Prefix, fs.FileInfo, error) {
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
	if err != nil {
		return nil, nil, err // to be read again
	}
	all, err := Parse(text)
	return all, info, err
}

// Follow calls to with the networks in the file at path, and again whenever they
// change. While the file cannot be read, the previous networks count.
func Follow(ctx context.Context, path string, to func([]netip.Prefix)) {
	var known []netip.Prefix // nil before the first success
	var seen fs.FileInfo
	reading := trouble.Outcome{Failed: "Failed to read the file of networks; keeping the previous ones", EachReason: true}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		now, err := os.Stat(path) // of what links lead to
		if err != nil || seen == nil || !same(seen, now) {
			var all []netip.Prefix
			all, seen, err = read(path)
			reading.Was(err, "path", path, "networks", len(known))
			if err == nil && (known == nil || !slices.Equal(all, known)) {
				klog.InfoS("Read the file of networks", "path", path, "networks", len(all))
				known = append([]netip.Prefix{}, all...)
				to(all)
			}
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
