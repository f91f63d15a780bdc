package firewall

import (
	"context"
	"errors"
	"testing"
	"time"
)

// TestAwaitWaitsForAnAttempt of what is wanted now, also one that fails.
func TestAwaitWaitsForAnAttempt(t *testing.T) {
	keeping(t, func(t *testing.T, k *Keeper, first, _ *fake) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := k.Await(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without anything wanted: %v", err)
		}
		k.Want(dual())
		if err := k.Await(t.Context()); err != nil || first.has(dual()) || k.Status().Err == nil {
			t.Errorf("while there is no place for rules: %v", err)
		}
		after(time.Minute)
		first.do(func() { first.slow = time.Second })
		r := dual()
		r.Forward = !r.Forward
		began := time.Now()
		k.Want(r)
		if err := k.Await(t.Context()); err != nil || !first.has(r) || time.Since(began) < time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		first.do(func() { first.fails = errors.New("no") })
		k.Want(dual())
		if err := k.Await(t.Context()); err != nil || k.Status().Err == nil {
			t.Errorf("after a failure: %v", err)
		}
	})
}
