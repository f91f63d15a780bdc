package network

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

// keep leases a subnet for claim, and holds it. It replaces the previous claim.
func (a *Agent) keep(claim subnet.Claim) {
	a.claim, a.claiming = claim, true
	held := a.own
	held.Attrs, held.Revision = claim.Attrs, 0
	// The config that waits for a restart would give this node another subnet.
	only := a.pending != (subnet.Config{})
	a.restart(&a.keeping, func(ctx context.Context) {
		for failures := 0; ctx.Err() == nil; failures++ {
			if failures > 0 {
				backoff.Sleep(ctx, failures)
			}
			own, err := held, error(nil)
			if !only {
				own, err = a.Store.Acquire(ctx, claim)
			}
			if a.forks(ctx, claim, err) {
				return // fork has restarted it
			}
			if err != nil {
				a.call(ctx, func() { a.leaseless(err) })
				continue
			}
			stored := !only
			if taken, _ := callAndWait(ctx, a, func() bool { return a.takeLease(own, stored) }); !taken {
				continue
			}
			since := time.Now()
			err = a.Store.Hold(ctx, own)
			if time.Since(since) > longHeld {
				failures = 0
			}
			a.call(ctx, func() { a.lost(own, err) })
			if a.forks(ctx, claim, err) {
				return // fork has restarted it
			}
			claim.Want, only = subnet.Pair[netip.Prefix]{}, false
		}
	})
}

const (
	// linger is the shortest time for which a peer stays reachable after its lease
	// disappears; the longest is twice that, and after a gap, lingerAfterGap and linger.
	// Nodes that lost their leases write them again within it.
	linger = 5 * time.Second

	// lingerAfterGap is linger for the leases that a later list of all leases lacks. Such a
	// list follows a gap: the store may have lost its data, and all nodes write to it at the
	// same time.
	lingerAfterGap = 30 * time.Second

	// longHeld is how long a lease must be held to reset the back-off.
	longHeld = time.Minute
)

// backoff is the back-off before another request to the store.
var backoff = retry.Backoff{First: 500 * time.Millisecond, Last: time.Minute}

// leaseless records why there is no lease.
func (a *Agent) leaseless(err error) {
	a.refused = true
	what := "no subnet: "
	if a.own != (subnet.Lease{}) {
		what = "failed to renew or change the lease: "
	}
	if a.await(onLease, what+err.Error()) {
		klog.ErrorS(err, "Failed to lease a subnet; retrying")
	}
}

// takeLease adopts a lease, and reports whether to hold it. stored reports that it is from
// the store.
func (a *Agent) takeLease(own subnet.Lease, stored bool) (taken bool) {
	if !a.config.Allows(own.Subnets) {
		a.takeForeignLease(own)
		return false
	}
	before, remembered, refused := a.own, a.remembered != nil, a.refused
	a.remembered, a.refused = nil, false
	if stored {
		a.confirmed, a.claiming = own.Attrs, false
	}
	switch {
	case before.Subnets == own.Subnets && !remembered && !refused:
	case keeps(own.Subnets, before.Subnets):
		klog.InfoS("Leased a subnet", "subnet", own.Key(), "reservation", own.IsReservation())
	default:
		klog.ErrorS(nil, "SUBNET CHANGED; containers with addresses of the old one are cut off until they are re-created",
			"old", before.Key(), "new", own.Key())
	}
	if a.peers != nil && stored {
		a.peers.confirm(own.Attrs)
	}
	if a.peers == nil || remembered || own.Subnets != before.Subnets || own.Attrs != before.Attrs {
		a.settle(own)
		a.checkBridges()
	}
	if a.since.IsZero() || own.Subnets != before.Subnets {
		a.since = time.Now()
	}
	a.own = own
	if stored {
		a.rotation.stored = own.Attrs
		a.rotation.wake.Wake()
	}
	a.stopWaiting(onLease)
	a.followNotices()
	if a.watching.done == nil {
		first := a.firstNotices
		a.restart(&a.watching, func(ctx context.Context) {
			a.awaitNotices(ctx, first)
			a.watch(ctx)
		})
	}
	return true
}

