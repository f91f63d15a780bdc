package network

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/backend"
	"github.com/tulle-net/tulle/backend/move"
	"github.com/tulle-net/tulle/pkg/hostif"
	"github.com/tulle-net/tulle/pkg/identity"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/trouble"
	"github.com/tulle-net/tulle/subnet"
)

// readConfigs waits for the store's config, and for every later one.
func (a *Agent) readConfigs() {
	reading := trouble.Outcome{Failed: "Failed to read the network config; retrying", Works: "Read the network config again"}
	var known subnet.Config
	for failures := 0; ; {
		cfg, err := a.Store.Config(a.ctx, known)
		if a.ctx.Err() != nil {
			return
		}
		reading.Was(err)
		if err != nil {
			failures++
			backoff.Sleep(a.ctx, failures)
			continue
		}
		known, failures = cfg, 0
		a.call(a.ctx, func() { a.configured(cfg) })
	}
}

// configured applies the store's config.
func (a *Agent) configured(cfg subnet.Config) {
	first := !a.stored
	a.stored = true
	a.stopWaiting(onConfig)
	if a.pending = (subnet.Config{}); a.stopWaiting(onRestart) && cfg == a.config {
		klog.InfoS("Network config reverted, no restart needed")
	}
	switch {
	case cfg == a.config:
		a.refresh() // the store has answered
	case a.own == (subnet.Lease{}) || first:
		a.enforce(cfg)
	default:
		a.reconfigured(cfg)
	}
}

// enforce makes cfg the config in force.
func (a *Agent) enforce(cfg subnet.Config) {
	klog.InfoS("Applying the network config", "networks", valid(cfg.Networks()), "backend", cfg.Backend.Type)
	before := a.config.Networks()
	a.carry(cfg)
	a.config = cfg
	if a.hinted && (a.following.done == nil || before != cfg.Networks()) {
		a.follow()
	}
	a.refresh()
}

// reconfigured applies a config that changed while the network runs. A change that
// would cost the containers their addresses, or this node its peers, waits until a
// person restarts the daemon.
func (a *Agent) reconfigured(cfg subnet.Config) {
	why := ""
	switch err := a.checkBackend(cfg); {
	case !cfg.Allows(a.own.Subnets):
		why = fmt.Sprintf("the changed config does not allow this node's subnet %s", a.own.Key())
	case err != nil:
		why = "the changed config cannot be used here: " + err.Error()
	default:
		a.enforce(cfg)
		return
	}
	a.pending = cfg
	a.await(onRestart, "restart needed: "+why)
	klog.InfoS("Network config changed, restart needed; keeping the previous one", "reason", why)
}

// checkBackend returns why cfg has no backend here. It runs no command of cfg.
func (a *Agent) checkBackend(cfg subnet.Config) error {
	_, err := a.makeBackendWith(cfg, a.offload.checksums, nil)
	return err
}

// hint applies what the store knows of this host.
func (a *Agent) hint(spec hostif.Spec) {
	a.call(a.ctx, func() {
		a.Uplinks, a.hinted = spec, true
		if a.config != (subnet.Config{}) {
			a.follow()
		}
	})
}

// follow watches the host's uplinks.
func (a *Agent) follow() {
	spec := a.Uplinks
	spec.Networks, spec.Last = a.config.Networks(), a.published().PublicIP
	spec.Bridges = slices.Sorted(maps.Keys(bridgeFixes))
	a.await(onUplink, "choosing the uplink")
	a.restart(&a.following, func(ctx context.Context) {
		err := hostif.Follow(ctx, a.Kernel, spec, func(h hostif.Interfaces, err error) {
			a.call(ctx, func() { a.hostChanged(h, err) })
		})
		if ctx.Err() == nil {
			// Options were checked before: only the config can cause this error.
			a.call(ctx, func() { a.await(onUplink, err.Error()) })
			klog.ErrorS(err, "Failed to choose the uplink")
		}
	})
}

// hostChanged applies the host's present interfaces. err is why a family that is on
// has no uplink, or has lost it.
func (a *Agent) hostChanged(h hostif.Interfaces, err error) {
	before := a.host
	a.host = h
	a.stopWaiting(onUplink)
	if err != nil {
		a.await(onUplink, err.Error())
	}
	a.show()
	_, asks := a.backends.Router()
	if asks || a.backends.IsZero() || a.waiting[onBackend] != "" || !before.OnlyGateways(h) {
		a.refresh()
	}
	a.checkBridges()
}

// show makes Presence answer at this host's addresses. It does so before the node
// leases a subnet: a copy that loses the race for the lease asks right then.
func (a *Agent) show() {
	if a.Presence == nil {
		return
	}
	var at []netip.Addr
	for f, u := range a.host.Uplinks {
		if a.config.Pools[f].IsValid() && u.IsValid() {
			at = append(at, u.Address)
		}
	}
	a.Presence.Set(at, identity.Keys(a.Node))
}

