package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// watch receives the kernel's events, and restarts the watch when it fails.
func (r *Reconciler) watch(ctx context.Context) {
	for {
		err := r.kernel.Watch(ctx, r.event)
		if ctx.Err() != nil {
			return
		}
		r.watchFailed(err)
		if retry.Sleep(ctx, rewatch) != nil {
			return
		}
	}
}

func (r *Reconciler) watchFailed(err error) {
	if err == nil {
		err = errors.New("the watch ended by itself")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.watch.Was(err)
}

// event handles one event. It changes nothing in the kernel: it marks what the loop
// has to check.
func (r *Reconciler) event(e netstate.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.watch.Was(nil)
	now := time.Now()
	switch o := e.Object.(type) {
	case nil:
		r.links = make(map[string]netstate.Link)
		r.watching = true
		if r.report.resyncs == 0 {
			r.resync.want(now, budget.Link) // the first, which waits for the watch
		} else {
			r.resync.want(now.Add(settle), budget.Link)
		}
	case netstate.Command:
		// Its step, if it waits for the end of the command, can ask again.
		if f := r.queue.failed[o.Key()]; f != nil {
			r.queue.hurry(f, now)
		}
	case netstate.Link:
		r.linkEvent(o, e.Gone, now)
	case netstate.Addr:
		own := r.desired.own(o.Link)
		if own {
			r.objectEvent(o, e.Gone, now)
		}
		// The last address of a link takes its routes with it.
		switch {
		case own && e.Gone:
			r.resync.want(now.Add(lead), budget.Addr)
		case !own && r.desired.links[o.Link] > 0:
			r.resync.want(now.Add(settle), budget.Addr)
		}
	default:
		r.objectEvent(o, e.Gone, now)
	}
	r.refresh()
	r.wake.Wake()
}

// linkEvent handles a link's event. Links lose what is on them without an event for
// each, so a change of one that matters causes a full resync.
func (r *Reconciler) linkEvent(l netstate.Link, gone bool, now time.Time) {
	if r.desired.links[l.Name] == 0 {
		if !gone && strings.HasPrefix(l.Name, netstate.LinkPrefix) {
			r.strays, r.resync.alarm = true, true // one of ours that no owner wants
			r.resync.want(now.Add(settle), budget.Single)
		}
		if gone {
			r.hurryLinks(now)
		}
		return
	}
	k := l.Key()
	if want, ours := r.desired.state.Get(k); ours {
		if l.WireGuard == (netstate.WireGuard{}) {
			l.WireGuard = want.(netstate.Link).WireGuard // which no event of the kernel shows
		}
		if !gone && want == l {
			return
		}
		r.resync.alarm = true
		r.resync.want(now.Add(lead), budget.Link)
		r.markAiling(l.Name, now)
		return
	}
	was, known := r.links[l.Name]
	if gone {
		delete(r.links, l.Name)
	} else {
		r.links[l.Name] = l
	}
	if gone || !known || was != l {
		r.resync.want(now.Add(settle), budget.Link)
	}
}

// hurryLinks soon retries links that a foreign link blocked: that may be the one that
// has just disappeared.
func (r *Reconciler) hurryLinks(now time.Time) {
	for name := range r.desired.links {
		f := r.queue.failed[netstate.Link{Name: name}.Key()]
		if f == nil || !errors.Is(f.err, fs.ErrExist) {
			continue
		}
		if at := later(now.Add(lead), r.turn(now, budget.Link)); at.Before(f.retry) {
			r.queue.hurry(f, at)
		}
	}
}

// objectEvent marks an object that differs from what is desired.
func (r *Reconciler) objectEvent(o netstate.Object, gone bool, now time.Time) {
	if _, ailing := r.ailing[netstate.LinkOf(o)]; ailing {
		return // a resync will see it
	}
	k := o.Key()
	want, wanted := r.desired.state.Get(k)
	switch {
	case wanted && (gone || want != o):
		t := task{verb: netstate.Create, drift: true}
		switch _, route := o.(netstate.Route); {
		case gone:
		case marked(o):
			t.verb = netstate.Replace
			if route {
				// It may have replaced another of ours, and the kernel does not
				// report what was replaced.
				r.resync.want(now.Add(settle), budget.Single)
			}
		case r.desired.state.Placed(k):
			// It came after ours. If ours is still there, beside it, the kernel
			// refuses the step.
			t.verb = netstate.Replace
		}
		r.drift(k, t, gone, now)
	case !wanted && !gone && r.stray(o):
		if r.desired.complete {
			r.drift(k, task{verb: netstate.Replace, gone: o, drift: true}, gone, now)
		}
		r.strays = true
	default:
		r.queue.drifted.calm(k)
	}
}

// stray reports whether an object that no owner wants is one of ours.
func (r *Reconciler) stray(o netstate.Object) bool {
	switch o := o.(type) {
	case netstate.Sysctl:
		return false
	case netstate.Route:
		return marked(o)
	default:
		return r.desired.own(netstate.LinkOf(o))
	}
}

// marked reports whether an object with a key of ours is ours itself. Only routes
// can be foreign.
func marked(o netstate.Object) bool {
	r, isRoute := o.(netstate.Route)
	return !isRoute || r.Protocol == 0
}

// drift marks a key that another program changed. One that blocked a step of ours and
// is gone needs no more waiting.
func (r *Reconciler) drift(k netstate.Key, t task, gone bool, now time.Time) {
	r.queue.drift(k, t, now)
	if f := r.queue.failed[k]; f != nil && gone && errors.Is(f.err, fs.ErrExist) {
		r.queue.hurry(f, now)
	}
}
