package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/retry"
)

// blocked returns a Do that ends when its context does, or release is called.
func blocked() (do func(context.Context, string) error, release func()) {
	open := make(chan struct{})
	return func(ctx context.Context, _ string) error {
		select {
		case <-open:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, func() { close(open) }
}

func TestPlansOnlyInATermAndAfterALaterList(t *testing.T) {
	c := newFake("a", 3)
	run(t, Options{}, func(l *lab) {
		l.feed.lists = false
		l.feed.list()
		l.post(func() {})
		synctest.Wait()
		if c.plans > 0 {
			t.Error("it planned without a term")
		}
		l.begin(election.Term{Number: 7})
		if c.plans > 0 || len(c.led) != 1 || c.led[0].Number != 7 {
			t.Errorf("%d plans before the list, terms %v", c.plans, c.led)
		}
		if s := l.look(); !s.Leading || s.Planning || s.Term != 7 {
			t.Errorf("%+v", s)
		}
		l.feed.list()
		l.post(func() {})
		synctest.Wait()
		if c.written() != 3 {
			t.Errorf("wrote %d of 3", c.written())
		}
		l.lead()
		if !<-l.led {
			t.Error("not clean")
		}
		c.pending = []string{"late"}
		l.post(func() {})
		synctest.Wait()
		if c.written() != 3 {
			t.Error("it wrote after its term")
		}
	}, c)
}

func TestWritesInFlightAreLimitedOverAllControllers(t *testing.T) {
	a, b := newFake("a", 100), newFake("b", 100)
	run(t, Options{}, func(l *lab) {
		do, release := blocked()
		a.do, b.do = do, do
		l.begin(election.Term{})
		if s := l.look(); s.InFlight != mostWrites {
			t.Errorf("%d in flight", s.InFlight)
		}
		release()
		synctest.Wait()
		if a.written() != 100 || b.written() != 100 {
			t.Errorf("wrote %d and %d of 100", a.written(), b.written())
		}
		for _, n := range append(a.asked, b.asked...) {
			if n < 1 || n > mostWrites {
				t.Errorf("asked for %d writes", n)
			}
		}
	}, a, b)
}

// TestControllersTakeTurns: a controller that always has something to write does not block
// another one.
func TestControllersTakeTurns(t *testing.T) {
	greedy, modest := newFake("greedy", 10_000), newFake("modest", 1)
	run(t, Options{}, func(l *lab) {
		greedy.do = func(ctx context.Context, _ string) error { return retry.Sleep(ctx, time.Second) }
		modest.pending = nil
		l.begin(election.Term{})
		l.post(func() { modest.pending = []string{"x"} })
		l.pass(3 * time.Second)
		if modest.written() != 1 {
			t.Error("the modest one has to wait")
		}
		l.post(func() { greedy.pending = nil })
	}, greedy, modest)
}

func TestRetryAfterPausesEveryWrite(t *testing.T) {
	c := newFake("a", 1)
	var tries atomic.Int32
	c.do = func(context.Context, string) error {
		if tries.Add(1) == 1 {
			return &kube.Error{Code: http.StatusTooManyRequests, After: 20 * time.Second}
		}
		return nil
	}
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{})
		if s := l.look(); time.Until(s.Paused) < 20*time.Second {
			t.Errorf("paused for %s", time.Until(s.Paused))
		}
		l.post(func() { c.pending = append(c.pending, "another") })
		l.pass(19 * time.Second)
		if n := tries.Load(); n != 1 {
			t.Errorf("%d tries within the pause", n)
		}
		l.pass(10 * time.Second)
		if c.written() != 2 {
			t.Errorf("wrote %d of 2", c.written())
		}
	}, c)
}

// TestEngineBacksOffFromAFailingServer: an Engine does not try every object on a server that
// is down.
func TestEngineBacksOffFromAFailingServer(t *testing.T) {
	c := newFake("a", 10_000)
	var tries atomic.Int32
	var works atomic.Bool
	c.do = func(context.Context, string) error {
		if tries.Add(1); works.Load() {
			return nil
		}
		return errors.New("connection refused")
	}
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{})
		l.pass(time.Minute)
		// The first turn, and at most one for each back-off that grows to ten seconds.
		if most := mostWrites * 25; int(tries.Load()) > most {
			t.Errorf("%d tries in a minute, at most %d", tries.Load(), most)
		}
		works.Store(true)
		l.pass(backoff.Last)
		if c.written() != 10_000 {
			t.Errorf("wrote %d of 10000 after the server came back", c.written())
		}
	}, c)
}

