package nodepools

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/textfile"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Read returns the pools in the file at path.
func Read(path string, beside []ipam.Pool) ([]ipam.Pool, error) {
	text, err := textfile.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(text, beside)
}

// Follow calls to with the pools in the file at path, and again whenever the file
// changes, until ctx ends. If there are none to use, it calls to with the reason.
func Follow(ctx context.Context, path string, beside []ipam.Pool, to func([]ipam.Pool, error)) {
	reading := trouble.Outcome{Failed: "Refused the file of pools; keeping the previous pools", EachReason: true}
	known := ""
	textfile.Follow(ctx, path, func(text []byte, err error) {
		var pools []ipam.Pool
		if err == nil {
			pools, err = Parse(text, beside)
		}
		reading.Was(err, "path", path)
		now := fmt.Sprintf("%s\n%v", text, err)
		if now == known {
			return
		}
		if known = now; err == nil {
			klog.InfoS("Read the file of pools", "path", path, "pools", len(pools))
		}
		to(pools, err)
	})
}
