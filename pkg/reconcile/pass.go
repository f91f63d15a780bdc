package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
)

// pass is one pass of the loop.
type pass struct {
	start    time.Time
	first    bool // the first resync: its findings are of an earlier run
	full     bool // a resync: tasks matter only for what they show of drift
	ours     bool // what a resync finds wrong follows from our own change
	alarm    bool // a resync that is known to find something
	called   bool // a resync that events caused
	found    bool // drift, whatever caused the pass
	complete bool // a resync that may delete
	plain    bool // no resync, no link, no drift: nothing to record unless a step fails
	tasks    map[netstate.Key]task
	drifts   [budget.Classes]int  // how many of them are drift
	ailing   map[string]time.Time // links that a resync is to restore, and since when they need it
	// shaken has for the links that a resync's plan changes, or the addresses of,
	// which of both it is: what comes after that on the link may only go with it.
	shaken map[string]netstate.Kind
	fought map[string]bool // those of them with a fight
	plan   netstate.Plan
	// unknown is what the dump of a resync could not show: it is left as it is.
	unknown netstate.Unknown
	// twins has, for a delete, the route to the same destination that must exist before.
	twins map[netstate.Key]netstate.Key
}

// hasDrift reports whether something is known to need a restore.
func (p *pass) hasDrift() bool { return p.alarm || len(p.tasks)+len(p.plan) > 0 }

// blind reports whether a task needs a dump of the kernel first. That is so for the
// deletion of a route if the kernel has, or should have, another to the same
// destination: it takes metric 0 for any metric, and if the first is gone it deletes
// the other instead.
func (r *Reconciler) blind(k netstate.Key, t task) bool {
	if t.gone == nil || !r.desired.complete {
		return false
	}
	if _, wanted := r.desired.state.Get(k); wanted {
		return false
	}
	_, has := r.desired.twin(t.gone)
	return has
}

// planTasks plans the keys that are known to need work.
func (r *Reconciler) planTasks(p *pass) {
	plan := &r.planner
	plan.Grow(len(p.tasks))
	p.plain = true
	for k, t := range p.tasks {
		p.plain = p.plain && !t.drift && k.Kind != netstate.KindLink
		if o, wanted := r.desired.state.Get(k); wanted {
			plan.Add(t.verb, o)
		} else if t.gone != nil && r.desired.complete {
			plan.Add(netstate.Delete, t.gone)
		} else {
			r.strays = r.strays || t.gone != nil
			r.queue.forget(k)
		}
	}
	p.plan = plan.Plan()
}

// planResync plans the steps from what the kernel holds to what is desired now.
func (r *Reconciler) planResync(p *pass, actual []netstate.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p.complete = r.desired.complete
	p.ours = p.ours || r.resync.ours
	r.presume(p, actual)
	if p.complete {
		p.plan = netstate.Diff(&r.desired.state, actual)
	} else {
		sets, strays := netstate.DiffSets(&r.desired.state, actual)
		p.plan, r.strays = sets, r.strays || strays
		r.foreign = r.foreign || slices.ContainsFunc(actual, netstate.MayBePredecessors)
		r.spare(p, actual)
	}
	p.plan = slices.DeleteFunc(p.plan, func(op netstate.Op) bool { return p.unknown.Hides(op.Object.Key()) })
	planned := make(map[netstate.Key]bool, len(p.plan))
	for _, op := range p.plan {
		planned[op.Object.Key()] = true
	}
	r.absorb(p, planned)
	p.shaken, p.fought = make(map[string]netstate.Kind), make(map[string]bool)
	for _, op := range p.plan {
		if k := op.Object.Key(); k.Kind == netstate.KindLink || k.Kind == netstate.KindAddr {
			if before, known := p.shaken[k.Name]; !known || k.Kind < before {
				p.shaken[k.Name] = k.Kind
			}
			p.fought[k.Name] = p.fought[k.Name] || r.fights.Fought(k)
		}
		if op.Verb != netstate.Delete {
			continue
		}
		if twin, ok := r.desired.twin(op.Object); ok {
			if p.twins == nil {
				p.twins = make(map[netstate.Key]netstate.Key)
			}
			p.twins[op.Object.Key()] = twin
		}
	}
	r.refresh()
}

