package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Elector is one replica. Only Run uses the fields that mu does not guard.
type Elector struct {
	options  Options
	identity string
	path     string
	view     leaseView
	clock    func() time.Time // the wall clock, whose time is written into the Lease
	reads    trouble.Outcome
	writes   trouble.Outcome

	terms           int         // how many terms this replica has begun
	uid             string      // of the last term's Lease
	clean           bool        // no write of this replica's earlier terms can still arrive
	lastAcquisition acquisition // the last write that began, or may have begun, a term
	lastRenewal     sentLease
	races           int // how many writes have failed

	mu     sync.Mutex
	status Status
}

// acquisition is a write that begins a term. Its answer may be lost.
type acquisition struct {
	uid   string
	spec  kube.LeaseSpec
	clean bool
}

// resume reports whether this replica already holds the Lease l, so that a term may begin
// at once, and whether that term is clean. Every update names the state that it
// replaces, so no other replica has led since the last term, or since an update without
// an answer. A creation names no state: other replicas may have led before it arrived.
func (e *Elector) resume(l *kube.Lease) (atOnce, clean bool) {
	switch uid := l.Metadata.UID; {
	case l.Spec.HolderIdentity != e.identity, uid == "":
		return false, false
	case uid == e.lastAcquisition.uid && l.Spec == e.lastAcquisition.spec:
		return true, e.lastAcquisition.clean
	}
	return l.Metadata.UID == e.uid, e.clean
}

// Status is the state of an Elector.
type Status struct {
	// Identity is the identity of this replica in the Lease.
	Identity string
	// Known reports that the Lease was read.
	Known bool
	// Leading reports that this replica leads.
	Leading bool
	// Leader is the identity of the holder of the Lease, or empty.
	Leader string
	// Since is when this replica first saw that the Leader holds the Lease.
	Since time.Time
	// Renewed is when this replica last renewed the Lease. It is zero while it does not
	// lead.
	Renewed time.Time
	// Transitions is how often the leader changed.
	Transitions int64
	// Failing is why the Lease cannot be read or written, or nil.
	Failing error
}

// New returns an Elector. It makes no request.
func New(o Options) (*Elector, error) {
	o, err := o.orDefaults()
	if err != nil {
		return nil, err
	}
	e := &Elector{options: o, identity: o.Identity + "_" + suffix(), path: kube.Path(kube.Leases(o.Namespace), o.Name), clock: time.Now}
	e.view.changed = retry.NewWakeup()
	e.reads = trouble.Outcome{Failed: "Failed to read the Lease; retrying", Works: "Reading the Lease no longer fails", EachReason: true}
	e.writes = trouble.Outcome{Failed: "Failed to write the Lease; retrying", Works: "Writing the Lease no longer fails", EachReason: true}
	e.status.Identity = e.identity
	return e, nil
}

// Status returns the current state. It is safe for concurrent use.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// update changes the status, and reports a difference to Options.Changed.
func (e *Elector) update(change func(s *Status)) {
	e.mu.Lock()
	before := e.status
	change(&e.status)
	differs := !e.status.same(before)
	e.mu.Unlock()
	if differs && e.options.Changed != nil {
		e.options.Changed()
	}
}

// same reports whether two Statuses are equal.
func (s Status) same(other Status) bool {
	failing := fmt.Sprint(s.Failing) == fmt.Sprint(other.Failing)
	s.Failing, other.Failing = nil, nil // not every error can be compared
	return failing && s == other
}

// Run takes part in the election until ctx ends. It calls lead for each term, and waits
// until lead returns. The context of lead ends with the term. lead reports whether the
// term ends clean: no write of this or an earlier term can still arrive. If so, Run
// releases the Lease at once.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, t Term) (clean bool)) {
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	watch := &kube.Watch[kube.Lease]{
		Client: e.options.Client, Path: kube.Leases(e.options.Namespace), Name: e.options.Name, Format: kube.LeaseFormat,
		Sink: follow{&e.view}, Report: func(error) {}, // a failure shows when the Lease is read
	}
	running.Go(func() { watch.Run(watching) })
	for {
		r, lease, t := e.acquire(ctx)
		if r == nil {
			return
		}
		if e.runTerm(r, lease, t, lead) {
			e.retry(ctx) // another replica may lead now
		}
	}
}

// acquire waits until this replica holds the Lease, and begins a term. It returns nil
// if ctx ends first.
func (e *Elector) acquire(ctx context.Context) (*tenure, *kube.Lease, Term) {
	for ctx.Err() == nil {
		e.recordHolder(e.view.present())
		switch s := e.view.next(time.Now(), e.options, e.resume); {
		case s.take != nil:
			start := time.Now()
			lease := e.claim(s.take)
			e.lastAcquisition = acquisition{lease.Metadata.UID, lease.Spec, s.clean}
			err := e.write(ctx, lease)
			if err == nil {
				r := newTenure(ctx, start, e.options.RenewDeadline)
				return r, lease, e.newTerm(r, lease, s.clean)
			}
			e.afterWrite(ctx, err)
		case s.vacate:
			e.afterWrite(ctx, e.write(ctx, e.vacantLease()))
		case s.wait > 0:
			e.record(&e.writes, nil) // no write is due
			select {
			case <-ctx.Done():
			case <-time.After(s.wait):
			case <-e.view.changed:
			}
		case e.read(ctx) != nil:
			e.retry(ctx)
		}
	}
	return nil, nil, Term{}
}

