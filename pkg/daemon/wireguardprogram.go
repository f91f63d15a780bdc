package daemon

import (
	"context"
	"path/filepath"
	"sync"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/companion"
	"github.com/tulle-net/tulle/pkg/dataplane/wireguard"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// newWireGuardPrograms returns the engine of links whose packets tulle-wireguard moves.
func newWireGuardPrograms(o options.Options, version string, keys *wgkey.Store) *wireguard.Engine {
	return wireguard.New(wireguard.Options{
		Dir: filepath.Join(o.StateDir, "wireguard"), Secrets: keys, By: "WireGuard in user space",
		Keep: func(s companion.Spec, changed func()) wireguard.Process {
			return companion.NewKeeper(s, version, changed)
		},
	})
}

// kernelWireGuard returns what reports whether the kernel has wireguard devices. It asks
// once: a module that appears later must not move the network of a running daemon.
func kernelWireGuard(k *kernel.Kernel) func() bool {
	return sync.OnceValue(func() bool {
		err := k.HasWireGuard()
		if err != nil {
			klog.InfoS("Running WireGuard in user space, because the kernel has none", "program", "tulle-wireguard", "reason", err)
		}
		return err == nil
	})
}

// sessions reads the encrypted sessions of links of the kernel and of programs.
type sessions struct {
	kernel  *kernel.Kernel
	tunnels *wireguard.Engine
}

func (s sessions) read(ctx context.Context, links []string) (netstate.Sessions, error) {
	all, err := s.kernel.Sessions(ctx, links)
	if err != nil {
		return all, err
	}
	more, err := s.tunnels.Sessions(ctx, links)
	all.Peers = append(all.Peers, more...)
	return all, err
}
