// Package dataplane is a kernel of which engines in user space hold a part: the objects
// of an engine go to it, all others to the kernel. The loop, its healing and its reports
// then treat both alike.
package dataplane

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Holder holds objects. It is what reconcile needs of a kernel. The first event of its
// Watch is one of lost events: it listens from now on.
type Holder interface {
	Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error)
	Apply(ctx context.Context, p netstate.Plan) error
	Watch(ctx context.Context, to func(netstate.Event)) error
}

// Engine is a Holder in user space.
type Engine interface {
	Holder
	// Holds reports whether an object is the engine's.
	Holds(o netstate.Object) bool
}

// Dataplane is a kernel with engines. It is a Holder itself.
type Dataplane struct {
	kernel  Holder
	engines []Engine
}

// New returns the kernel with these engines. An object that two of them hold is the
// first's.
func New(kernel Holder, engines ...Engine) *Dataplane {
	return &Dataplane{kernel: kernel, engines: engines}
}

// holder returns who holds an object.
func (d *Dataplane) holder(o netstate.Object) Holder {
	for _, e := range d.engines {
		if e.Holds(o) {
			return e
		}
	}
	return d.kernel
}

// Dump returns what all hold. If one fails, the whole dump fails: what it holds is
// unknown, and not gone. The error netstate.Unknown says that of a part only, and the dump has
// the rest.
func (d *Dataplane) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	all, err := d.kernel.Dump(ctx, scope)
	unknown, err := netstate.UnknownOf(err)
	if err != nil {
		return nil, err
	}
	for _, e := range d.engines {
		more, err := e.Dump(ctx, scope)
		if err != nil {
			return nil, err
		}
		if len(more) > 0 {
			all = append(without(all, more), more...)
		}
	}
	if unknown != nil {
		return all, unknown
	}
	return all, nil
}

// without returns all without what has a key of more: an engine knows its objects better
// than the kernel, which may show a part of them.
func without(all, more []netstate.Object) []netstate.Object {
	known := make(map[netstate.Key]bool, len(more))
	for _, o := range more {
		known[o.Key()] = true
	}
	rest := make([]netstate.Object, 0, len(all)+len(more))
	for _, o := range all {
		if !known[o.Key()] {
			rest = append(rest, o)
		}
	}
	return rest
}

// Apply carries out a plan in its order, also across holders: an engine makes its device
// before the kernel gets the routes through it.
func (d *Dataplane) Apply(ctx context.Context, p netstate.Plan) error {
	var failed netstate.Failures
	for begin := 0; begin < len(p); {
		holder, end := d.holder(p[begin].Object), begin+1
		for end < len(p) && d.holder(p[end].Object) == holder {
			end++
		}
		var some netstate.Failures
		if err := holder.Apply(ctx, p[begin:end]); err != nil && !errors.As(err, &some) {
			return err
		}
		failed = append(failed, some...)
		begin = end
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// Watch reports the changes of all, until the first Watch ends. Its error is returned.
// The first event is one of lost events, and comes once all are watched.
func (d *Dataplane) Watch(ctx context.Context, to func(netstate.Event)) error {
	ctx, stop := context.WithCancel(ctx)
	var (
		running sync.WaitGroup
		once    sync.Once
		first   error
	)
	begin := beginning{to: to, left: 1 + len(d.engines)}
	watch := func(h Holder) {
		running.Go(func() {
			var listens sync.Once
			err := h.Watch(ctx, func(e netstate.Event) { begin.event(&listens, e) })
			once.Do(func() { first = err })
			stop()
		})
	}
	watch(d.kernel)
	for _, e := range d.engines {
		watch(e)
	}
	running.Wait()
	return first
}

// beginning joins the beginnings of several Watches. What one reports before all listen is
// part of the events that are lost then.
type beginning struct {
	to  func(netstate.Event)
	all atomic.Bool // listen

	mu   sync.Mutex // guards left, and the event of lost ones
	left int        // how many do not listen yet
}

// event handles an event of a Watch, of which listens is done at the first one.
func (b *beginning) event(listens *sync.Once, e netstate.Event) {
	if !b.all.Load() && b.lost(listens) {
		return
	}
	b.to(e)
}

// lost reports whether an event is one of those that are lost.
func (b *beginning) lost(listens *sync.Once) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left == 0 {
		return false
	}
	listens.Do(func() { b.left-- })
	if b.left == 0 {
		b.to(netstate.Event{})
		b.all.Store(true)
	}
	return true
}