// afterWrite reads the Lease again after a failed write, and pauses unless the write only
// lost a race.
func (e *Elector) afterWrite(ctx context.Context, err error) {
	if err == nil {
		return
	}
	e.races++
	if e.read(ctx) != nil || err != errRace || e.races%maxRaces == 0 {
		e.retry(ctx)
	}
}

// maxRaces is how many failed writes this replica makes before it pauses.
const maxRaces = 5

// vacantLease returns a Lease without a holder, to replace a deleted one.
func (e *Elector) vacantLease() *kube.Lease {
	klog.InfoS("Re-creating the deleted Lease", "lease", e.options.Namespace+"/"+e.options.Name)
	return e.newLease(kube.LeaseSpec{
		LeaseDurationSeconds: int64(e.options.LeaseDuration / time.Second), RenewTime: stamp(e.clock()), LeaseTransitions: e.view.transitions(),
	})
}

// newLease returns a Lease that does not exist yet.
func (e *Elector) newLease(spec kube.LeaseSpec) *kube.Lease {
	l := &kube.Lease{Spec: spec}
	l.Metadata.Name = e.options.Name
	return l
}

// newTerm returns the Term that r runs.
func (e *Elector) newTerm(r *tenure, l *kube.Lease, clean bool) Term {
	e.terms++
	e.uid = l.Metadata.UID
	return Term{
		Number: l.Spec.LeaseTransitions, ID: fmt.Sprintf("%s-%d", strings.TrimPrefix(e.identity, e.options.Identity+"_"), e.terms), Clean: clean,
		deadline: func() time.Time { return *r.deadline.Load() },
	}
}

// retry waits for a retry period.
func (e *Elector) retry(ctx context.Context) {
	period := e.options.RetryPeriod
	_ = retry.Sleep(ctx, period+rand.N(time.Duration((jitter-1)*float64(period)))) // the caller checks ctx
}

// claim returns the Lease that this replica writes to begin a term.
func (e *Elector) claim(l *kube.Lease) *kube.Lease {
	l = new(*l)
	now := stamp(e.clock())
	if l.Metadata.UID == "" {
		l.Metadata.Name = e.options.Name
	}
	number := l.Spec.LeaseTransitions
	switch {
	case l.Metadata.UID == "":
	case number < 0 || number >= maxSeconds:
		number = 0 // the server accepts only an int32
	default:
		number++
	}
	l.Spec = kube.LeaseSpec{
		HolderIdentity: e.identity, LeaseDurationSeconds: int64(e.options.LeaseDuration / time.Second),
		AcquireTime: now, RenewTime: now, LeaseTransitions: number,
	}
	return l
}

// stamp formats a time as a Lease has it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// errUnchanged is the answer to a write that changed nothing.
var errUnchanged = errors.New("the API server has not changed the Lease")

// errRace is the outcome of a write of a Lease that has changed, or that exists now.
var errRace = errors.New("another replica wrote the Lease first")

// write creates or replaces the Lease, and reads its new state into l. It times out before
// the term that it extends could end.
func (e *Elector) write(ctx context.Context, l *kube.Lease) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.RenewDeadline/2)
	defer cancel()
	before := l.Metadata.ResourceVersion
	var err error
	if l.Metadata.UID == "" {
		err = kube.Create(ctx, e.options.Client, kube.Leases(e.options.Namespace), kube.LeaseFormat, l)
	} else {
		err = kube.Update(ctx, e.options.Client, e.path, kube.LeaseFormat, l)
	}
	switch {
	case kube.Code(err) == http.StatusConflict, l.Metadata.UID != "" && kube.Moved(err):
		e.record(&e.writes, nil)
		return errRace // but a Create fails with 404 if the namespace does not exist
	case err == nil && l.Metadata.ResourceVersion == before:
		err = errUnchanged
	}
	e.record(&e.writes, err)
	if err == nil {
		e.record(&e.reads, nil) // the answer is what a read would return
		e.view.see(new(*l), false)
	}
	return err
}

// read reads the Lease.
func (e *Elector) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.RenewDeadline/2)
	defer cancel()
	l, seen := new(kube.Lease), e.view.count()
	err := kube.Get(ctx, e.options.Client, e.path, kube.LeaseFormat, l)
	if kube.Code(err) == http.StatusNotFound {
		e.record(&e.reads, nil)
		e.view.missing(seen)
		return nil
	}
	e.record(&e.reads, err)
	if err == nil {
		e.view.see(l, false)
	}
	return err
}

// record records the outcome of a read or write. It ignores a cancelled one.
func (e *Elector) record(o *trouble.Outcome, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	o.Was(err, "lease", e.options.Namespace+"/"+e.options.Name)
	e.update(func(s *Status) { s.Failing = cmp.Or(e.writes.Err(), e.reads.Err()) })
}

// recordHolder records the holder of the Lease in the Status.
func (e *Elector) recordHolder(known bool, l *kube.Lease) {
	var spec kube.LeaseSpec
	if l != nil {
		spec = l.Spec
	}
	e.update(func(s *Status) {
		if s.Leader != spec.HolderIdentity || s.Since.IsZero() && known {
			s.Since = time.Now()
			if spec.HolderIdentity != "" && spec.HolderIdentity != e.identity {
				klog.InfoS("Another replica leads", "leader", spec.HolderIdentity, "transitions", spec.LeaseTransitions)
			}
		}
		s.Known, s.Leader, s.Transitions = known, spec.HolderIdentity, spec.LeaseTransitions
	})
}
