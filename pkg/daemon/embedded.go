package daemon

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/etcdserver"
	"github.com/tulle-net/tulle/pkg/options"
)

// startEtcd runs the etcd inside this process, begins a network in it if it is
// empty, and has o lead to it.
func startEtcd(ctx context.Context, o *options.Options) (*etcdserver.Server, error) {
	folder := filepath.Join(o.StateDir, "etcd")
	slow := time.AfterFunc(10*time.Second, func() {
		klog.InfoS("Embedded etcd still starting; another process may use its folder, or its disk may be slow", "folder", folder)
	})
	defer slow.Stop()
	server, err := etcdserver.Start(ctx, etcdserver.Options{
		Dir: folder, Listen: o.Embedded.Listen,
		CertFile: o.Etcd.CertFile, KeyFile: o.Etcd.KeyFile, CAFile: o.Etcd.CAFile,
	})
	if err != nil {
		return nil, err
	}
	o.Etcd.Endpoints = []string{server.Endpoint()}
	klog.InfoS("Started the embedded etcd", "endpoint", server.Endpoint())
	seed := o.Seed()
	if seed == "" {
		return server, nil
	}
	seeded, err := server.Seed(ctx, o.Etcd.Prefix+"/config", seed)
	switch {
	case err != nil:
		server.Stop()
		return nil, fmt.Errorf("write the network's config to the embedded etcd: %w", err)
	case seeded:
		klog.InfoS("Wrote the first network config", "config", seed)
	}
	return server, nil
}
