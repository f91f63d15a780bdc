package controller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
)

func TestTermEndsAfterItsWrites(t *testing.T) {
	c := newFake("a", 100)
	run(t, Options{}, func(l *lab) {
		do, release := blocked()
		c.do = do
		l.begin(election.Term{})
		l.lead()
		l.pass(endLimit / 2)
		select {
		case <-l.led:
			t.Error("it ended before its writes")
		default:
		}
		release()
		if !<-l.led {
			t.Error("not clean, and every write was confirmed")
		}
		if c.written() != mostWrites {
			t.Errorf("%d writes", c.written())
		}
	}, c)
}

func TestTermThatCutsWritesOffIsNotClean(t *testing.T) {
	c := newFake("a", 1)
	run(t, Options{WriteTimeout: time.Minute}, func(l *lab) {
		c.do, _ = blocked()
		l.begin(election.Term{})
		began := time.Now()
		l.lead()
		if <-l.led {
			t.Error("clean")
		}
		if took := time.Since(began); took != endLimit {
			t.Errorf("it ended after %s", took)
		}
		if err := c.errors["a-0"]; len(err) != 1 || !errors.Is(err[0], context.Canceled) {
			t.Errorf("%v", err)
		}
	}, c)
}

// TestLostAnswerMakesATermUnclean: soon after a lost answer, a term does not end clean,
// because the server may still apply the write.
func TestLostAnswerMakesATermUnclean(t *testing.T) {
	for wait, want := range map[time.Duration]bool{time.Second: false, settleTime - time.Second: false, settleTime + time.Second: true} {
		c := newFake("a", 1)
		lost := false
		c.do = func(context.Context, string) error {
			if !lost {
				lost = true
				return &kube.Error{Code: http.StatusInternalServerError}
			}
			return nil
		}
		run(t, Options{}, func(l *lab) {
			l.begin(election.Term{})
			l.pass(wait)
			l.lead()
			if clean := <-l.led; clean != want || c.written() != 1 {
				t.Errorf("after %s: clean is %t, %d written", wait, clean, c.written())
			}
		}, c)
	}
}

func TestTermIsNotCleanBeforeItsControllersAre(t *testing.T) {
	c := newFake("a", 1)
	c.unclean = true
	run(t, Options{}, func(l *lab) {
		l.begin(election.Term{})
		l.lead()
		if <-l.led {
			t.Error("clean")
		}
	}, c)
}

// TestNoWriteBeginsNearTheDeadline: no write begins that could outlast its term.
func TestNoWriteBeginsNearTheDeadline(t *testing.T) {
	c := newFake("a", 1)
	end := time.Time{}
	run(t, Options{WriteTimeout: 5 * time.Second}, func(l *lab) {
		end = time.Now().Add(4 * time.Second)
		l.begin(election.NewTerm(1, true, func() time.Time { return end }))
		l.pass(time.Second)
		if c.plans > 0 {
			t.Error("it planned")
		}
		l.post(func() { end = time.Now().Add(10 * time.Second) }) // a renewal
		l.pass(deadlinePoll)
		if c.written() != 1 {
			t.Error("it did not write after the renewal")
		}
	}, c)
}

func TestWriteTimesOut(t *testing.T) {
	c := newFake("a", 1)
	run(t, Options{WriteTimeout: 5 * time.Second}, func(l *lab) {
		c.do, _ = blocked()
		l.begin(election.Term{})
		l.pass(5 * time.Second)
		if err := c.errors["a-0"]; len(err) == 0 || !errors.Is(err[0], context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
	}, c)
}

func TestEachTermListsAgain(t *testing.T) {
	c := newFake("a", 0)
	run(t, Options{}, func(l *lab) {
		for term := range 3 {
			l.begin(election.Term{Number: int64(term)})
			l.lead()
			<-l.led
		}
		if l.feed.wanted != 3 || len(c.led) != 3 {
			t.Errorf("%d lists in %d terms", l.feed.wanted, len(c.led))
		}
	}, c)
}

// TestStopWaitsForWritesUntilTheDeadline: a stopping program waits for its writes, but only
// while its Lease keeps the next leader out. After a lost term it waits less.
func TestStopWaitsForWritesUntilTheDeadline(t *testing.T) {
	for name, c := range map[string]struct {
		why  error
		left time.Duration // until the deadline; 0 is a term without one
		want time.Duration
	}{
		"stopped, no election": {context.Canceled, 0, endLimit},
		"stopped, renewed":     {context.Canceled, 9 * time.Second, endLimit},
		"stopped, hung":        {context.Canceled, 3 * time.Second, 3 * time.Second},
		"stopped at the end":   {context.Canceled, 10 * time.Millisecond, cutLimit},
		"not renewed":          {election.ErrDeadline, -time.Millisecond, cutLimit},
		"lost":                 {election.ErrLost, 9 * time.Second, cutLimit},
		"lost otherwise":       {fmt.Errorf("etcd: %w", election.ErrLost), 9 * time.Second, cutLimit},
	} {
		f := newFake("a", 1)
		run(t, Options{WriteTimeout: time.Minute}, func(l *lab) {
			f.do, _ = blocked()
			ctx, end := context.WithCancelCause(l.t.Context())
			var term election.Term
			var deadline time.Time
			if c.left != 0 {
				term = election.NewTerm(1, true, func() time.Time { return deadline })
			}
			deadline = time.Now().Add(time.Hour)
			go func() { l.led <- l.Lead(ctx, term) }()
			synctest.Wait()
			deadline = time.Now().Add(c.left)
			began := time.Now()
			end(c.why)
			if <-l.led {
				t.Errorf("%s: clean", name)
			}
			if took := time.Since(began); took != c.want {
				t.Errorf("%s: it ended after %s, want %s", name, took, c.want)
			}
		}, f)
	}
}
