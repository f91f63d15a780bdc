package etcd

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/tulle-net/tulle/subnet"
)

// Watch implements subnet.Store. A broken watch resumes at its last revision. It
// lists again only if etcd no longer has that revision, or has another history.
func (s *Store) Watch(ctx context.Context, to func(subnet.Update)) error {
	l := s.toWatch()
	for {
		moved := s.position.moved()
		if l == nil {
			var err error
			if l, err = s.list(ctx); err != nil {
				return err
			}
		}
		all, from := subnet.Update{Complete: true, Leases: l.leases, Bad: l.bad}, l.revision+1
		l = nil // the rest of it is garbage while the peers are computed
		to(all)
		if err := s.follow(ctx, from, moved, to); err != nil {
			return err
		}
	}
}

// follow delivers changes from a revision on, until a list is needed.
func (s *Store) follow(ctx context.Context, from int64, moved <-chan struct{}, to func(subnet.Update)) error {
	failures := 0
	for {
		if !s.position.trusted() {
			if err := s.retry(ctx, "reaching etcd", s.check); err != nil {
				return err
			}
		}
		watching, cancel := context.WithCancel(ctx)
		events := s.watch(watching, s.leasesPrefix(), from, clientv3.WithPrefix())
		next, lost, err := s.readEvents(ctx, from, events, moved, to)
		cancel()
		s.setWatching(time.Time{})
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
		s.retireStream(ctx, err)
		s.trouble.Failed("watching the leases", s.why(err))
		if err := pause(ctx, failures, s.reconnections.next()); err != nil {
			return err
		}
	}
}

// readEvents reads one watch's events. It returns the revision to resume from. lost
// reports that a list is needed.
func (s *Store) readEvents(ctx context.Context, from int64, events clientv3.WatchChan, moved <-chan struct{}, to func(subnet.Update)) (next int64, lost bool, err error) {
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
			s.trouble.Over("watching the leases")
			if r.Created {
				s.setWatching(time.Now())
			}
			if n := len(r.Events); n > 0 {
				from = r.Events[n-1].Kv.ModRevision + 1
			}
			if u := s.update(r.Events); len(u.Leases)+len(u.Gone)+len(u.Bad) > 0 {
				to(u)
			}
		}
	}
}

func (s *Store) setWatching(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = since
}

// errBroke makes follow restart a watch that the client resumed after a broken
// connection.
var errBroke = errors.New("the line to etcd broke")

// update returns the Update for events, with the last event of each key.
func (s *Store) update(events []*clientv3.Event) subnet.Update {
	last := make(map[string]int, len(events))
	for i, e := range events {
		last[string(e.Kv.Key)] = i
		if e.Type == clientv3.EventTypePut {
			s.position.saw(markOf(e.Kv))
		} else {
			s.position.lost(markOf(e.Kv))
		}
	}
	var u subnet.Update
	for i, e := range events {
		if last[string(e.Kv.Key)] != i {
			continue
		}
		if e.Type == clientv3.EventTypeDelete {
			if key, ok := strings.CutPrefix(string(e.Kv.Key), s.leasesPrefix()); ok {
				u.Gone = append(u.Gone, key)
			}
			continue
		}
		switch lease, bad, ok := s.parse(e.Kv); {
		case !ok:
		case bad != nil:
			u.Bad = append(u.Bad, bad)
		default:
			u.Leases = append(u.Leases, lease)
		}
	}
	return u
}

// watch opens a watch from a revision on. It sends a notice when the watch is
// created. It fails if etcd has no leader, where a plain watch would wait.
func (s *Store) watch(ctx context.Context, key string, from int64, options ...clientv3.OpOption) clientv3.WatchChan {
	// Watches share a stream if they have the same metadata.
	ctx = metadata.AppendToOutgoingContext(ctx, "tulle-stream", strconv.FormatInt(s.streams.Load(), 10))
	return s.client.Watch(clientv3.WithRequireLeader(ctx), key, append(options, clientv3.WithRev(from), clientv3.WithCreatedNotify())...)
}

// retireStream retires the stream of a failed watch: the token it was opened with may
// be what etcd rejected.
func (s *Store) retireStream(ctx context.Context, err error) {
	s.streams.Add(1)
	if s.login != nil && refused(err) {
		s.login.forget(ctx)
	}
}

// failure returns why a watch ended, or nil.
func failure(r clientv3.WatchResponse, ok bool) error {
	if !ok {
		return errors.New("the watch ended")
	}
	return r.Err()
}

// loss is what await found of its key.
type loss int

const (
	none    loss = iota // not lost, as far as is known
	lost                // lost some time ago
	lostNow             // lost by the latest write to etcd
)

// await waits until key changes from a revision on, or until the watch fails.
// failures counts the watches in a row that failed.
func (s *Store) await(ctx context.Context, key string, from int64, moved <-chan struct{}, failures *int) (loss, error) {
	watching, cancel := context.WithCancel(ctx)
	defer cancel()
	events := s.watch(watching, key, from)
	for {
		select {
		case <-ctx.Done():
			return none, ctx.Err()
		case <-moved:
			return lost, nil
		case r, ok := <-events:
			if err := failure(r, ok); err != nil {
				if ctx.Err() != nil {
					return none, ctx.Err()
				}
				s.retireStream(ctx, err)
				*failures++
				return none, pause(ctx, *failures, s.reconnections.next())
			}
			*failures = 0
			if n := len(r.Events); n > 0 {
				switch last := r.Events[n-1]; {
				case last.Type != clientv3.EventTypeDelete:
					return none, nil
				case last.Kv.ModRevision < r.Header.Revision:
					return lost, nil
				}
				return lostNow, nil
			}
		}
	}
}
