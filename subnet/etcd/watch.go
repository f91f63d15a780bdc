package etcd

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

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
	return s.resume(ctx, from, moved, following{
		what: "watching the leases", prefix: s.leasesPrefix(),
		take: func(r clientv3.WatchResponse) {
			if r.Created {
				s.setWatching(time.Now())
			}
			if u := s.update(r.Events); len(u.Leases)+len(u.Gone)+len(u.Bad) > 0 {
				to(u)
			}
		},
		ended: func() { s.setWatching(time.Time{}) },
	})
}

func (s *Store) setWatching(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.watching = since
}

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
				s.retireStream(err)
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
