package reconcile

import (
	"context"
	"sync"
	"time"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/retry"
)

// Kernel is what the loop needs of a kernel.
type Kernel interface {
	// Dump returns what is ours, and nothing else's that Diff would not leave
	// alone. With the error netstate.Unknown it returns what is known.
	Dump(ctx context.Context, scope netstate.Scope) ([]netstate.Object, error)
	// Apply carries out a plan. Steps that fail keep no other from being done;
	// the error is then netstate.Failures, and any other if nothing is known.
	Apply(ctx context.Context, p netstate.Plan) error
	// Watch reports changes, also such as are not ours, until ctx ends or it
	// fails. It begins with an event of lost events. Changes made by Apply may
	// be reported or not.
	Watch(ctx context.Context, to func(netstate.Event)) error
}

// Reconciler is the loop. It owns the desired state and what is known of the kernel's
// differences from it. Update may be called and events may come at any time, also
// while a plan is applied: the loop checks a key that they touch again after it.
type Reconciler struct {
	kernel   Kernel
	interval time.Duration
	account  *budget.Account // what healing costs
	wake     retry.Wakeup    // there is something to check

	mu       sync.Mutex
	desired  *Desired
	queue    queue
	fights   budget.Fights[netstate.Key]
	turns    [budget.Classes]time.Time // when drift of a class was last restored
	ailing   map[string]time.Time      // links of ours, and since when they wait for a resync to restore them
	links    map[string]netstate.Link  // foreign links that the state uses, as last seen
	watching bool                      // events come, or came once
	strays   bool                      // something was left alone until all owners are known
	foreign  bool                      // so were routes that may be a predecessor's
	resync   schedule
	now      *pass            // the present pass
	planner  netstate.Planner // of passes that are no resync; empty between them
	report   report
	waiters  []waiter
}

// New returns a loop that runs a full resync every interval, give or take a tenth,
// whatever the events say. It spends from account what drift costs.
func New(k Kernel, interval time.Duration, account *budget.Account) *Reconciler {
	r := &Reconciler{
		kernel: k, interval: interval, account: account,
		wake:   retry.NewWakeup(),
		report: newReport(),
		queue:  newQueue(),
		ailing: make(map[string]time.Time),
		links:  make(map[string]netstate.Link),
	}
	r.desired = newDesired(r.note)
	return r
}

// Update changes the desired state. Changes made in one call reach the kernel
// in one plan.
func (r *Reconciler) Update(f func(*Desired)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	complete := r.desired.complete
	f(r.desired)
	if r.desired.complete && !complete {
		if r.report.resyncs > 0 && !r.strays && !r.foreign {
			r.report.swept = true
		} else {
			r.resyncOurs() // what is stale can be deleted now
		}
	}
	r.refresh()
	r.wake.Wake()
}

// Resync requests a full resync.
func (r *Reconciler) Resync() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resync.force(time.Now())
	r.wake.Wake()
}

// note records one change of the desired state. The caller holds mu.
func (r *Reconciler) note(c change) {
	if _, isLink := c.object.(netstate.Link); isLink || r.expecting() {
		// Everything on a link depends on it: only a Diff shows how.
		r.resyncOurs()
		return
	}
	t := task{verb: c.verb}
	if c.verb == netstate.Delete {
		t = task{verb: netstate.Replace, gone: c.object}
	}
	r.queue.add(c.object.Key(), t)
}

// resyncOurs requests a resync because of our own change.
func (r *Reconciler) resyncOurs() {
	r.resync.force(time.Now())
	r.resync.ours = true
}

// Run runs the loop until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	r.mu.Lock()
	r.resync.periodic = time.Now().Add(watchGrace)
	r.mu.Unlock()
	wg.Go(func() { r.watch(ctx) })
	timer := time.NewTimer(watchGrace)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		r.step(ctx)
		timer.Reset(r.pause())
	}
}

// pause returns how long there is nothing to do unless an event comes.
func (r *Reconciler) pause() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.expecting() {
		return watchGrace
	}
	now := time.Now()
	at := r.nextResync(now)
	work, ok := r.queue.next(now, func(c budget.Class) time.Time { return r.turn(now, c) })
	if ok && r.report.resyncs > 0 && work.Before(at) {
		at = work
	}
	if due, ok := r.fights.Due(); ok && due.Before(at) {
		at = due
	}
	if due, ok := r.report.due(); ok && due.Before(at) {
		at = due
	}
	return max(0, at.Sub(now))
}

