package reconcile

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// fightHint helps an operator find the other program of a fight.
const fightHint = "«ip monitor» shows when; networkd, NetworkManager or a second network daemon are likely"

// healed records a step that restored what another program had changed: in the fights,
// in the counts and in the log.
func (r *Reconciler) healed(p *pass, op netstate.Op, k netstate.Key, t task, now time.Time) {
	if k, since, ok := r.culprit(p, op, k, t, now); ok {
		if k.Kind <= netstate.KindAddr {
			r.acquit(k)
		}
		if r.fights.Heal(k, since, now) {
			f, _ := r.fights.Of(k, now)
			klog.InfoS("Another program keeps changing an object; restoring it each time", "key", k.String(),
				"owner", r.desired.state.Owner(k), "rate", budget.Rate(f.Rate), "hint", fightHint)
		}
	}
	r.report.heal(op, k.Kind, r.fought(op.Object) || p.fought[netstate.LinkOf(op.Object)])
}

// culprit returns which key another program has changed, and since when it was wrong,
// after a step has restored k. That key is k, or the link with which k disappeared. ok
// is false if k disappeared with a key that counts already.
func (r *Reconciler) culprit(p *pass, op netstate.Op, k netstate.Key, t task, now time.Time) (key netstate.Key, since time.Time, ok bool) {
	on := netstate.LinkOf(op.Object)
	if since, ailing := p.ailing[on]; ailing {
		delete(p.ailing, on) // counts once
		return netstate.Link{Name: on}.Key(), since, true
	}
	if k.Kind == netstate.KindLink {
		return k, now, true
	}
	shaken, isShaken := p.shaken[on]
	_, asked := p.tasks[k]
	return k, t.since(now), asked && (!isShaken || k.Kind <= shaken)
}

// fought reports whether there is a fight over an object or its link.
func (r *Reconciler) fought(o netstate.Object) bool {
	on := netstate.LinkOf(o)
	return r.fights.Fought(o.Key()) || on != "" && r.fights.Fought(netstate.Link{Name: on}.Key())
}

// acquit ends the fights over keys that disappeared with a link or an address.
func (r *Reconciler) acquit(culprit netstate.Key) {
	r.fights.Acquit(func(k netstate.Key) bool { return k.Kind > culprit.Kind && r.isOn(k, culprit.Name) })
}

// isOn reports whether the object of a key is on a link, or is desired there.
func (r *Reconciler) isOn(k netstate.Key, link string) bool {
	switch k.Kind {
	case netstate.KindLink, netstate.KindAddr, netstate.KindNeigh, netstate.KindFDB,
		netstate.KindWGPeer, netstate.KindWGAllowed, netstate.KindUDPPeer:
		return k.Name == link
	}
	o, wanted := r.desired.state.Get(k)
	return wanted && netstate.LinkOf(o) == link
}

// markAiling records that a link differs from the desired state. The next resync
// restores it and everything on it, so no key there is worth a step before.
func (r *Reconciler) markAiling(link string, now time.Time) {
	if _, known := r.ailing[link]; known {
		return
	}
	r.ailing[link] = now
	if r.queue.drifted.len() > 0 {
		r.queue.drifted.drop(func(k netstate.Key) bool { return r.isOn(k, link) })
	}
}

// sweep logs the fights that are over.
func (r *Reconciler) sweep(now time.Time) {
	for k, f := range r.fights.Sweep(now) {
		klog.InfoS("Other programs no longer change the object", "key", k.String(), "restored", f.Healed, "since", f.Since.UTC().Format(time.RFC3339))
	}
}

// turn returns when drift of a class may be healed.
func (r *Reconciler) turn(now time.Time, c budget.Class) time.Time {
	return r.account.When(now, c, r.turns[c])
}

// wakeUp is the cost of a wake-up for a pass, by an event and by a timer. No clock of
// a thread counts it.
const wakeUp = 60 * time.Microsecond

// pay records the cost of a pass.
func (r *Reconciler) pay(p *pass, cost time.Duration) {
	cost += wakeUp
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for c := range r.turns {
		if p.full || p.drifts[c] > 0 {
			r.turns[c] = now
		}
	}
	drifts := 0
	for _, n := range p.drifts {
		drifts += n
	}
	switch {
	case p.full && (p.called || p.found):
		r.account.Heal(now, cost)
	case p.full:
		r.account.Check(now, cost)
	case drifts > 0:
		r.account.Heal(now, cost*time.Duration(drifts)/time.Duration(len(p.tasks)))
	}
}