// TestRefusedObjectDelaysNoOther: a refused write of one object does not delay other objects.
func TestRefusedObjectDelaysNoOther(t *testing.T) {
	for _, code := range []int{
		http.StatusConflict, http.StatusNotFound, http.StatusUnprocessableEntity,
		http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusGone, http.StatusFound,
	} {
		c := newFake("a", 100)
		refused := 0
		c.do = func(_ context.Context, name string) error {
			if name == "a-0" && refused < 3 {
				refused++
				return &kube.Error{Code: code}
			}
			return nil
		}
		run(t, Options{}, func(l *lab) {
			began := time.Now()
			l.begin(election.Term{})
			if took := time.Since(began); c.written() != 100 || took > 0 {
				t.Errorf("%d: wrote %d of 100 after %s", code, c.written(), took)
			}
			if n := l.look().Counts[Count{"a", Patch, Refused}]; n != 3 {
				t.Errorf("%d: counts %d refusals", code, n)
			}
		}, c)
	}
}

func TestObserveMakesNoWrite(t *testing.T) {
	c := newFake("a", 5)
	c.do = func(context.Context, string) error { t.Error("a write"); return nil }
	run(t, Options{Mode: ObserveMode}, func(l *lab) {
		l.Follow()
		l.feed.list()
		l.post(func() {})
		l.pass(observeInterval)
		if s := l.look(); len(s.Planned["a"]) != 5 || !s.Planning || s.Leading {
			t.Errorf("%+v", s)
		}
		for name, all := range c.errors {
			if all[0] != ErrNotMade {
				t.Errorf("%s: %v", name, all)
			}
		}
		// A hundred changes within a second cause one more plan.
		plans := c.plans
		for range 100 {
			l.post(func() {})
		}
		l.pass(observeInterval)
		if more := c.plans - plans; more < 1 || more > 2 {
			t.Errorf("%d plans for a hundred changes", more)
		}
		plans = c.plans
		l.pass(time.Hour)
		if c.plans != plans {
			t.Errorf("%d plans without a change", c.plans-plans)
		}
	}, c)
}

// TestEnginePlansAgainWhenAsked: the Engine plans again at the time that Plan returned,
// without an event, in both modes.
func TestEnginePlansAgainWhenAsked(t *testing.T) {
	for _, mode := range []Mode{WriteMode, ObserveMode} {
		c := newFake("a", 0)
		c.again = time.Minute
		run(t, Options{Mode: mode}, func(l *lab) {
			l.begin(election.Term{})
			l.pass(time.Hour + time.Second)
			if c.plans < 59 || c.plans > 65 {
				t.Errorf("%s: %d plans in an hour", mode, c.plans)
			}
		}, c)
	}
}

func TestPlanAllWritesNothing(t *testing.T) {
	c := newFake("a", 100)
	c.do = func(context.Context, string) error { t.Error("a write"); return nil }
	run(t, Options{Mode: ObserveMode}, func(l *lab) {
		writes, err := l.PlanAll(l.t.Context())
		if len(writes) != 100 || err != nil {
			t.Errorf("%d writes, %v", len(writes), err)
		}
	}, c)
}

// TestDeniedControllerPausesAlone: a controller backs off if the server denies it every
// object, as without a right. The other controllers continue.
func TestDeniedControllerPausesAlone(t *testing.T) {
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		denied, other := newFake("denied", 10_000), newFake("other", 0)
		var tries atomic.Int32
		var allowed atomic.Bool
		denied.do = func(context.Context, string) error {
			if tries.Add(1); allowed.Load() {
				return nil
			}
			return &kube.Error{Code: code}
		}
		run(t, Options{}, func(l *lab) {
			l.begin(election.Term{})
			l.pass(time.Minute)
			if most := mostWrites * 25; int(tries.Load()) > most {
				t.Errorf("%d: %d tries in a minute, at most %d", code, tries.Load(), most)
			}
			if s := l.look(); s.Paused.IsZero() || s.Counts[Count{"denied", Patch, Refused}] != int(tries.Load()) {
				t.Errorf("%d: %+v", code, s)
			}
			began := time.Now()
			l.post(func() { other.pending = append(other.pending, "x") })
			synctest.Wait()
			if n, took := l.wrote(other), time.Since(began); n != 1 || took > 0 {
				t.Errorf("%d: wrote %d of another controller's after %s", code, n, took)
			}
			allowed.Store(true)
			l.pass(backoff.Last)
			if s, n := l.look(), l.wrote(denied); n != 10_000 || !s.Paused.IsZero() {
				t.Errorf("%d: wrote %d of 10000 when it was allowed, %+v", code, n, s)
			}
		}, denied, other)
	}
}

