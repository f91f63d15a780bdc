package etcd

import (
	"context"
	"errors"
	"strconv"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"
)

// following is what resume follows, and what it calls.
type following struct {
	what   string                       // the operation's name in the status and the log
	prefix string                       // of the keys
	take   func(clientv3.WatchResponse) // gets each answer whose history was checked
	ended  func()                       // is called at the end of each watch
}

// resume follows keys from a revision on, with one watch after another. It returns nil when a
// list is needed: etcd no longer has the revision, or moved was closed because etcd may have
// another history.
func (s *Store) resume(ctx context.Context, from int64, moved <-chan struct{}, f following) error {
	failures := 0
	for {
		if !s.position.trusted() {
			if err := s.retry(ctx, "reaching etcd", s.check); err != nil {
				return err
			}
		}
		watching, cancel := context.WithCancel(ctx)
		events := s.watch(watching, f.prefix, from, clientv3.WithPrefix())
		next, lost, err := s.readEvents(ctx, from, events, moved, f)
		cancel()
		f.ended()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case lost || errors.Is(err, rpctypes.ErrCompacted) || errors.Is(err, rpctypes.ErrFutureRev):
			return nil
		}
		if failures++; next > from {
			failures = 1
		}
		from = next
		if errors.Is(err, errBroke) {
			continue
		}
		s.retireStream(err)
		s.trouble.Failed(f.what, s.why(err))
		if err := pause(ctx, failures, s.reconnections.next()); err != nil {
			return err
		}
	}
}

// readEvents reads one watch's events. It returns the revision to resume from. lost
// reports that a list is needed.
func (s *Store) readEvents(ctx context.Context, from int64, events clientv3.WatchChan, moved <-chan struct{}, f following) (next int64, lost bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return from, false, ctx.Err()
		case <-moved:
			return from, true, nil
		case r, ok := <-events:
			if err := failure(r, ok); err != nil {
				return from, false, err
			}
			select {
			case <-moved: // these may belong to another history
				return from, true, nil
			default:
			}
			if !s.position.trusted() {
				return from, false, errBroke
			}
			s.trouble.Over(f.what)
			if n := len(r.Events); n > 0 {
				from = r.Events[n-1].Kv.ModRevision + 1
			}
			f.take(r)
		}
	}
}

// errBroke makes resume restart a watch that the client resumed after a broken
// connection.
var errBroke = errors.New("the line to etcd broke")

// watch opens a watch from a revision on. It sends a notice when the watch is
// created. It fails if etcd has no leader, where a plain watch would wait.
func (s *Store) watch(ctx context.Context, key string, from int64, options ...clientv3.OpOption) clientv3.WatchChan {
	// Watches share a stream if they have the same metadata.
	ctx = metadata.AppendToOutgoingContext(ctx, "tulle-stream", strconv.FormatInt(s.streams.Load(), 10))
	return s.client.Watch(clientv3.WithRequireLeader(ctx), key, append(options, clientv3.WithRev(from), clientv3.WithCreatedNotify())...)
}

// retireStream retires the stream of a failed watch: the token it was opened with may
// be what etcd rejected.
func (s *Store) retireStream(err error) {
	s.streams.Add(1)
	if s.login != nil && refused(err) {
		s.login.forget()
	}
}

// failure returns why a watch ended, or nil.
func failure(r clientv3.WatchResponse, ok bool) error {
	if !ok {
		return errors.New("the watch ended")
	}
	return r.Err()
}