// hasUplinks reports whether the host has an uplink in every family that is on.
func (a *Agent) hasUplinks() bool {
	for f, p := range a.config.Pools {
		if p.IsValid() && !a.host.Uplinks[f].IsValid() {
			return false
		}
	}
	return a.config != (subnet.Config{})
}

// makeBackend returns the backend of cfg for the present host.
func (a *Agent) makeBackend(cfg subnet.Config) (backend.Backend, error) {
	return a.makeBackendFor(cfg, a.offload.checksums)
}

// makeBackendFor is makeBackend on a host with these checksums.
func (a *Agent) makeBackendFor(cfg subnet.Config, known backend.Checksums) (backend.Backend, error) {
	return a.makeBackendWith(cfg, known, a.Prepare)
}

// makeBackendWith is makeBackendFor with another Prepare.
func (a *Agent) makeBackendWith(cfg subnet.Config, known backend.Checksums, prepare func(string, time.Duration) (string, error)) (backend.Backend, error) {
	factory := a.Backends[cfg.Backend.Type]
	if factory == nil {
		return nil, UnknownBackend(cfg, a.Backends)
	}
	published := a.published().Attrs
	if as, ok := published.As(cfg.Backend.Type); ok {
		published = as
	}
	h := backend.HostFacts{NodeID: a.Node.ID, Checksums: known, OnLink: a.host.OnLink, Tunnels: a.host.Tunnels, Published: published, KernelWireGuard: a.KernelWireGuard, Prepare: prepare}
	if a.Keys != nil {
		h.WireGuardKeys = func() (backend.WireGuardKeys, error) {
			s, err := a.Keys.State(a.Node.Instance)
			return backend.WireGuardKeys{Device: s.Device, Published: s.Published, Second: s.Second}, err
		}
	}
	h.SecondTunnel, h.KeepSecondTunnel = a.rotation.offered, !a.listed
	for f, u := range a.host.Uplinks {
		if cfg.Pools[f].IsValid() {
			h.Uplinks[f] = backend.Uplink{
				Link: u.Link, MTU: u.MTU, Address: u.Address, Public: u.Public, Gateway: a.host.Gateways[f],
				TakesRouterAdvertisements: u.TakesRouterAdvertisements,
			}
		}
	}
	b, err := factory(cfg, h)
	if keyed, ok := b.(backend.Keyed); ok && err == nil && a.AddPSK != nil && keyed.PresharedKey() != (backend.Secret{}) {
		err = a.AddPSK(keyed.PresharedKey().Reveal())
	}
	if c, ok := b.(backend.Confiner); ok && err == nil && a.Unfiltered != "" && c.Confined() != (subnet.Pair[[2]string]{}) {
		err = &subnet.ConfigError{
			Key: "Backend.Strict", Value: "true", Why: "it needs firewall rules, and this host writes none: " + a.Unfiltered,
			Fix: "set another value on this host, or Strict to false for the network; then packets may leave unencrypted where another route leads",
		}
	}
	return b, err
}

// published returns what the peers know of this node.
func (a *Agent) published() subnet.Lease {
	if a.own == (subnet.Lease{}) {
		return a.before
	}
	return a.own
}

// UnknownBackend returns the error for a backend that is not among backends.
func UnknownBackend(cfg subnet.Config, backends map[string]backend.Factory) error {
	return &subnet.ConfigError{
		Key: "Backend.Type", Value: cfg.Backend.Type, Why: "unknown backend",
		Fix: "set it to one of " + strings.Join(slices.Sorted(maps.Keys(backends)), ", "),
	}
}

// refresh computes what follows from config, host and lease after one of them
// changed.
func (a *Agent) refresh() { a.refreshBy(nil) }

// refreshBy is refresh with the next step of a move. Without one, the move stays where it
// is: the kernel does not have yet what follows from the change.
func (a *Agent) refreshBy(plan *move.Plan) {
	if !a.hasUplinks() {
		return
	}
	b, err := a.makeBackends()
	if err != nil {
		if news := a.await(onBackend, err.Error()); errors.Is(err, netstate.ErrUnfinished) {
			if news {
				klog.InfoS("Backend not set up yet", "reason", err)
			}
		} else if news {
			klog.ErrorS(err, "Failed to set up the backend; waiting for another config or a change of the host")
		}
		return
	}
	if a.stopWaiting(onBackend) {
		klog.InfoS("Backend can be set up now")
	}
	a.backends = b
	if plan == nil {
		still := a.planMove(false)
		plan = &still
	}
	a.moving.plan = *plan
	claim := subnet.Claim{Attrs: a.attrs(*plan), Want: a.want()}
	if a.own != (subnet.Lease{}) && a.config.Allows(a.own.Subnets) {
		own := a.own
		own.Attrs = claim.Attrs
		a.settle(own)
	}
	if a.stored && (a.keeping.done == nil || claim.Attrs != a.claim.Attrs) {
		a.keep(claim)
	}
}
