package kube

import (
	"context"

	"github.com/tulle-net/tulle/subnet"
)

// WatchNotices implements subnet.Noticer. The notices come with the Nodes.
func (s *Store) WatchNotices(ctx context.Context, to func(subnet.Notices)) error {
	s.begin()
	r := &reader{all: true, touched: make(map[string]struct{})}
	defer s.book.join(r)()
	told := make(map[string]subnet.Notice)
	for {
		u, ok, changed := s.book.nextNotices(r, told)
		if ok {
			to(u)
			continue
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}

// join adds a reader until leave is called.
func (b *book) join(r *reader) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readers[r] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.readers, r)
	}
}

// nextNotices returns what has changed in the notices since told, and notes it there. ok is
// false if nothing has.
func (b *book) nextNotices(r *reader, told map[string]subnet.Notice) (u subnet.Notices, ok bool, changed <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	changed = b.changed
	if !b.complete {
		return u, false, changed
	}
	u.Set = make(map[string]subnet.Notice)
	if r.all {
		u.Complete, r.all = true, false
		clear(told)
		for key := range b.keys {
			b.noticeOf(key, &u, told)
		}
		clear(r.touched)
		return u, true, changed
	}
	for key := range r.touched {
		b.noticeOf(key, &u, told)
	}
	clear(r.touched)
	return u, len(u.Set)+len(u.Gone) > 0, changed
}

// noticeOf adds the notice of a key to an update, if it is another one than before.
func (b *book) noticeOf(key string, u *subnet.Notices, told map[string]subnet.Notice) {
	var now subnet.Notice
	if e := b.at(key); e != nil && e.bad == nil && e.notice != nil {
		now = *e.notice
	}
	before, was := told[key]
	switch {
	case now == before:
	case now != (subnet.Notice{}):
		told[key], u.Set[key] = now, now
	case was:
		delete(told, key)
		u.Gone = append(u.Gone, key)
	}
}
