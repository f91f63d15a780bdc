package reconcile

import (
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
)

const (
	// patience is how often in a row a key is healed without delay.
	patience = 20
	// peace is how long a key has to be left alone for the counting to begin
	// anew.
	peace = 2 * lastRetry
)

// errFought is why a key that could be healed is left for a while.
var errFought = errors.New("another program keeps changing it; «ip monitor» shows when, and networkd, NetworkManager or a second network daemon are likely")

// fights counts how often in a row each key had to be healed by itself, which
// is once for each time that others changed it. What a link takes along when
// it goes does not count.
type fights map[netstate.Key]fight

type fight struct {
	count       int
	since, last time.Time
}

func (f fights) count(k netstate.Key, now time.Time) {
	x := f[k]
	if now.Sub(x.last) > peace {
		x = fight{since: now}
	}
	x.count++
	x.last = now
	f[k] = x
}

// tired says whether a key has been healed too often.
func (f fights) tired(k netstate.Key, now time.Time) bool {
	x := f[k]
	return x.count >= patience && now.Sub(x.last) <= peace
}

func (f fights) prune(now time.Time) {
	for k, x := range f {
		if now.Sub(x.last) > peace {
			delete(f, k)
		}
	}
}

// callTruce leaves a key to others for a while: not even a resync touches it,
// or what is on it if it is a link, before its turn comes.
func (r *Reconciler) callTruce(k netstate.Key, t task, now time.Time) {
	t.fought = true
	rounds := r.fights[k].count - patience + 1
	if rounds == 1 {
		klog.ErrorS(errFought, "Leaving to others for a while what they keep changing", "key", k.String())
	}
	r.queue.calm(k)
	r.queue.postpone(&failure{
		key: k, task: t, err: errFought, attempts: rounds, told: true,
		since: r.fights[k].since, retry: now.Add(backoff(rounds)),
	})
}

// respect takes from a resync's plan what is left for later: because of a truce
// with those who keep changing it or its link, or because that which takes over
// from a route is not made for one.
func (r *Reconciler) respect(p *pass) {
	now := time.Now()
	for _, op := range p.plan {
		k := op.Object.Key()
		_, due := p.tasks[k]
		if k.Kind == netstate.KindLink && !due && r.fights.tired(k, now) && !r.truceOf(k) {
			r.callTruce(k, task{verb: op.Verb, drift: true}, now)
		}
	}
	p.plan = slices.DeleteFunc(p.plan, func(op netstate.Op) bool {
		if r.truceOf(op.Object.Key()) || r.truceOn(op.Object) {
			return true
		}
		twin, ok := r.desired.twin(op.Object)
		return op.Verb == netstate.Delete && ok && r.truceOf(twin)
	})
}

// truceOf says whether a key is left to others at present.
func (r *Reconciler) truceOf(k netstate.Key) bool {
	f := r.queue.failed[k]
	return f != nil && f.task.fought && f.place != underWay
}

// truceOn says whether an object is on a link that is left to others.
func (r *Reconciler) truceOn(o netstate.Object) bool {
	on := netstate.LinkOf(o)
	return on != "" && r.truceOf(netstate.Link{Name: on}.Key())
}
