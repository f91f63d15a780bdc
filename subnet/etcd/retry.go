package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/subnet"
)

const (
	// The first try gets firstTry: with several endpoints the next try probably uses
	// another. Later ones get more, for a slow etcd.
	firstTry = 5 * time.Second
	lastTry  = 10 * time.Second
)

// pauses are the waits between tries.
var pauses = retry.Backoff{First: 100 * time.Millisecond, Last: 15 * time.Second}

// shortestPause is the wait from a new connection to the next try. It limits the tries
// on an etcd that closes each connection at once.
const shortestPause = 200 * time.Millisecond

// retry calls f until it succeeds, fails for good or ctx ends. Each try has its own
// time limit.
func (s *Store) retry(ctx context.Context, what string, f func(context.Context) error) error {
	return s.retryParts(ctx, what, func(limit time.Duration) error {
		try, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		return f(try)
	})
}

// retryParts is retry for an f that consists of several requests, and limits each.
func (s *Store) retryParts(ctx context.Context, what string, f func(limit time.Duration) error) error {
	for failures := 1; ; failures++ {
		connected := s.reconnections.next() // before the try, which may fail just when etcd is back
		err := f(min(time.Duration(failures)*firstTry, lastTry))
		switch {
		case err == nil:
			s.trouble.Over(what)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case isFinal(err):
			return err
		}
		if !errors.Is(err, errRival) && !errors.Is(err, errChanged) { // expected, and no trouble
			s.trouble.Failed(what, s.why(err))
		}
		if err := pause(ctx, failures, connected); err != nil {
			return err
		}
	}
}

// pause waits between two tries, but only shortestPause after a new connection to etcd,
// which connected announces. So all nodes retry soon after etcd is back. Where etcd lost
// its data, they write their leases again before any peer stops lingering.
func pause(ctx context.Context, failures int, connected <-chan struct{}) error {
	full := time.NewTimer(pauses.After(failures))
	defer full.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-full.C:
		return nil
	case <-connected:
		return retry.Sleep(ctx, shortestPause)
	}
}

// reconnections announces each new connection to etcd to all who wait for one.
type reconnections struct {
	mu      sync.Mutex
	waiting chan struct{} // closed at the next one; nil if nothing waits
}

// next returns a channel that is closed at the next connection.
func (c *reconnections) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting == nil {
		c.waiting = make(chan struct{})
	}
	return c.waiting
}

// announce reports that there is a connection.
func (c *reconnections) announce() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting != nil {
		close(c.waiting)
		c.waiting = nil
	}
}

// isFinal reports whether a retry cannot help.
func isFinal(err error) bool {
	for _, e := range []error{subnet.ErrOutOfSubnets, subnet.ErrTaken, subnet.ErrSameAddress, subnet.ErrSameID, subnet.ErrValue} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// attempt holds the error of the last call to etcd. When a call times out, the client
// does not report it.
type attempt struct {
	mu  sync.Mutex
	err error
}

// note is a grpc.UnaryClientInterceptor.
func (a *attempt) note(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	err := invoke(ctx, method, request, reply, conn, options...)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	return err
}

// why returns err with its cause, where the time was up: how the last attempt
// failed, or how far the last connection came.
func (s *Store) why(err error) error {
	s.attempt.mu.Lock()
	tried := s.attempt.err
	s.attempt.mu.Unlock()
	late := errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
	if !late && status.Code(err) != codes.Unavailable {
		return err
	}
	if !late {
		tried = err
	}
	// Where no server listens, the client had no connection. The result of an earlier
	// connection does not matter.
	if tried == nil || !strings.Contains(tried.Error(), "Error while dialing") {
		if reached := s.reach.last(); reached != nil {
			return fmt.Errorf("%w: %w", context.DeadlineExceeded, reached)
		}
	}
	if late && tried != nil {
		return fmt.Errorf("%w: %w", context.DeadlineExceeded, tried)
	}
	return err
}