// TestRevokedRightPausesTheController: after its right was revoked in a term, a controller
// stays paused, also once the server has denied every object.
func TestRevokedRightPausesTheController(t *testing.T) {
	c := newFake("a", 1)
	var revoked atomic.Bool
	var tries atomic.Int32
	c.do = func(context.Context, string) error {
		if tries.Add(1); revoked.Load() {
			return &kube.Error{Code: http.StatusForbidden}
		}
		return nil
	}
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{})
		revoked.Store(true)
		l.post(func() {
			for i := range 2 * mostWrites {
				c.pending = append(c.pending, fmt.Sprint("b-", i))
			}
			c.hold = 3 * time.Second // the controller's own back-off
		})
		l.pass(2 * time.Minute)
		before := tries.Load()
		l.pass(time.Minute)
		if n, most := tries.Load()-before, int32(7*mostWrites); n < 1 || n > most {
			t.Errorf("%d tries in a minute, want 1 to %d", n, most)
		}
		revoked.Store(false)
		l.pass(backoff.Last + c.hold)
		if n := l.wrote(c); n != 1+2*mostWrites {
			t.Errorf("wrote %d of %d when it was allowed again", n, 1+2*mostWrites)
		}
	}, c)
}

// TestDeniedObjectsDelayNoOther: objects that a policy always denies do not delay others,
// however many they are, once a write of another object has succeeded. Before that, the
// server may deny everything.
func TestDeniedObjectsDelayNoOther(t *testing.T) {
	c := newFake("a", 1)
	c.do = func(_ context.Context, name string) error {
		if strings.HasPrefix(name, "denied-") {
			return &kube.Error{Code: http.StatusForbidden}
		}
		return nil
	}
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{})
		l.post(func() {
			for i := range 10 * fewDenials {
				c.pending = append(c.pending, fmt.Sprint("denied-", i))
			}
			c.hold = time.Second // the controller's own back-off
		})
		l.pass(time.Minute)
		for i := range 10 {
			began := time.Now()
			l.post(func() { c.pending = append(c.pending, fmt.Sprint("new-", i)) })
			synctest.Wait()
			if i == 0 {
				l.pass(backoff.Last)
				began = time.Now()
			}
			if n, took := l.wrote(c), time.Since(began); n != 2+i || took > 0 {
				t.Fatalf("wrote %d of %d after %s", n, 2+i, took)
			}
			l.pass(30 * time.Second)
		}
		if n := l.look().Counts[Count{"a", Patch, Refused}]; n < 1000 {
			t.Errorf("%d refusals: the denied objects were not retried", n)
		}
	}, c)
}

// TestDenialsAreLimited: denials keeps a limited number of objects.
func TestDenialsAreLimited(t *testing.T) {
	var d denials
	for i := range 3 * mostDenials {
		d.add(Ref{Name: fmt.Sprint(i)}, time.Now())
	}
	if len(d.objects) > mostDenials {
		t.Errorf("%d objects are kept", len(d.objects))
	}
}

// TestOnlySuccessShowsThatTheServerWorks: a server that fails and then denies writes counts
// as working only after a successful write.
func TestOnlySuccessShowsThatTheServerWorks(t *testing.T) {
	const works = "Writing to the API server works again"
	for code, after := range map[int]int{http.StatusForbidden: 0, http.StatusUnauthorized: 0, http.StatusUnprocessableEntity: 1, http.StatusConflict: 0} {
		log.Take()
		c := newFake("a", 1)
		c.hold = time.Second
		answers := []error{
			&kube.Error{Code: http.StatusInternalServerError},
			&kube.Error{Code: code}, &kube.Error{Code: code},
			&kube.Error{Code: http.StatusInternalServerError},
			&kube.Error{Code: code},
		}
		tries := 0
		c.do = func(context.Context, string) error {
			if tries++; tries <= len(answers) {
				return answers[tries-1]
			}
			return nil
		}
		run(t, Options{}, func(l *lab) {
			l.begin(election.Term{})
			for range 30 {
				l.pass(time.Second)
				if l.wrote(c) == 0 && log.Count(works) > 2*after {
					t.Fatalf("%d: after %d tries, %d lines say that the server works", code, tries, log.Count(works))
				}
			}
			if n, want := log.Count(works), max(1, 2*after); l.wrote(c) != 1 || n != want {
				t.Errorf("%d: %d lines say that the server works, want %d", code, n, want)
			}
		}, c)
	}
}

// TestDeniedObjectLogsOneLine: an object that is denied repeatedly, while writes of others
// succeed, does not log "refused" and "works again" in turn.
func TestDeniedObjectLogsOneLine(t *testing.T) {
	log.Take()
	c := newFake("a", 1)
	c.hold = time.Second
	c.do = func(_ context.Context, name string) error {
		if name == "a-0" {
			return &kube.Error{Code: http.StatusForbidden}
		}
		return nil
	}
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{})
		for i := range 100 {
			l.post(func() { c.pending = append(c.pending, fmt.Sprint("b-", i)) })
			l.pass(time.Second)
		}
		if n := log.Count("works again"); n != 0 || l.wrote(c) != 100 {
			t.Errorf("%d lines say that something works again, %d written", n, l.wrote(c))
		}
	}, c)
}
