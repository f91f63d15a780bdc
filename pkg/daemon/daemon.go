// Package daemon wires the rooms of the house to the daemon of one node.
package daemon

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/network"
	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/dataplane"
	"github.com/tulle-net/tulle/pkg/dataplane/links"
	"github.com/tulle-net/tulle/pkg/dataplane/udp"
	"github.com/tulle-net/tulle/pkg/dataplane/wireguard"
	"github.com/tulle-net/tulle/pkg/keepfile"
	"github.com/tulle-net/tulle/pkg/kernel"
	"github.com/tulle-net/tulle/pkg/options"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/runner"
	"github.com/tulle-net/tulle/pkg/status"
	"github.com/tulle-net/tulle/pkg/systemd"
	"github.com/tulle-net/tulle/pkg/wgkey"
)

// Run runs the daemon of this host's part of the network until SIGTERM or SIGINT.
func Run(o options.Options, version string, backends map[string]backend.Factory) error {
	if err := CheckPrivileges(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP) // from now on it does not end the daemon
	defer signal.Stop(hangups)
	logStart(o, version)
	pages := saveMemory(o.Health.Pprof)
	toSystemd, toNode := retry.NewWakeup(), retry.NewWakeup()
	poke := func() {
		toSystemd.Wake()
		toNode.Wake()
	}
	etcd, err := keepEtcd(ctx, &o, version, poke)
	if err != nil {
		return err
	}
	if etcd != nil {
		defer etcd.end()
		defer stop()
		etcd.await(ctx)
	}
	k, err := kernel.New("")
	if err != nil {
		return fmt.Errorf("open netlink: %w", err)
	}
	defer k.Close()
	store, err := openNodeStore(ctx, o)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	defer store.Close()
	defer store.presence.Close()

	if etcd != nil {
		etcd.seed(ctx, store.Store, o)
	}
	keys := newWireGuardKeys(o.StateDir, store.node.ID)
	k.UseSecrets(keys)
	packets := udp.New()
	defer packets.CloseAll()
	tunnels := newWireGuardPrograms(o, version, keys)
	defer tunnels.Leave()
	responder := newResponder(o.Probes)
	defer responder.Close()
	commands, prepared := newRunner(o)
	agent := newAgent(o, store, k, packets, tunnels, commands, keys, backends, responder, pages.limit, poke)
	agent.Prepare, agent.Prepared = commands.Prepare, prepared
	// The socket has a keeper of its own: its failures make no node unready.
	socket := keepfile.New(budget.New().Files())
	report := reporter{agent, o, version, store, store.is, etcd, socket, packets, commands, time.Now()}
	var running sync.WaitGroup
	serveReports(ctx, &running, report)
	running.Go(func() { commands.Run(ctx) })
	is := condition{agent, store, etcd}
	if store.nodes != nil {
		running.Go(func() { nodeReporter{is, store.nodes, o.Kube.SetNetworkUnavailable}.run(ctx, toNode) })
	}
	service := systemd.New(is)
	running.Go(func() { service.Run(ctx, toSystemd) })
	running.Go(func() {
		onHangup(ctx, hangups, func() { service.Reload(func() { reload(store, agent) }) })
	})
	agent.Run(ctx)
	service.Stop()
	klog.InfoS("Stopping; the network stays as it is")
	running.Wait()
	return nil
}

// serveReports starts the servers of the status socket and of HTTP. They run until ctx ends.
func serveReports(ctx context.Context, running *sync.WaitGroup, r reporter) {
	if path := r.options.StatusSocket; path != "" {
		running.Go(func() { status.Serve(ctx, path, options.Name("status-socket"), r.socket, r) })
	}
	running.Go(func() { serveWeb(ctx, r.options.Health, r) })
}

// newAgent returns the agent of this node. It calls changed whenever its state changes.
func newAgent(o options.Options, store nodeStore, k *kernel.Kernel, packets *udp.Engine, tunnels *wireguard.Engine, commands *runner.Runner, keys *wgkey.Store, backends map[string]backend.Factory, responder *probe.Responder, trim, changed func()) *network.Agent {
	healing := budget.New()
	return network.New(network.Options{
		Store: store, Kernel: plane{dataplane.New(links.New(links.New(k, packets), tunnels), commands), k}, Healing: healing.Kernel(), Files: keepfile.New(budget.New().Files()),
		Backends: backends, Keys: keys, AddPSK: func(key string) error { _, err := keys.AddPSK(key); return err }, KernelWireGuard: kernelWireGuard(k), Sessions: sessions{k, tunnels}.read,
		Node: store.node, Identity: store.identity, Presence: store.presence, Lives: store.asks(),
		LeaseEnds: func() time.Time { return store.Status().LeaseEnds },
		Uplinks:   store.uplinks, Hints: store.hints(o.Uplink),
		Outputs: network.Outputs{
			SubnetFile: o.SubnetFile, CNIConfFile: o.CNIConfFile,
			StateDir: o.StateDir, Network: store.network,
			IPMasq: o.Filtering.Masquerades(), Blackhole: o.BlackholeRoute,
		},
		Firewall: newFirewall(o.Filtering, healing.Firewall(), changed), Rules: wantedRules(o.Filtering), Unfiltered: unfiltered(o.Filtering), Exemptions: exemptions(o.Filtering.ExemptFile),
		Prober: newProber(o.Probes), Responder: responder,
		Trim: trim, Changed: changed,
	})
}

// logStart logs the options, and what is unsafe in them.
func logStart(o options.Options, version string) {
	klog.InfoS("Starting tulled", "version", version, "options", o.String())
	for _, warning := range o.Warnings {
		klog.InfoS("Option without effect, or unsafe", "warning", warning)
	}
	for _, warning := range o.Exposed() {
		klog.InfoS("Secret is open to other users", "warning", warning)
	}
}

// onHangup calls do at each SIGHUP, until ctx ends.
func onHangup(ctx context.Context, hangups <-chan os.Signal, do func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
			do()
		}
	}
}

// reload makes the daemon read its files again and run a full resync.
func reload(store Store, agent *network.Agent) {
	klog.InfoS("Reloading files, and resyncing the kernel")
	if err := store.Reload(); err != nil {
		klog.ErrorS(err, "Failed to reload; keeping what was read before")
	}
	agent.Reload()
}
