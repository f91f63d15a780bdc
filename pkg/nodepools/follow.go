package nodepools

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/textfile"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Read returns the pools in the file at path. beside are the pools from elsewhere, as for
// Parse.
func Read(path string, beside []ipam.Pool) ([]ipam.Pool, error) {
	text, err := textfile.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(text, beside)
}

// Follow calls set with the pools in the file at path, at once and after each change, until
// ctx ends. If the file is not valid, it calls set with the reason.
func Follow(ctx context.Context, path string, beside []ipam.Pool, set func([]ipam.Pool, error)) {
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
		set(pools, err)
	})
}
