package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// watch takes the kernel's events, and begins anew when they fail.
func (r *Reconciler) watch(ctx context.Context) {
	for {
		err := r.kernel.Watch(ctx, r.event)
		if ctx.Err() != nil {
			return
		}
		r.watchFailed(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rewatch):
		}
	}
}

func (r *Reconciler) watchFailed(err error) {
	if err == nil {
		err = errors.New("the watch ended by itself")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.report.watchErr == nil {
		klog.ErrorS(err, "Lost the watch on the kernel; beginning anew")
	}
	r.report.watchErr = err
}

// event takes one event. It changes nothing in the kernel: it marks what the
// loop has to look at.
func (r *Reconciler) event(e netstate.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.report.watchErr != nil {
		klog.InfoS("Watching the kernel again")
		r.report.watchErr = nil
	}
	now := time.Now()
	switch o := e.Object.(type) {
	case nil:
		r.links = make(map[string]netstate.Link)
		r.watching = true
		if r.report.resyncs == 0 {
			r.resync.want(now) // the first, which waits for the watch
		} else {
			r.resync.want(now.Add(settle))
		}
	case netstate.Link:
		r.linkEvent(o, e.Gone, now)
	case netstate.Addr:
		own := r.desired.own(o.Link)
		if own {
			r.objectEvent(o, e.Gone, now)
		}
		if !own && r.desired.links[o.Link] > 0 || own && e.Gone {
			// The last address of a link takes its routes along.
			r.resync.want(now.Add(settle))
		}
	default:
		r.objectEvent(o, e.Gone, now)
	}
	r.refresh()
	r.kick()
}

// linkEvent: links lose what is on them without an event for each, so a change
// of one that matters is a reason to look at everything.
func (r *Reconciler) linkEvent(l netstate.Link, gone bool, now time.Time) {
	if r.desired.links[l.Name] == 0 {
		if !gone && strings.HasPrefix(l.Name, netstate.LinkPrefix) {
			r.strays, r.resync.alarm = true, true // one of ours that nobody wants
			r.resync.want(now.Add(settle))
		}
		return
	}
	k := l.Key()
	if want, ours := r.desired.state.Get(k); ours {
		if !gone && want == l {
			return
		}
		r.resync.alarm = true
		r.resync.want(now.Add(settle))
		return
	}
	was, known := r.links[l.Name]
	if gone {
		delete(r.links, l.Name)
	} else {
		r.links[l.Name] = l
	}
	if gone || !known || was != l {
		r.resync.want(now.Add(settle))
	}
}

// objectEvent marks an object that is not, or no longer, as it should be.
func (r *Reconciler) objectEvent(o netstate.Object, gone bool, now time.Time) {
	k := o.Key()
	want, wanted := r.desired.state.Get(k)
	switch {
	case r.truceOn(o):
	case wanted && (gone || want != o):
		t := task{verb: netstate.Create, drift: true}
		if !gone && marked(o) {
			t.verb = netstate.Replace
			if _, route := o.(netstate.Route); route {
				// Whoever put it there may have replaced another of ours, and
				// the kernel says nothing of what was replaced.
				r.resync.want(now.Add(settle))
			}
		}
		r.drift(k, t, gone, now)
	case !wanted && !gone && r.stray(o):
		if r.desired.complete {
			r.drift(k, task{verb: netstate.Replace, gone: o, drift: true}, gone, now)
		}
		r.strays = true
	default:
		r.queue.calm(k)
	}
}

// stray says whether an object that nobody wants is one of ours.
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

// marked says whether an object with a key of ours is ours itself. Only routes
// can be another's.
func marked(o netstate.Object) bool {
	r, isRoute := o.(netstate.Route)
	return !isRoute || r.Protocol == 0
}

// drift has a key healed once the burst of events is over, or later where
// another keeps changing it.
func (r *Reconciler) drift(k netstate.Key, t task, gone bool, now time.Time) {
	f := r.queue.failed[k]
	switch {
	case f != nil && gone && errors.Is(f.err, fs.ErrExist):
		r.queue.drift(k, t, now)
		r.queue.hurry(f, now) // what was in the way has gone
	case f == nil && r.fights.tired(k, now):
		r.callTruce(k, t, now)
	default:
		r.queue.drift(k, t, now)
	}
}