// presume takes links as they are wanted where a dump could not show how they are: as far as
// the kernel knows them, they are healed.
func (r *Reconciler) presume(p *pass, actual []netstate.Object) {
	if p.unknown == nil {
		return
	}
	for i, o := range actual {
		is, ok := o.(netstate.Link)
		if !ok || p.unknown[is.Name] == nil {
			continue
		}
		if want, wanted := r.desired.state.Get(o.Key()); wanted {
			is.WireGuard = want.(netstate.Link).WireGuard
			actual[i] = is
		}
	}
}

// spare removes from a plan what would cost a link of ours everything on it, until
// all owners that may want something there are known.
func (r *Reconciler) spare(p *pass, actual []netstate.Object) {
	spared := make(map[string]bool)
	for _, o := range actual {
		if is, ok := o.(netstate.Link); ok {
			o, _ := r.desired.state.Get(is.Key())
			want, ok := o.(netstate.Link)
			spared[is.Name] = ok && is.Up && (!is.CanBecome(want) || is.MAC != want.MAC)
		}
	}
	p.plan = slices.DeleteFunc(p.plan, func(op netstate.Op) bool {
		on := netstate.LinkOf(op.Object)
		if link, ok := op.Object.(netstate.Link); ok {
			on = link.Name
		}
		r.strays = r.strays || spared[on]
		return spared[on]
	})
}

// absorb makes part of p what it serves of all that is waiting. What is wanted
// differently since the dump began the plan has already. What was heard of the
// kernel since may be news to it, except where the plan puts it right anyway.
// And a failure that it has no step for is over. What the dump could not show waits on.
func (r *Reconciler) absorb(p *pass, planned map[netstate.Key]bool) {
	for k, t := range r.queue.ready {
		merge(p.tasks, k, t)
	}
	r.queue.ready = nil
	for k, t := range p.tasks {
		if p.unknown.Hides(k) {
			delete(p.tasks, k)
			r.queue.restore(k, t)
		}
	}
	for k := range planned {
		if t, ok := r.queue.drifted.get(k); ok {
			merge(p.tasks, k, t)
			r.queue.drifted.calm(k)
		}
	}
	for k := range r.queue.failed {
		if !planned[k] && !p.unknown.Hides(k) {
			r.queue.settle(k)
		}
	}
}

// apply carries out p's plan. It deletes a route only after its replacement exists,
// so that a refused step leaves no destination without a route.
func (r *Reconciler) apply(ctx context.Context, p *pass) error {
	if len(p.plan) == 0 {
		return nil
	}
	if len(p.twins) == 0 {
		return r.kernel.Apply(ctx, p.plan)
	}
	sets, deletes := p.plan.Split()
	var all netstate.Failures
	if len(sets) > 0 {
		if err := r.kernel.Apply(ctx, sets); err != nil && !errors.As(err, &all) {
			return err
		}
	}
	refused := make(map[netstate.Key]bool, len(all))
	for _, e := range all {
		refused[e.Op.Object.Key()] = true
	}
	var may netstate.Plan
	for _, op := range deletes {
		if twin, has := p.twins[op.Object.Key()]; has && refused[twin] {
			all = append(all, &netstate.OpError{Op: op, Err: errAwaited})
		} else {
			may = append(may, op)
		}
	}
	if len(may) > 0 {
		var more netstate.Failures
		if err := r.kernel.Apply(ctx, may); err != nil && !errors.As(err, &more) {
			return err
		}
		all = append(all, more...)
	}
	if len(all) > 0 {
		return all
	}
	return nil
}

// errAwaited is why a route that is to be deleted stays.
var errAwaited = errors.New("kept until the kernel takes the route that follows it")