// expecting reports whether owners come in a moment (Expect) that probably want what
// was left alone until all are known, as after a restart. So it need not be written
// again: a resync with all owners finds what is missing.
func (r *Reconciler) expecting() bool { return r.strays && r.desired.expected > 0 }

// nextResync returns when the next resync is due. The first waits for the watch, and
// for something to be desired.
func (r *Reconciler) nextResync(now time.Time) time.Time {
	if r.report.resyncs == 0 && (!r.watching || r.desired.state.Len() == 0) {
		return r.resync.periodic
	}
	return r.resync.next(func(c budget.Class, last time.Time) time.Time { return r.account.When(now, c, last) })
}

// step does what is due: a full resync, or else the keys that need work.
func (r *Reconciler) step(ctx context.Context) {
	stop := r.account.Measure()
	p, scope := r.begin()
	if p == nil {
		stop()
		return
	}
	defer func() { r.pay(p, stop()) }()
	if p.full {
		actual, err := r.kernel.Dump(ctx, scope)
		if p.unknown, err = netstate.UnknownOf(err); err != nil {
			r.dumpFailed(ctx, p, err)
			return
		}
		r.planResync(p, actual)
	}
	err := r.apply(ctx, p)
	r.end(ctx, p, err)
}

// begin starts a pass, if one is due. No other pass is due before the first resync,
// which shows what the kernel holds already.
func (r *Reconciler) begin() (*pass, netstate.Scope) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.expecting() {
		return nil, netstate.Scope{}
	}
	now := time.Now()
	r.sweep(now)
	r.report.logHealed(now)
	p := &pass{start: now, full: !r.nextResync(now).After(now), first: r.report.resyncs == 0}
	if !p.full && p.first {
		return nil, netstate.Scope{}
	}
	over := p.full || !r.queue.drifted.burst.over().After(now)
	p.tasks = r.queue.take(now, func(c budget.Class) bool { return p.full || over && !r.turn(now, c).After(now) })
	if !p.full && len(p.tasks) == 0 {
		return nil, netstate.Scope{}
	}
	for k, t := range p.tasks {
		if t.drift {
			p.drifts[classOf(k)]++
		}
		if !p.full && r.blind(k, t) {
			p.full, p.ours = true, true
		}
	}
	r.now = p
	defer r.refresh()
	if !p.full {
		r.planTasks(p)
		return p, netstate.Scope{}
	}
	p.ours, p.alarm, p.called = p.ours || r.resync.ours, r.resync.alarm, !r.resync.called.IsZero()
	r.resync.begin()
	p.ailing, r.ailing = r.ailing, make(map[string]time.Time)
	return p, r.desired.scope()
}

// end records the results of a pass.
func (r *Reconciler) end(ctx context.Context, p *pass, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = nil
	r.queue.spare = nil
	if ctx.Err() != nil {
		r.planner = netstate.Planner{} // its steps may be void when the loop runs again
		return
	}
	now := time.Now()
	r.recordOutcome(p, err, now)
	if p.plain && r.desired.expected > 0 { // the next portion is about as large
		r.queue.reuse(p.tasks)
		r.planner.Reuse(p.plan)
	} else {
		r.planner = netstate.Planner{}
	}
	if p.full {
		took := now.Sub(p.start)
		r.report.resynced(p, took)
		r.resync.end(p.start, took, r.interval)
	}
	r.refresh()
}

// dumpFailed puts back what a resync had taken, and schedules a retry.
func (r *Reconciler) dumpFailed(ctx context.Context, p *pass, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = nil
	if ctx.Err() != nil {
		return
	}
	for k, t := range p.tasks {
		if !r.blind(k, t) { // the next resync sees the others
			r.queue.restore(k, t)
		}
	}
	for link, since := range p.ailing {
		r.ailing[link] = since
	}
	r.report.dumpFailures++
	r.resync.again(p, time.Now().Add(backoff.After(r.report.dumpFailures)))
	r.report.dump.Was(err)
	r.refresh()
}
