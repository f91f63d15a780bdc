package kube

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// TestRetryAfterIsHonoured: a program waits as long as the API server asks for, within
// limits.
func TestRetryAfterIsHonoured(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			after       time.Duration
			least, most time.Duration
		}{
			{0, backoff.First / 2, backoff.First},
			{100 * time.Second, 100 * time.Second, 150 * time.Second},
			{24 * time.Hour, patience, patience * 3 / 2},
		} {
			began := time.Now()
			if err := Pause(t.Context(), 1, &Error{After: c.after}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < c.least || took > c.most {
				t.Errorf("asked for %s: waited %s, not from %s to %s", c.after, took, c.least, c.most)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := Pause(ctx, 1, &Error{After: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a pause whose context ended: %v", err)
		}
	})
}
