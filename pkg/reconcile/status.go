package reconcile

import (
	"context"
	"errors"
	"slices"
	"sort"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/budget"
	"github.com/tulle-net/tulle/pkg/netstate"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Status is how far the kernel is from the desired state.
type Status struct {
	Complete bool      // all owners are known
	InSync   bool      // the kernel holds exactly what is desired, as far as is known
	Tried    bool      // all that is desired is in the kernel or in Failing; no full resync is due because of a change
	Since    time.Time // when InSync last changed
	Objects  int       // desired
	Pending  int       // keys that wait for work
	Failing  []Failing // keys that the kernel refuses, by key
	Fights   []Fight   // keys that other programs keep changing, by key
	// Contested are the keys that more than one owner wants differently.
	Contested []netstate.Key
	// Healed counts the objects that were restored because another program had
	// changed them.
	Healed     map[netstate.Kind]uint64
	Resyncs    uint64
	LastResync time.Time
	ResyncTook time.Duration
	DumpError  error // the kernel's state could not be read
	WatchError error // the kernel's events do not arrive; only resyncs find changes
}

// Failing is a key that cannot be restored at present.
type Failing struct {
	Key      netstate.Key
	Owner    string
	Err      error
	Attempts int
	Since    time.Time
	Retry    time.Time
}

// Fight is a key that other programs keep changing. It is restored each time.
type Fight struct {
	Key   netstate.Key
	Owner string
	budget.Fight
}

// report is what the loop reports.
type report struct {
	inSync         bool
	since          time.Time
	resyncs        uint64
	swept          bool // a full resync with a complete list was done
	lastResync     time.Time
	resyncTook     time.Duration
	dump           trouble.Outcome
	dumpFailures   int
	watch          trouble.Outcome
	unknowns       int // plans in a row that ended in an unknown state
	healed         [netstate.KindCommand + 1]uint64
	healedNow      int // not logged yet
	healedFirst    netstate.Op
	healedLoggedAt time.Time
	failing        bool // as last logged
	command        bool // the last failure that was logged was a command's
}

// Status returns a copy of the present status.
func (r *Reconciler) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{
		Complete: r.desired.complete, InSync: r.report.inSync, Tried: r.tried() && r.now == nil && !r.resync.asked(), Since: r.report.since,
		Objects: r.desired.state.Len(), Pending: len(r.queue.ready) + r.queue.drifted.len(),
		Healed:  make(map[netstate.Kind]uint64),
		Resyncs: r.report.resyncs, LastResync: r.report.lastResync, ResyncTook: r.report.resyncTook,
		DumpError: r.report.dump.Err(), WatchError: r.report.watch.Err(),
		Contested: r.desired.contested(),
	}
	if r.now != nil {
		s.Pending += max(len(r.now.tasks), len(r.now.plan))
	}
	for _, k := range netstate.Kinds() {
		s.Healed[k] = r.report.healed[k]
	}
	for k, f := range r.queue.failed {
		if errors.Is(f.err, netstate.ErrUnfinished) {
			s.Pending++
			continue
		}
		s.Failing = append(s.Failing, Failing{k, r.desired.state.Owner(k), f.err, f.attempts, f.since, f.retry})
	}
	sort.Slice(s.Failing, func(i, j int) bool { return s.Failing[i].Key.Compare(s.Failing[j].Key) < 0 })
	for k, f := range r.fights.All(time.Now()) {
		s.Fights = append(s.Fights, Fight{k, r.desired.state.Owner(k), f})
	}
	sort.Slice(s.Fights, func(i, j int) bool { return s.Fights[i].Key.Compare(s.Fights[j].Key) < 0 })
	return s
}

// waiter waits until a condition holds.
type waiter struct {
	so   func() bool
	done chan struct{}
}

// WaitSynced waits until all owners are known, the kernel holds everything that they
// want, and nothing is left to check.
func (r *Reconciler) WaitSynced(ctx context.Context) error { return r.wait(ctx, r.settled) }

// WaitTried waits until all owners are known and everything that they want was tried:
// it is in the kernel, or it fails.
func (r *Reconciler) WaitTried(ctx context.Context) error { return r.wait(ctx, r.tried) }

