package main

import (
	"context"
	"path/filepath"

	"github.com/tulle-net/tulle/pkg/test/flanneltest"
)

// addDaemons adds tulled, which it builds in dir, etcd and flannel's daemon to tools.
func addDaemons(ctx context.Context, tools []string, dir string) ([]string, error) {
	tulled := filepath.Join(dir, "tulled")
	if _, err := output(goCommand(ctx, "build", "-ldflags=-s -w", "-o", tulled, "github.com/tulle-net/tulle")); err != nil {
		return nil, err
	}
	flannel, err := flanneltest.Find()
	if err != nil {
		return nil, err
	}
	return append(tools, "etcd", "tulled="+tulled, "flanneld="+flannel.Flanneld), nil
}