// recordOutcome records the outcome of each step.
func (r *Reconciler) recordOutcome(p *pass, err error, now time.Time) {
	if err == nil && p.plain && len(r.queue.failed) == 0 {
		for _, op := range p.plan {
			r.placed(op)
		}
		r.report.unknowns = 0
		r.report.logPass(p, nil, 0)
		return
	}
	refused, known := refusals(p.plan, err)
	var retry time.Time
	if known {
		r.report.unknowns = 0
	} else {
		// All are retried in one resync, which shows what was done.
		r.report.unknowns++
		retry = now.Add(backoff.After(r.report.unknowns))
		r.resync.force(retry)
	}
	var firsts []*netstate.OpError
	swapped := false
	for _, op := range p.plan {
		k := op.Object.Key()
		t := r.taskOf(p, op, k)
		e := refused[k]
		if e == nil {
			r.done(p, op, k, t, now)
			_, twin := p.twins[k]
			swapped = swapped || twin
			continue
		}
		if r.supplanted(op, k, e.Err) {
			r.queue.forget(k)
			t.verb = netstate.Replace
			r.queue.restore(k, t)
			continue
		}
		before := r.queue.failed[k]
		if errors.Is(e.Err, netstate.ErrUnfinished) {
			r.queue.fail(k, t, e.Err, now, now.Add(unfinishedPoll))
			continue
		}
		f := r.queue.fail(k, t, e.Err, now, retry)
		switch {
		case !p.full && surprising(e.Err):
			// The kernel differs from what we believe, and may be right: a Diff decides before
			// the log reports it. One of before another change by others decided nothing.
			if before == nil || before.stirred || !surprising(before.err) {
				r.resync.want(now, classOf(k))
			}
		case f != nil && !f.logged && !r.disturbed(op.Object):
			f.logged = true
			firsts = append(firsts, e)
		}
	}
	if swapped {
		// The kernel may have confused the two; see blind.
		r.resync.want(now, budget.Single)
	}
	r.report.logPass(p, firsts, len(r.queue.failed))
}

// taskOf returns the purpose of a step, which is what to retry if it failed.
func (r *Reconciler) taskOf(p *pass, op netstate.Op, k netstate.Key) task {
	t, asked := p.tasks[k]
	if f := r.queue.failed[k]; !asked && f != nil {
		t, asked = f.task, true
	}
	if !asked {
		t = task{drift: !p.ours}
	}
	if p.full {
		t.drift = t.drift && !p.ours
		if op.Verb == netstate.Delete {
			t.gone = op.Object
		}
		t.verb = netstate.Create
		if op.Verb == netstate.Replace {
			t.verb = netstate.Replace
		}
	}
	return t
}

// supplanted reports whether a step was refused because a foreign route is where ours
// was before. A foreign route that was there first is left alone.
func (r *Reconciler) supplanted(op netstate.Op, k netstate.Key, err error) bool {
	return op.Verb == netstate.Create && k.Kind == netstate.KindRoute &&
		errors.Is(err, fs.ErrExist) && r.desired.state.Placed(k)
}

// placed records that a step put a route into its place.
func (r *Reconciler) placed(op netstate.Op) {
	if route, ok := op.Object.(netstate.Route); ok && op.Verb != netstate.Delete {
		r.desired.state.SetPlaced(route.Key())
	}
}

// done records a completed step.
func (r *Reconciler) done(p *pass, op netstate.Op, k netstate.Key, t task, now time.Time) {
	r.queue.settle(k)
	r.placed(op)
	isLink := k.Kind == netstate.KindLink
	if isLink && !p.full {
		// What is on it failed with it, and need not wait any longer.
		r.resyncOurs()
	}
	if !t.drift || p.first || r.onFailing(op.Object) {
		return
	}
	p.found = true
	r.healed(p, op, k, t, now)
}

// disturbed reports whether an object is on a link that other programs are changing,
// so that a refused step is not surprising.
func (r *Reconciler) disturbed(o netstate.Object) bool {
	_, ailing := r.ailing[netstate.LinkOf(o)]
	return ailing || r.fought(o)
}

// onFailing reports whether an object is on a link that failed, and must be restored
// again until the link is right.
func (r *Reconciler) onFailing(o netstate.Object) bool {
	on := netstate.LinkOf(o)
	return on != "" && r.queue.failed[netstate.Link{Name: on}.Key()] != nil
}

// surprising reports whether err shows that the kernel differs from what the loop
// believes.
func surprising(err error) bool {
	return errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ENETDOWN)
}

// refusals returns the failed steps by key, and whether it is known what was done.
func refusals(plan netstate.Plan, err error) (refused map[netstate.Key]*netstate.OpError, known bool) {
	if err == nil {
		return nil, true
	}
	var list netstate.Failures
	known = errors.As(err, &list)
	if !known {
		for _, op := range plan {
			list = append(list, &netstate.OpError{Op: op, Err: err})
		}
	}
	refused = make(map[netstate.Key]*netstate.OpError, len(list))
	for _, e := range list {
		refused[e.Op.Object.Key()] = e
	}
	return refused, known
}
