package kube

import (
	"context"
	"errors"
	"time"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/subnet"
)

// try is how long one attempt may take.
const try = 15 * time.Second

// retry does f until it succeeds, fails for good or ctx ends. Each try has a time
// of its own.
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

// waitFor ends with ctx, which gives the error, with a change, or after a time.
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

// wait ends with ctx, which gives the error, or with a change.
func wait(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-changed:
		return ctx.Err()
	}
}
