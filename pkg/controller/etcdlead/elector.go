package etcdlead

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/trouble"
)

// Options are the settings of an Elector.
type Options struct {
	Client *clientv3.Client
	// Prefix begins the keys, like /coreos.com/network/tulle-controller.
	Prefix string
	// Identity is this replica's name. No other replica has it.
	Identity string
	// LeaseDuration is the time after its last renewal for which a leader keeps the others
	// out. RenewDeadline is the time after which the leader stops. RetryPeriod is the
	// interval of renewals.
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
	// Changed, if set, is called after a change of Status. It must not wait.
	Changed func()
}

// Elector elects one leader among the replicas with the same keys.
type Elector struct {
	options Options
	outcome trouble.Outcome

	mu     sync.Mutex
	status election.Status
	term   int64 // the revision that began the term; 0 while this replica does not lead
}

// New returns an Elector.
func New(o Options) *Elector {
	return &Elector{
		options: o, status: election.Status{Identity: o.Identity},
		outcome: trouble.Outcome{Failed: "Failed to elect a leader in etcd; retrying", Works: "Electing a leader in etcd works again"},
	}
}

// The keys, after the prefix.
func (e *Elector) leaderKey() string { return e.options.Prefix + "/leader" }
func (e *Elector) cleanKey() string  { return e.options.Prefix + "/clean" } // the last leader ended after its last write
func (e *Elector) begunKey() string  { return e.options.Prefix + "/begun" } // there was a leader

// callLimit is the timeout of a request.
const callLimit = 5 * time.Second

// releaseLimit is the timeout of each request of a release, because a stopping program waits
// for it.
const releaseLimit = time.Second

// Status returns the state of the election.
func (e *Elector) Status() election.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.status
}

func (e *Elector) update(f func(s *election.Status)) {
	e.mu.Lock()
	before := e.status
	f(&e.status)
	changed := before.Leader != e.status.Leader || before.Leading != e.status.Leading || (before.Failing == nil) != (e.status.Failing == nil)
	e.mu.Unlock()
	if changed && e.options.Changed != nil {
		e.options.Changed()
	}
}

// Guard returns the condition of the leader's writes: the leader's key is still that of its
// term. Outside a term, the condition never holds.
func (e *Elector) Guard() []clientv3.Cmp {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.term == 0 {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.leaderKey()), "<", 0)}
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(e.leaderKey()), "=", e.term)}
}

// begin sets the term that Guard compares with.
func (e *Elector) begin(revision int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.term = revision
}

// Run calls lead whenever this replica leads, until ctx ends. lead returns when its
// context ends, and reports whether the outcome of every write is known.
func (e *Elector) Run(ctx context.Context, lead func(ctx context.Context, t election.Term) (clean bool)) {
	for ctx.Err() == nil {
		err := e.attempt(ctx, lead)
		if ctx.Err() != nil {
			return
		}
		e.outcome.Was(err)
		e.update(func(s *election.Status) { s.Failing = err })
		_ = retry.Backoff{First: e.options.RetryPeriod, Last: e.options.RetryPeriod}.Sleep(ctx, 1)
	}
}

// attempt waits until no replica leads, and then tries to lead.
func (e *Elector) attempt(ctx context.Context, lead func(context.Context, election.Term) bool) error {
	if err := e.awaitVacancy(ctx); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	sent := time.Now()
	lease, err := e.options.Client.Grant(within, int64(e.options.LeaseDuration/time.Second))
	if err != nil {
		return fmt.Errorf("grant a lease: %w", err)
	}
	won, err := e.options.Client.Txn(within).
		If(clientv3.Compare(clientv3.CreateRevision(e.leaderKey()), "=", 0)).
		Then(
			clientv3.OpGet(e.cleanKey()), clientv3.OpGet(e.begunKey()), clientv3.OpDelete(e.cleanKey()), clientv3.OpPut(e.begunKey(), e.options.Identity),
			clientv3.OpPut(e.leaderKey(), e.options.Identity, clientv3.WithLease(lease.ID)),
		).Commit()
	if err != nil || !won.Succeeded {
		// The request may still arrive. Without its lease, it has no effect.
		e.revoke(lease.ID)
		return err
	}
	wasClean := len(won.Responses[0].GetResponseRange().Kvs) > 0 || len(won.Responses[1].GetResponseRange().Kvs) == 0
	e.runTerm(ctx, sent, lease.ID, won.Header.Revision, wasClean, lead)
	return nil
}

