package links

import (
	"context"
	"errors"
	"net/netip"
	"slices"
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
	Open(ctx context.Context, l netstate.Link) error
	// Close ends that, and drops what the engine holds of the link. The device stays. Close
	// does nothing if the engine does not serve the link.
	Close(link string)
	// Prune ends that for links whose devices are gone. has reports whether the kernel showed
	// a link.
	Prune(has func(link string) bool)
	// Apply carries out the steps of a plan on objects that are no links.
	Apply(ctx context.Context, p netstate.Plan) netstate.Failures
	// Show returns a link of the kernel with what the engine knows of it at once.
	Show(l netstate.Link) netstate.Link
	// Dump returns a link of the kernel with what the engine knows of it, and the objects
	// that the engine holds on it. With an error, neither is known.
	Dump(ctx context.Context, l netstate.Link) (netstate.Link, []netstate.Object, error)
	// OnStop sets what is called with the name of a link whose packets the engine stopped
	// to move by itself, or of which it knows more again.
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

// Plane is a Kernel with an Engine. Survey, RouteTo and WatchHost are the kernel's.
type Plane struct {
	Kernel
	engine Engine

	mu       sync.Mutex // guards what follows
	watchers map[*func(netstate.Event)]struct{}
}

// New returns a kernel in which engine moves the packets of the links that it serves.
func New(k Kernel, engine Engine) *Plane {
	p := &Plane{Kernel: k, engine: engine, watchers: make(map[*func(netstate.Event)]struct{})}
	engine.OnStop(p.stopped)
	return p
}

// Dump returns what the kernel and the engine hold. If the engine does not know what it holds
// of some links, the error is netstate.Unknown.
func (p *Plane) Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error) {
	objects, err := p.Kernel.Dump(ctx, scope)
	unknown, err := netstate.UnknownOf(err)
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool)
	for i, o := range objects {
		if l, ok := o.(netstate.Link); ok && p.engine.Serves(l) {
			there[l.Name] = true
			link, held, err := p.engine.Dump(ctx, l)
			if err != nil {
				unknown = unknown.With(l.Name, err)
				continue
			}
			objects[i] = link
			objects = append(objects, held...)
		}
	}
	p.engine.Prune(func(link string) bool { return there[link] })
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case unknown != nil:
		return objects, unknown
	}
	return objects, nil
}

// Apply carries out a plan in its order.
func (p *Plane) Apply(ctx context.Context, plan netstate.Plan) error {
	for _, op := range plan {
		// A link that becomes one of another kind needs the ports that its program has.
		if l, ok := op.Object.(netstate.Link); ok && !p.engine.Serves(l) {
			p.engine.Close(l.Name)
		}
	}
	if !p.concerns(plan) {
		return p.Kernel.Apply(ctx, plan)
	}
	var failed netstate.Failures
	for len(plan) > 0 {
		n, err := p.applyFirst(ctx, plan)
		var failures netstate.Failures
		if err != nil && !errors.As(err, &failures) {
			return err
		}
		failed = append(failed, failures...)
		plan = plan[n:]
	}
	if len(failed) > 0 {
		return failed
	}
	return nil
}

// concerns reports whether a step of a plan is for the engine.
func (p *Plane) concerns(plan netstate.Plan) bool {
	return slices.ContainsFunc(plan, func(op netstate.Op) bool { return p.engine.Serves(op.Object) })
}

// applyFirst carries out the first steps of a plan, as many as can be done at once, and
// returns how many that are.
func (p *Plane) applyFirst(ctx context.Context, plan netstate.Plan) (n int, err error) {
	if l, ok := plan[0].Object.(netstate.Link); ok && p.engine.Serves(l) {
		return 1, p.applyLink(ctx, plan[:1], l)
	}
	served := p.engine.Serves(plan[0].Object)
	for n = 1; n < len(plan); n++ {
		_, isLink := plan[n].Object.(netstate.Link)
		if is := p.engine.Serves(plan[n].Object); is != served || is && isLink {
			break
		}
	}
	if !served {
		return n, p.Kernel.Apply(ctx, plan[:n])
	}
	if failures := p.engine.Apply(ctx, plan[:n]); len(failures) > 0 {
		return n, failures
	}
	return n, nil
}

// applyLink carries out one step on a link of the engine's. The engine lets go of a
// device before it is deleted.
func (p *Plane) applyLink(ctx context.Context, step netstate.Plan, l netstate.Link) error {
	if step[0].Verb == netstate.Delete {
		p.engine.Close(l.Name)
		return p.Kernel.Apply(ctx, step)
	}
	if err := p.Kernel.Apply(ctx, step); err != nil {
		return err
	}
	if err := p.engine.Open(ctx, l); err != nil {
		return netstate.Failures{{Op: step[0], Err: err}}
	}
	return nil
}

// Watch reports the changes of the kernel, and links whose packets the engine stopped to
// move.
func (p *Plane) Watch(ctx context.Context, to func(netstate.Event)) error {
	p.mu.Lock()
	p.watchers[&to] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watchers, &to)
	}()
	return p.Kernel.Watch(ctx, func(e netstate.Event) {
		if l, ok := e.Object.(netstate.Link); ok && !e.Gone && p.engine.Serves(l) {
			e.Object = p.engine.Show(l)
		}
		to(e)
	})
}

// stopped reports that the engine does not move a link's packets any more.
func (p *Plane) stopped(link string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for to := range p.watchers {
		(*to)(netstate.Event{Object: netstate.Link{Name: link}})
	}
}
