package network

import (
	"context"
	"net/netip"
	"slices"

	"github.com/tulle-net/tulle/pkg/firewall"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/subnet"
)

// Firewall keeps rules in the host's firewall, and restores them after foreign
// changes.
type Firewall interface {
	Want(r firewall.Rules)
	Status() firewall.Status
	// Await waits until everything that is wanted was tried.
	Await(ctx context.Context) error
	// Dropped returns how many packets the rules that confine have dropped.
	Dropped(ctx context.Context) (packets uint64, known bool)
	Run(ctx context.Context)
}

// filter passes the rules for config and lease to the firewall.
func (a *Agent) filter() {
	r := a.Rules
	r.Exempt = slices.Concat(r.Exempt, a.exempted)
	r.Networks, r.Own = a.config.Networks(), a.own.Subnets
	r.NFTables = a.config.EnableNFTables
	r.Confined = a.backends.Confined(a.own.BackendType)
	a.Firewall.Want(r)
	a.confining.Store(r.Confined != subnet.Pair[[2]string]{})
}

// confined is the kernel as the loop changes it. While packets are confined, it changes
// nothing before the rules for that were tried. So no change of a route or a device can
// open another way for them.
type confined struct{ *Agent }

// Dump implements reconcile.Kernel.
func (k confined) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	return k.Kernel.Dump(ctx, scope)
}

// Watch implements reconcile.Kernel.
func (k confined) Watch(ctx context.Context, to func(netstate.Event)) error {
	return k.Kernel.Watch(ctx, to)
}

// Apply implements reconcile.Kernel.
func (k confined) Apply(ctx context.Context, p netstate.Plan) error {
	if k.confining.Load() {
		if err := k.Firewall.Await(ctx); err != nil {
			return err
		}
	}
	return k.Kernel.Apply(ctx, p)
}

// setExempted sets further networks that see the containers' own addresses.
func (a *Agent) setExempted(all []netip.Prefix) {
	a.call(a.ctx, func() {
		a.exempted = all
		if a.own != (subnet.Lease{}) {
			a.filter()
		}
	})
}