// WaitTaken waits until the loop works on all updates, or leaves them to a resync: a
// caller with many updates need not be faster than the kernel. It does not wait for a
// first resync whose dump fails.
func (r *Reconciler) WaitTaken(ctx context.Context) error {
	return r.wait(ctx, func() bool {
		return len(r.queue.ready) == 0 || r.expecting() || r.report.resyncs == 0 && r.report.dump.Err() != nil
	})
}

func (r *Reconciler) wait(ctx context.Context, so func() bool) error {
	r.mu.Lock()
	if so() {
		r.mu.Unlock()
		return nil
	}
	w := waiter{so, make(chan struct{})}
	r.waiters = append(r.waiters, w)
	r.mu.Unlock()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tried reports whether nothing waits for its first try.
func (r *Reconciler) tried() bool {
	return r.report.swept && r.report.dump.Err() == nil && len(r.queue.ready) == 0 &&
		!r.resync.alarm && (r.now == nil || !r.now.hasDrift())
}

// inSync reports whether the kernel is known to hold everything desired.
func (r *Reconciler) inSync() bool {
	return r.report.swept && r.report.dump.Err() == nil && r.queue.empty() &&
		!r.resync.alarm && (r.now == nil || !r.now.hasDrift())
}

// settled reports whether inSync holds and no resync runs or is requested.
func (r *Reconciler) settled() bool {
	return r.inSync() && r.now == nil && !r.resync.asked()
}

// refresh updates the report and wakes the waiters. The caller holds mu.
func (r *Reconciler) refresh() {
	if s := r.inSync(); s != r.report.inSync || r.report.since.IsZero() {
		r.report.inSync, r.report.since = s, time.Now()
	}
	r.waiters = slices.DeleteFunc(r.waiters, func(w waiter) bool {
		so := w.so()
		if so {
			close(w.done)
		}
		return so
	})
}

func newReport() report {
	return report{
		dump:  trouble.Outcome{Failed: "Failed to dump the kernel's state; retrying", Works: "Dumped the kernel's state again"},
		watch: trouble.Outcome{Failed: "Lost the watch on the kernel; restarting it", Works: "Watching the kernel again"},
	}
}

// resynced records a full resync.
func (r *report) resynced(p *pass, took time.Duration) {
	r.resyncs++
	r.swept = r.swept || p.complete
	r.lastResync, r.resyncTook = p.start, took
	r.dumpFailures = 0
	if p.unknown != nil {
		r.dump.Was(p.unknown)
	} else {
		r.dump.Was(nil)
	}
}

// heal counts one restored object. It logs that, unless the object is part of a fight
// that was logged.
func (r *report) heal(op netstate.Op, k netstate.Kind, fought bool) {
	r.healed[k]++
	if fought {
		return
	}
	if r.healedNow == 0 {
		r.healedFirst = op
	}
	r.healedNow++
}

// healedLogInterval is the shortest time between two lines about restored objects.
const healedLogInterval = time.Second

// due returns when to call tellHealed, if ever.
func (r *report) due() (at time.Time, ok bool) {
	return r.healedLoggedAt.Add(healedLogInterval), r.healedNow > 0
}

// logHealed logs what was restored.
func (r *report) logHealed(now time.Time) {
	if at, ok := r.due(); !ok || now.Before(at) {
		return
	}
	klog.InfoS("Restored what others had changed", "objects", r.healedNow, "first", r.healedFirst.String())
	r.healedNow, r.healedLoggedAt = 0, now
}

// logPass logs what a pass changed: a new failure, the end of one, and what was
// restored.
func (r *report) logPass(p *pass, firsts []*netstate.OpError, failing int) {
	if len(firsts) > 0 {
		what := "Kernel refused a step; retrying"
		if _, r.command = firsts[0].Op.Object.(netstate.Command); r.command {
			what = "Command failed; retrying"
		}
		klog.ErrorS(firsts[0].Err, what, "step", firsts[0].Op.String(), "similar", len(firsts)-1)
		r.failing = true
	} else if r.failing && failing == 0 {
		what := "Kernel accepts all steps again"
		if r.command {
			what = "Commands succeed again"
		}
		klog.InfoS(what)
		r.failing = false
	}
	r.logHealed(time.Now())
	if p.full {
		klog.V(2).InfoS("Resynced", "steps", len(p.plan))
	}
}
