// Package dataplane is a kernel of which engines in user space hold a part: the objects
// of an engine go to it, all others to the kernel. The loop, its healing and its reports
// then treat both alike.
package dataplane

import (
	"context"
	"errors"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Holder holds objects. It is what reconcile needs of a kernel.
type Holder interface {
	Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error)
	Apply(ctx context.Context, p netstate.Plan) error
	Watch(ctx context.Context, to func(netstate.Event)) error
}

// Engine is a Holder in user space. Its Watch does not begin with an event of lost ones:
// to the loop that means that the kernel is watched.
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
// unknown, and not gone.
func (d *Dataplane) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	all, err := d.kernel.Dump(ctx, scope)
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
func (d *Dataplane) Watch(ctx context.Context, to func(netstate.Event)) error {
	ctx, stop := context.WithCancel(ctx)
	var (
		running sync.WaitGroup
		once    sync.Once
		first   error
	)
	watch := func(h Holder) {
		running.Go(func() {
			err := h.Watch(ctx, to)
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
