package dataplane

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/tulle-net/tulle/pkg/netstate"
)

// Engine moves the packets of links, and holds what no kernel does of them. The devices
// themselves are the kernel's. It is safe for concurrent use.
type Engine interface {
	// Serves reports whether the engine moves the packets of a link, or holds an object.
	Serves(o netstate.Object) bool
	// Open begins to move the packets of a link whose device exists, as the link says from
	// now on.
	Open(l netstate.Link) error
	// Close ends that, and drops what the engine holds of the link. The device stays.
	Close(link string)
	// Apply carries out the steps of a plan on objects that are no links.
	Apply(p netstate.Plan) netstate.Failures
	// Dump returns a link of the kernel with what the engine knows of it, and the objects
	// that the engine holds on it.
	Dump(l netstate.Link) (netstate.Link, []netstate.Object)
	// OnStop sets what is called with the name of a link whose packets the engine stopped
	// to move by itself.
	OnStop(f func(link string))
}

// Kernel is the real one, or a fake.
type Kernel interface {
	Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error)
	Apply(ctx context.Context, p netstate.Plan) error
	Watch(ctx context.Context, to func(netstate.Event)) error
	Survey(ctx context.Context) (netstate.Survey, error)
	RouteTo(ctx context.Context, to netip.Addr) (netstate.Path, error)
	WatchHost(ctx context.Context, to func(netstate.Event)) error
}

// Dataplane is a Kernel with an Engine. Survey, RouteTo and WatchHost are the kernel's.
type Dataplane struct {
	Kernel
	engine Engine

	mu       sync.Mutex // guards what follows
	watchers map[*func(netstate.Event)]struct{}
}

// New returns a kernel in which engine moves the packets of the links that it serves.
func New(k Kernel, engine Engine) *Dataplane {
	d := &Dataplane{Kernel: k, engine: engine, watchers: make(map[*func(netstate.Event)]struct{})}
	engine.OnStop(d.stopped)
	return d
}

// Dump returns what the kernel and the engine hold.
func (d *Dataplane) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	objects, err := d.Kernel.Dump(ctx, scope)
	if err != nil {
		return nil, err
	}
	for i, o := range objects {
		if l, ok := o.(netstate.Link); ok && d.engine.Serves(l) {
			link, held := d.engine.Dump(l)
			objects[i] = link
			objects = append(objects, held...)
		}
	}
	return objects, nil
}

// Apply carries out a plan in its order.
func (d *Dataplane) Apply(ctx context.Context, p netstate.Plan) error {
	if !d.concerns(p) {
		return d.Kernel.Apply(ctx, p)
	}
	var failed netstate.Failures
	for len(p) > 0 {
		n, err := d.applyFirst(ctx, p)
		var failures netstate.Failures
		if err != nil && !errors.As(err, &failures) {
			return err
		}
		failed = append(failed, failures...)
		p = p[n:]
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// concerns reports whether a step of a plan is for the engine.
func (d *Dataplane) concerns(p netstate.Plan) bool {
	for _, op := range p {
		if d.engine.Serves(op.Object) {
			return true
		}
	}
	return false
}

// applyFirst carries out the first steps of a plan, as many as can be done at once.
func (d *Dataplane) applyFirst(ctx context.Context, p netstate.Plan) (n int, err error) {
	if l, ok := p[0].Object.(netstate.Link); ok && d.engine.Serves(l) {
		return 1, d.applyLink(ctx, p[:1], l)
	}
	served := d.engine.Serves(p[0].Object)
	for n = 1; n < len(p); n++ {
		_, isLink := p[n].Object.(netstate.Link)
		if is := d.engine.Serves(p[n].Object); is != served || is && isLink {
			break
		}
	}
	if !served {
		return n, d.Kernel.Apply(ctx, p[:n])
	}
	if failures := d.engine.Apply(p[:n]); len(failures) > 0 {
		return n, failures
	}
	return n, nil
}

// applyLink carries out a plan of one step on a link of the engine's. The engine lets go
// of a device before it is deleted.
func (d *Dataplane) applyLink(ctx context.Context, p netstate.Plan, l netstate.Link) error {
	if p[0].Verb == netstate.Delete {
		d.engine.Close(l.Name)
		return d.Kernel.Apply(ctx, p)
	}
	if err := d.Kernel.Apply(ctx, p); err != nil {
		return err
	}
	if err := d.engine.Open(l); err != nil {
		return netstate.Failures{{Op: p[0], Err: err}}
	}
	return nil
}

// Watch reports the changes of the kernel, and links whose packets the engine stopped to
// move.
func (d *Dataplane) Watch(ctx context.Context, to func(netstate.Event)) error {
	d.mu.Lock()
	d.watchers[&to] = struct{}{}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.watchers, &to)
	}()
	return d.Kernel.Watch(ctx, func(e netstate.Event) {
		if l, ok := e.Object.(netstate.Link); ok && !e.Gone && d.engine.Serves(l) {
			e.Object, _ = d.engine.Dump(l)
		}
		to(e)
	})
}

// stopped reports that the engine does not move a link's packets any more.
func (d *Dataplane) stopped(link string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for to := range d.watchers {
		(*to)(netstate.Event{Object: netstate.Link{Name: link}})
	}
}
