package kube

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/tulle-net/tulle/subnet"
)

const (
	// try is how long one attempt may take.
	try       = 15 * time.Second
	firstWait = 100 * time.Millisecond
	lastWait  = 30 * time.Second
	// patience is the longest that a server is left alone because it asks for it.
	patience = 5 * time.Minute
)

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
		case final(err):
			return err
		}
		s.trouble.Failed(what, err)
		if err := s.pause(ctx, failures, err); err != nil {
			return err
		}
	}
}

// final says whether to try again would be of no use.
func final(err error) bool {
	return errors.Is(err, subnet.ErrTaken) || errors.Is(err, subnet.ErrValue) || errors.Is(err, errMoved)
}

// pause waits after so many failures in a row, the last of which was err: half of
// the time at least, so that nodes which failed together do not come back
// together, and not before the server wants to be asked again.
func (s *Store) pause(ctx context.Context, failures int, err error) error {
	d := min(firstWait<<min(failures-1, 10), lastWait)
	d = d/2 + rand.N(d/2)
	var refused *apiError
	if errors.As(err, &refused) && refused.After > 0 {
		after := min(refused.After, patience)
		d = max(d, after+rand.N(after/2+1))
	}
	return waitFor(ctx, nil, d)
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