// awaitVacancy waits until no replica leads.
func (e *Elector) awaitVacancy(ctx context.Context) error {
	for {
		within, cancel := context.WithTimeout(ctx, callLimit)
		got, err := e.options.Client.Get(within, e.leaderKey())
		cancel()
		if err != nil {
			return fmt.Errorf("read the leader's key %s: %w", e.leaderKey(), err)
		}
		if len(got.Kvs) == 0 {
			e.update(func(s *election.Status) { s.Known, s.Leader, s.Failing = true, "", nil })
			return nil
		}
		kv := got.Kvs[0]
		leader := nameOf(kv.Value)
		if kv.Lease == 0 {
			return fmt.Errorf("key %s with the leader %s has no lease in etcd, so it never expires; delete it", e.leaderKey(), leader)
		}
		e.update(func(s *election.Status) {
			if s.Leader != leader || s.Transitions != kv.CreateRevision {
				s.Since = time.Now()
			}
			s.Known, s.Leader, s.Transitions, s.Failing = true, leader, kv.CreateRevision, nil
		})
		if e.follow(ctx, got.Header.Revision+1) != nil {
			_ = retry.Sleep(ctx, e.options.RetryPeriod) // etcd may reject every watch
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// longestName is the maximum length of a leader's name, which is that of a host name.
const longestName = 253

// nameOf returns the name of a leader. It quotes a strange name, because another program may
// have written it.
func nameOf(value []byte) string {
	isOdd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsGraphic(r) }
	if s := string(value); s != "" && len(s) <= longestName && strings.IndexFunc(s, isOdd) < 0 {
		return s
	}
	return fmt.Sprintf("%.80q", value)
}

// follow waits for a change of the leader's key, for at most the lease duration. It returns an
// error if the watch failed.
func (e *Elector) follow(ctx context.Context, from int64) error {
	within, cancel := context.WithTimeout(clientv3.WithRequireLeader(ctx), e.options.LeaseDuration)
	defer cancel()
	for answer := range e.options.Client.Watch(within, e.leaderKey(), clientv3.WithRev(from)) {
		if err := answer.Err(); err != nil || len(answer.Events) > 0 {
			return err
		}
	}
	return nil
}

// errDeadline and errLost are the reasons for the end of a term.
var (
	errDeadline error = endError{"the lease in etcd was not renewed in time", election.ErrDeadline}
	errLost     error = endError{"the lease in etcd is gone", election.ErrLost}
)

// endError wraps one of package election's reasons, with a text about etcd.
type endError struct {
	text   string
	reason error
}

func (e endError) Error() string { return e.text }

func (e endError) Unwrap() error { return e.reason }

// runTerm runs a term: it calls lead, and renews the lease until the term ends.
func (e *Elector) runTerm(ctx context.Context, sent time.Time, id clientv3.LeaseID, revision int64, wasClean bool, lead func(context.Context, election.Term) bool) {
	within, end := context.WithCancelCause(ctx)
	defer end(nil)
	var deadline atomic.Pointer[time.Time]
	set := func(sent time.Time) {
		d := sent.Add(e.options.RenewDeadline)
		deadline.Store(&d)
	}
	set(sent)
	timer := time.AfterFunc(time.Until(*deadline.Load()), func() { end(errDeadline) })
	defer timer.Stop()
	e.begin(revision)
	defer e.begin(0)
	klog.InfoS("Leading", "identity", e.options.Identity, "revision", revision, "clean", wasClean)
	e.update(func(s *election.Status) {
		s.Known, s.Leading, s.Leader, s.Since, s.Renewed, s.Transitions = true, true, e.options.Identity, time.Now(), sent, revision
	})
	ended := make(chan bool, 1)
	go func() {
		ended <- lead(within, election.NewTerm(revision, wasClean, func() time.Time { return *deadline.Load() }))
	}()
	clean, returned := false, false
	for !returned && within.Err() == nil {
		pause := time.NewTimer(e.options.RetryPeriod)
		select {
		case clean = <-ended:
			returned = true
		case <-within.Done():
		case <-pause.C:
			if at, err := e.renew(within, id); err == nil {
				timer.Reset(time.Until(at.Add(e.options.RenewDeadline)))
				set(at)
				e.update(func(s *election.Status) { s.Renewed, s.Failing = at, nil })
			} else if errors.Is(err, errLost) {
				end(errLost)
			} else {
				e.update(func(s *election.Status) { s.Failing = err })
			}
		}
		pause.Stop()
	}
	why := context.Cause(within)
	end(nil)
	e.update(func(s *election.Status) { s.Leading, s.Leader, s.Renewed = false, "", time.Time{} })
	if !returned {
		clean = <-ended
	}
	klog.InfoS("Stopped leading", "identity", e.options.Identity, "reason", why, "clean", clean)
	if !errors.Is(why, errLost) {
		e.release(id, revision, clean)
	}
}

// renew extends the lease once, and returns the time at which it sent the request.
func (e *Elector) renew(ctx context.Context, id clientv3.LeaseID) (sent time.Time, err error) {
	within, cancel := context.WithTimeout(ctx, e.options.RetryPeriod)
	defer cancel()
	sent = time.Now()
	answer, err := e.options.Client.KeepAliveOnce(within, id)
	if isGone(err) || err == nil && answer.TTL <= 0 {
		return sent, errLost
	}
	return sent, err
}

// release ends the term in etcd, so that the next leader begins at once.
func (e *Elector) release(id clientv3.LeaseID, revision int64, clean bool) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	ops := []clientv3.Op{clientv3.OpDelete(e.leaderKey())}
	if clean {
		ops = append(ops, clientv3.OpPut(e.cleanKey(), e.options.Identity))
	}
	_, err := e.options.Client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(e.leaderKey()), "=", revision)).Then(ops...).Commit()
	if err != nil {
		klog.InfoS("Failed to release the leader's key; it expires with its lease", "key", e.leaderKey(), "reason", err)
	}
	e.revoke(id)
}

// revoke revokes an etcd lease. If the request fails, the lease expires after its duration.
func (e *Elector) revoke(id clientv3.LeaseID) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseLimit)
	defer cancel()
	_, _ = e.options.Client.Revoke(ctx, id)
}
