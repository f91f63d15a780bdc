package etcd

import (
	"context"
	"errors"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/subnet"
)

// Watch implements subnet.Store. A broken watch goes on from the revision that
// it had come to; only where etcd no longer has that, or is no longer the same
// etcd, is all listed again.
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
		to(subnet.Update{Complete: true, Leases: l.leases, Bad: l.bad})
		from := l.revision + 1
		l = nil
		if err := s.follow(ctx, from, moved, to); err != nil {
			return err
		}
	}
}

// follow tells of changes from a revision on, until a list is needed.
func (s *Store) follow(ctx context.Context, from int64, moved <-chan struct{}, to func(subnet.Update)) error {
	failures := 0
	for {
		watching, cancel := context.WithCancel(ctx)
		events := s.client.Watch(clientv3.WithRequireLeader(watching), s.leasesPrefix(), clientv3.WithPrefix(), clientv3.WithRev(from))
		next, lost, err := s.read(ctx, from, events, moved, to)
		cancel()
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
		s.trouble.failed("Watching the leases", s.attempt.why(err))
		if err := s.pause(ctx, failures); err != nil {
			return err
		}
	}
}

// read takes one watch's events. It returns the revision to go on from, and
// whether the place was lost.
func (s *Store) read(ctx context.Context, from int64, events clientv3.WatchChan, moved <-chan struct{}, to func(subnet.Update)) (next int64, lost bool, err error) {
	for {
		select {
		case <-ctx.Done():
			return from, false, ctx.Err()
		case <-moved:
			return from, true, nil
		case r, ok := <-events:
			if !ok {
				return from, false, errors.New("the watch ended")
			}
			if err := r.Err(); err != nil {
				return from, false, err
			}
			s.trouble.over("Watching the leases")
			if n := len(r.Events); n > 0 {
				from = r.Events[n-1].Kv.ModRevision + 1
			}
			if u := s.update(r.Events); len(u.Leases)+len(u.Gone)+len(u.Bad) > 0 {
				to(u)
			}
		}
	}
}

// update is what events tell, each key's last.
func (s *Store) update(events []*clientv3.Event) subnet.Update {
	last := make(map[string]int, len(events))
	for i, e := range events {
		last[string(e.Kv.Key)] = i
		if e.Type == clientv3.EventTypePut {
			s.position.saw(string(e.Kv.Key), e.Kv.ModRevision)
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
