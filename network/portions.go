package network

import (
	"context"
	"time"

	"github.com/tulle-net/tulle/pkg/reconcile"
	"github.com/tulle-net/tulle/subnet"
)

// portion is how many peers of a first list are applied at once. The kernel writes them
// while the next portion is computed. Larger portions take more memory, and less of it
// stays in the processor's caches.
const portion = 250

// portionTime is the time limit of the kernel for a portion. It is thousands of times
// what a portion usually takes, and still many times that on an overloaded host. A
// kernel that takes longer is stuck.
const portionTime = 10 * time.Second

// portions are what is left of an update from the store.
type portions struct {
	updates  []subnet.Update
	complete bool // with the last one, all peers are known
}

// split splits an update from the store into portions for applyNext. Only a large first
// list has more than one.
func (p *peerSet) split(u subnet.Update) *portions {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := &portions{p.table.Portions(u, portion), u.Complete}
	p.count(all)
	return all
}

// splitRemembered splits the peers of an earlier run for applyNext. They need not be all
// peers that there are now.
func (p *peerSet) splitRemembered(leases []subnet.Lease) *portions {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := &portions{updates: p.table.Portions(subnet.Update{Complete: true, Leases: leases}, portion)}
	for i := range all.updates {
		all.updates[i].Complete = false
	}
	p.count(all)
	return all
}

// count records how many leases come in a moment. The caller holds mu.
func (p *peerSet) count(all *portions) {
	p.left = 0
	for _, u := range all.updates {
		p.left += len(u.Leases)
	}
}

// applyNext applies the next portion, and reports whether more are left. Leases that are
// gone linger until DropLingering.
func (p *peerSet) applyNext(from *portions) (more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := from.updates[0]
	from.updates = from.updates[1:]
	more = len(from.updates) > 0
	p.left -= len(u.Leases)
	changes := p.table.Apply(u)
	p.put(changes, p.workOn(changes), func(d *reconcile.Desired) {
		d.Expect(p.left) // an upper bound
		if from.complete && !more {
			d.Complete()
		}
	})
	return more
}

// giveUp records that the portions that are left do not come.
func (p *peerSet) giveUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = 0
	p.desired.Update(func(d *reconcile.Desired) { d.Expect(0) })
}

// pace calls next until it returns false. It waits after each portion until the kernel
// has taken it, so that little more than two are in progress. A kernel that is stuck does
// not delay the rest.
func pace(ctx context.Context, loop *reconcile.Reconciler, next func() (more bool)) {
	for stuck := false; next(); {
		if stuck {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, portionTime)
		stuck = loop.WaitTaken(limited) != nil
		cancel()
	}
}

// updatePeers passes an update of the store to the peers. Run's goroutine gets one portion
// after the other, and is free while the kernel is slow. The peers of an earlier run come
// first.
func (a *Agent) updatePeers(ctx context.Context, u subnet.Update) {
	select {
	case <-a.recalled:
	case <-ctx.Done():
		return
	}
	var left *portions // for Run's goroutine alone
	done := false
	pace(ctx, a.loop, func() (more bool) {
		more, done = callAndWait(ctx, a, func() bool {
			if left == nil {
				a.findTwins(u) // before the peers own the leases
				left = a.peers.split(u)
			}
			return a.updateNext(left)
		})
		return more
	})
	if !done {
		a.call(a.ctx, a.peers.giveUp) // another watch follows
	}
}

// buryAfter schedules the next DropLingering.
func (a *Agent) buryAfter(wait time.Duration) {
	a.burying = true
	a.bury.Reset(wait)
}

// updateNext applies the next portion of an update.
func (a *Agent) updateNext(left *portions) (more bool) {
	before := a.peers.Lingered()
	more = a.peers.applyNext(left)
	if a.peers.Lingered() > before {
		switch gap := left.complete && a.listed; {
		case gap:
			a.buryAfter(lingerAfterGap)
		case !a.burying:
			a.buryAfter(linger)
		}
	}
	if left.complete && !more && !a.listed {
		a.listed = true
		a.stopWaiting(onList)
	}
	a.followOffers()
	a.saveSoon()
	return more
}
