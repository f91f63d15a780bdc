package etcd

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/subnet"
)

// readingNotices is what the status calls this.
const readingNotices = "reading which peers are routed"

func (s *Store) noticesPrefix() string { return s.options.Prefix + subnet.NoticesPrefix }

// WatchNotices implements subnet.Noticer. It resumes and lists as Watch does.
func (s *Store) WatchNotices(ctx context.Context, to func(subnet.Notices)) error {
	for {
		moved := s.position.moved()
		all, latest, err := s.listNotices(ctx)
		if err != nil {
			return err
		}
		s.position.noticed(latest)
		to(subnet.Notices{Complete: true, Set: all})
		if err := s.followNotices(ctx, latest.revision+1, moved, to); err != nil {
			return err
		}
	}
}

// listNotices reads all notices, as of the revision of the mark that it returns.
func (s *Store) listNotices(ctx context.Context) (all map[string]subnet.Notice, latest noticeMark, err error) {
	prefix := s.noticesPrefix()
	err = s.retryParts(ctx, readingNotices, func(limit time.Duration) error {
		// Without a notice, the prefix stands for an absent one.
		all, latest = make(map[string]subnet.Notice), noticeMark{key: prefix}
		for from := prefix; ; {
			r := <-s.request(ctx, limit, from, clientv3.GetPrefixRangeEnd(prefix), latest.revision)
			if r.err != nil {
				return r.err
			}
			if latest.revision == 0 {
				latest.revision = r.Header.Revision
			}
			for _, kv := range r.Kvs {
				if key, n, ok := s.notice(kv); ok {
					all[key] = n
				}
				if kv.ModRevision > latest.write.revision {
					latest.key, latest.write = string(kv.Key), markOf(kv)
				}
			}
			if !r.More {
				return nil
			}
			if len(r.Kvs) == 0 {
				return errors.New("etcd announces more keys, and sends none")
			}
			from = string(r.Kvs[len(r.Kvs)-1].Key) + "\x00"
		}
	})
	return all, latest, err
}

// notice reads one entry. One that cannot be read is none.
func (s *Store) notice(kv *mvccpb.KeyValue) (key string, n subnet.Notice, ok bool) {
	key, ours := strings.CutPrefix(string(kv.Key), s.noticesPrefix())
	if _, err := subnet.ParseKey(key); !ours || err != nil {
		return "", n, false
	}
	n, err := subnet.ParseNotice(string(kv.Value))
	return key, n, err == nil
}

// followNotices delivers changes from a revision on, until a list is needed.
func (s *Store) followNotices(ctx context.Context, from int64, moved <-chan struct{}, to func(subnet.Notices)) error {
	return s.resume(ctx, from, moved, following{
		what: readingNotices, prefix: s.noticesPrefix(),
		take: func(r clientv3.WatchResponse) {
			n := len(r.Events)
			if n == 0 {
				return
			}
			last := r.Events[n-1]
			m := noticeMark{revision: last.Kv.ModRevision, key: string(last.Kv.Key)}
			if last.Type == clientv3.EventTypePut {
				m.write = markOf(last.Kv)
			}
			s.position.noticed(m)
			to(s.noticesOf(r.Events))
		},
		ended: func() {},
	})
}

// noticesOf returns the changes in events, of which the last one of each key counts.
func (s *Store) noticesOf(events []*clientv3.Event) subnet.Notices {
	set, gone := make(map[string]subnet.Notice), make(map[string]bool)
	for _, e := range events {
		key, n, ok := s.notice(e.Kv)
		if ok && e.Type == clientv3.EventTypePut {
			set[key] = n
			delete(gone, key)
			continue
		}
		if key = strings.TrimPrefix(string(e.Kv.Key), s.noticesPrefix()); len(key) <= longestKey {
			delete(set, key)
			gone[key] = true
		}
	}
	u := subnet.Notices{Set: set}
	for key := range gone {
		u.Gone = append(u.Gone, key)
	}
	return u
}

// longestKey is longer than the key of any lease.
const longestKey = 200
