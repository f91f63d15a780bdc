package network

import (
	"context"
	"errors"
	"io/fs"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cniconf"
	"github.com/tulle-net/tulle/pkg/envfile"
)

// Outputs are the files that a node writes. An empty path disables the file.
type Outputs struct {
	SubnetFile  string // the env file
	CNIConfFile string
	// StateDir is where the network is saved for a start without the store. Network
	// identifies the saved network, so that another one is not used.
	StateDir, Network string
	IPMasq            bool // for the env file
	// Blackhole drops packets to own addresses that no container has.
	Blackhole bool
}

// write writes the files for the node's present state, in a goroutine of its own
// because a disk may hang. Files reports and retries failures.
func (a *Agent) write() {
	mtu := a.backends.MTU()
	files := make(map[string][]byte)
	if path := a.Outputs.SubnetFile; path != "" {
		files[path] = envfile.Format(envfile.Of(a.config, a.own, mtu, a.Outputs.IPMasq))
	}
	if path := a.Outputs.CNIConfFile; path != "" {
		files[path] = cniconf.Format(cniconf.Conf{Networks: a.config.Networks(), Subnets: a.own.Subnets, MTU: mtu})
	}
	a.restart(&a.writing, func(ctx context.Context) {
		for path, content := range files {
			_ = a.Files.Set(path, content, 0o644)
		}
		a.call(ctx, func() { a.stopWaiting(onFiles) })
	})
}

// read returns the env file of an earlier run.
func (o Outputs) read() envfile.Env {
	if o.SubnetFile == "" {
		return envfile.Env{}
	}
	env, err := envfile.Read(o.SubnetFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		klog.InfoS("Ignoring invalid entries of the existing env file", "path", o.SubnetFile, "reason", err)
	}
	return env
}
