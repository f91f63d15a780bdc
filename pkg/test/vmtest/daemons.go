package main

import (
	"context"
	"path/filepath"

	"github.com/tulle-net/tulle/pkg/test/flanneltest"
)

// addDaemons adds tulled and tulle-wireguard, which it builds in dir, etcd and flannel's daemon to
// tools.
func addDaemons(ctx context.Context, tools []string, dir string) ([]string, error) {
	for name, source := range map[string]string{"tulled": "", "tulle-wireguard": "/pkg/cmd/tulle-wireguard"} {
		program := filepath.Join(dir, name)
		if _, err := output(goCommand(ctx, "build", "-ldflags=-s -w", "-o", program, "github.com/tulle-net/tulle"+source)); err != nil {
			return nil, err
		}
		tools = append(tools, name+"="+program)
	}
	flannel, err := flanneltest.Find()
	if err != nil {
		return nil, err
	}
	return append(tools, "etcd", "flanneld="+flannel.Flanneld), nil
}
