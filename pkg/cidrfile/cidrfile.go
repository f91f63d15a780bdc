// Package cidrfile reads networks from a file that a person, or something that
// mounts it, may change at any time: one a line, # begins a comment.
package cidrfile

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/textfile"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Parse returns the networks in text. An error names the line.
func Parse(text []byte) ([]netip.Prefix, error) {
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

// Follow calls to with the networks in the file at path, and again whenever they
// change. While the file cannot be read, the previous networks count.
func Follow(ctx context.Context, path string, to func([]netip.Prefix)) {
	var known []netip.Prefix // nil before the first success
	reading := trouble.Outcome{Failed: "Failed to read the file of networks; keeping the previous ones", EachReason: true}
	textfile.Follow(ctx, path, func(text []byte, err error) {
		var all []netip.Prefix
		if err == nil {
			all, err = Parse(text)
		}
		reading.Was(err, "path", path, "networks", len(known))
		if err == nil && (known == nil || !slices.Equal(all, known)) {
			klog.InfoS("Read the file of networks", "path", path, "networks", len(all))
			known = append([]netip.Prefix{}, all...)
			to(all)
		}
	})
}
