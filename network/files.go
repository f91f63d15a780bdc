package network

import (
	"errors"
	"io/fs"
	"net/netip"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/cniconf"
	"github.com/tulle-net/tulle/pkg/envfile"
	"github.com/tulle-net/tulle/subnet"
)

// Outputs are the files that a node writes. An empty path is a file that nobody
// wants.
type Outputs struct {
	SubnetFile  string // the env file
	CNIConfFile string
	// StateDir is where the network is saved for a start without the store, and
	// Network what is saved there, so that no other network's is used.
	StateDir, Network string
	IPMasq            bool // for the env file
	// Blackhole has packets to own addresses that no container has dropped.
	Blackhole bool
}

// write has the files say what the node is now.
func (a *Agent) write() {
	mtu := a.backend.MTU()
	if path := a.Outputs.SubnetFile; path != "" {
		env := envfile.Of(a.config, a.own, mtu, a.Outputs.IPMasq)
		a.keepFile(path, envfile.Format(env))
	}
	if path := a.Outputs.CNIConfFile; path != "" {
		a.keepFile(path, cniconf.Format(cniconf.Conf{Networks: networks(a.config), Subnets: a.own.Subnets, MTU: mtu}))
	}
}

// keepFile has a file hold content. What goes wrong the keeper tells, and tries
// again.
func (a *Agent) keepFile(path string, content []byte) {
	_ = a.Files.Set(path, content, 0o644)
}

// want are the subnets that the env file of an earlier run names.
func (o Outputs) want(cfg subnet.Config) subnet.Pair[netip.Prefix] {
	if o.SubnetFile == "" {
		return subnet.Pair[netip.Prefix]{}
	}
	env, err := envfile.Read(o.SubnetFile)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		klog.InfoS("The env file of an earlier run is not all of use", "path", o.SubnetFile, "reason", err)
	}
	return env.Want(cfg)
}
