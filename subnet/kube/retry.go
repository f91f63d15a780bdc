package kube

import (
	"context"
	"errors"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// try is the time limit of one attempt.
const try = 15 * time.Second

// retry calls f until it succeeds, fails for good or ctx ends. Each attempt has its
// own time limit.
func (s *Store) retry(ctx context.Context, what string, f func(context.Context) error) error {
	for failures := 1; ; failures++ {
		attempt, cancel := context.WithTimeout(ctx, try)
		err := f(attempt)
		cancel()
		switch {
		case err == nil:
			s.trouble.Over(what)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isFinal(err):
			return err
		}
		s.trouble.Failed(what, err)
		if err := kube.Pause(ctx, failures, err); err != nil {
			return err
		}
	}
}

// isFinal reports whether a retry cannot help.
func isFinal(err error) bool {
	return errors.Is(err, subnet.ErrTaken) || errors.Is(err, subnet.ErrValue) || errors.Is(err, errMoved)
}

// waitFor waits until changed is closed, d has passed, or ctx ends. The error is
// ctx's.
func waitFor(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
	case <-timer.C:
	}
	return ctx.Err()
}

// wait waits until changed is closed or ctx ends. The error is ctx's.
func wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return ctx.Err()
	}
}
