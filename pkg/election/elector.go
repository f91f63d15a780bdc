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
	sight    sight
	clock    func() time.Time // the wall clock, whose time is written into the Lease
	reads    trouble.Outcome
	writes   trouble.Outcome

	terms   int     // of this replica so far
	uid     string  // of the last term's Lease
	clean   bool    // no write of the last term or of an earlier one can still arrive
	attempt attempt // the last one to take a Lease
	sent    sending // the last renewal
	races   int     // writes that failed

	mu     sync.Mutex
	status Status
}

// attempt is an update that begins a term. Its answer may be lost.
type attempt struct {
	uid   string
	spec  kube.LeaseSpec
	clean bool
}

// own reports whether a term may begin at once with the Lease l because this replica
// holds it, and whether that term is clean. Every update names the state that it
// replaces, so no other replica has led since the last term, or since an update without
// an answer. A creation names no state: other replicas may have led before it arrived.
func (e *Elector) own(l *kube.Lease) (atOnce, clean bool) {
	switch uid := l.Metadata.UID; {
	case l.Spec.HolderIdentity != e.identity, uid == "":
		return false, false
	case uid == e.attempt.uid && l.Spec == e.attempt.spec:
		return true, e.attempt.clean
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
	e.sight.changed = retry.NewWakeup()
	e.reads = trouble.Outcome{Failed: "Failed to read the Lease; retrying", Works: "Reading the Lease no longer fails", EachReason: true}
	e.writes = trouble.Outcome{Failed: "Failed to write the Lease; retrying", Works: "Writing the Lease no longer fails", EachReason: true}
	e.status.Identity = e.identity
	return e, nil
}

// Status returns the present state. It may be called at any time.
func (e *Elector) Status() Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

// update changes the status.
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
// until it returns. The context of lead ends with the term. lead reports whether its end
// is clean: no write of its term or of an earlier one can still arrive. Run then
// releases the Lease at once.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, t Term) (clean bool)) {
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	watch := &kube.Watch[kube.Lease]{
		Client: e.options.Client, Path: kube.Leases(e.options.Namespace), Name: e.options.Name, Format: kube.LeaseFormat,
		Sink: follow{&e.sight}, Report: func(error) {}, // a failure shows when the Lease is read
	}
	running.Go(func() { watch.Run(watching) })
	for {
		r, lease, t := e.acquire(ctx)
		if r == nil {
			return
		}
		if e.reign(r, lease, t, lead) {
			e.retry(ctx) // another replica may lead now
		}
	}
}

// acquire waits until this replica holds the Lease, and begins a term. It returns nil
// if ctx ends first.
func (e *Elector) acquire(ctx context.Context) (*reign, *kube.Lease, Term) {
	for ctx.Err() == nil {
		e.saw(e.sight.present())
		switch s := e.sight.next(time.Now(), e.options, e.own); {
		case s.take != nil:
			start := time.Now()
			lease := e.claim(s.take)
			e.attempt = attempt{lease.Metadata.UID, lease.Spec, s.clean}
			err := e.put(ctx, lease)
			if err == nil {
				r := newReign(ctx, start, e.options.RenewDeadline)
				return r, lease, e.term(r, lease, s.clean)
			}
			e.again(ctx, err)
		case s.vacate:
			e.again(ctx, e.put(ctx, e.vacant()))
		case s.wait > 0:
			e.was(&e.writes, nil) // no write is due
			select {
			case <-ctx.Done():
			case <-time.After(s.wait):
			case <-e.sight.changed:
			}
		case e.look(ctx) != nil:
			e.retry(ctx)
		}
	}
	return nil, nil, Term{}
}

// again prepares the next step after a write, which may have failed.
func (e *Elector) again(ctx context.Context, err error) {
	if err == nil {
		return
	}
	e.races++
	if e.look(ctx) != nil || err != errRace || e.races%races == 0 {
		e.retry(ctx)
	}
}

// races is how often a write may lose a race before this replica pauses.
const races = 5

// vacant returns a Lease without a holder, to replace a deleted one.
func (e *Elector) vacant() *kube.Lease {
	klog.InfoS("Creating the Lease again; it was deleted", "lease", e.options.Namespace+"/"+e.options.Name)
	return e.lease(kube.LeaseSpec{
		LeaseDurationSeconds: int64(e.options.LeaseDuration / time.Second), RenewTime: stamp(e.clock()), LeaseTransitions: e.sight.transitions(),
	})
}

// lease returns a new Lease.
func (e *Elector) lease(spec kube.LeaseSpec) *kube.Lease {
	l := &kube.Lease{Spec: spec}
	l.Metadata.Name = e.options.Name
	return l
}

// term returns the term of r.
func (e *Elector) term(r *reign, l *kube.Lease, clean bool) Term {
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
	case number < 0 || number >= longest:
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

// stamp returns a time in the format of a Lease.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

// errUnchanged is the answer to a write that changed nothing.
var errUnchanged = errors.New("the API server has not changed the Lease")

// errRace is the outcome of a write of a Lease that has changed, or that exists now.
var errRace = errors.New("another replica wrote the Lease first")

// put creates or replaces the Lease, and reads its new state into l. It times out before
// the term that it extends could end.
func (e *Elector) put(ctx context.Context, l *kube.Lease) error {
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
		e.was(&e.writes, nil)
		return errRace // but a Create fails with 404 if the namespace does not exist
	case err == nil && l.Metadata.ResourceVersion == before:
		err = errUnchanged
	}
	e.was(&e.writes, err)
	if err == nil {
		e.was(&e.reads, nil) // the answer is what a read would return
		e.sight.see(new(*l), false)
	}
	return err
}

// look reads the Lease.
func (e *Elector) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.options.RenewDeadline/2)
	defer cancel()
	l, seen := new(kube.Lease), e.sight.count()
	err := kube.Get(ctx, e.options.Client, e.path, kube.LeaseFormat, l)
	if kube.Code(err) == http.StatusNotFound {
		e.was(&e.reads, nil)
		e.sight.missing(seen)
		return nil
	}
	e.was(&e.reads, err)
	if err == nil {
		e.sight.see(l, false)
	}
	return err
}

// was records the outcome of a read or write. A cancelled one has no outcome.
func (e *Elector) was(o *trouble.Outcome, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	o.Was(err, "lease", e.options.Namespace+"/"+e.options.Name)
	e.update(func(s *Status) { s.Failing = cmp.Or(e.writes.Err(), e.reads.Err()) })
}

// saw records the holder of the Lease in the Status.
func (e *Elector) saw(known bool, l *kube.Lease) {
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