// keeps reports whether now has all subnets of before.
func keeps(now, before subnet.Pair[netip.Prefix]) bool {
	for f, s := range before {
		if s.IsValid() && now[f] != s {
			return false
		}
	}
	return true
}

// takeForeignLease handles a lease that the config in force does not allow: the store
// has another config. If that config waits for a restart, it is applied now, because
// the subnet that the wait protected is gone. Otherwise its update is on the way. In
// both cases the lease is requested again.
func (a *Agent) takeForeignLease(own subnet.Lease) {
	if a.await(onLease, "no subnet of the config in force: the store leases "+own.Key()) {
		klog.InfoS("Leased a subnet outside the network config; leasing again", "subnet", own.Key())
	}
	if a.pending.Allows(own.Subnets) {
		cfg := a.pending
		a.pending = subnet.Config{}
		a.stopWaiting(onRestart)
		a.enforce(cfg)
	}
}

// lost reports that another node holds our subnet.
func (a *Agent) lost(own subnet.Lease, err error) {
	if err == nil {
		err = errors.New("the lease ended")
	}
	klog.ErrorS(err, "SUBNET LOST; leasing another", "subnet", own.Key())
	a.await(onLease, "lost the subnet "+own.Key()+": "+err.Error())
}

// settle makes own the node's published lease, with the present backend, and updates
// the kernel and the files.
func (a *Agent) settle(own subnet.Lease) {
	a.own = own
	a.filter() // first: what is confined must not leave another way while the rest is done
	if a.peers == nil {
		a.peers = newPeerSet(a.config, own, a.backends, a.loop)
		a.forgetHandshakes()
		a.recallSessions()
		a.peers.responder = a.Responder
		a.recallPeers()
	} else {
		a.forgetHandshakes()
		if a.peers.rehost(a.config, own, a.backends) && a.watching.done != nil {
			a.restart(&a.watching, a.watch)
		}
	}
	a.loop.Update(func(d *reconcile.Desired) { d.Set(lastResort, a.drops()) })
	if a.remembered == nil {
		a.savedAt = time.Time{}
	}
	a.changed()
	if a.Responder != nil {
		a.Responder.Set(valid(a.peers.overlay().from), probe.NewTag(a.Node.Instance))
	}
	a.write()
	if a.remembered != nil {
		a.stopWaiting(onLease)
		a.settleForRemembered()
	}
	a.saveSoon()
}

// lastResort is the owner of the routes that drop packets to own addresses without a
// container.
const lastResort = "last resort"

// drops returns those routes. Every other route to the same addresses precedes them.
func (a *Agent) drops() []netstate.Object {
	var routes []netstate.Object
	for _, s := range a.own.Subnets {
		if a.Outputs.Blackhole && s.IsValid() {
			routes = append(routes, netstate.Route{Dst: s, Drop: true, Metric: math.MaxInt32})
		}
	}
	return routes
}

// watch passes the store's updates to the peers. Each watch begins with a complete
// list.
func (a *Agent) watch(ctx context.Context) {
	for failures := 1; ; failures++ {
		err := a.Store.Watch(ctx, func(u subnet.Update) { a.updatePeers(ctx, u) })
		if ctx.Err() != nil {
			return
		}
		klog.ErrorS(err, "Watch of the leases ended; restarting it")
		backoff.Sleep(ctx, failures)
	}
}

// want returns the subnets that the node prefers: its present ones, else those of an
// earlier run.
func (a *Agent) want() subnet.Pair[netip.Prefix] {
	if a.own != (subnet.Lease{}) {
		return a.own.Subnets
	}
	if a.before != (subnet.Lease{}) {
		return a.before.Subnets
	}
	return a.env.Want(a.config)
}
