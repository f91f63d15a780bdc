package storetest

import (
	"context"
	"maps"

	"github.com/tulle-net/tulle/subnet"
)

// SetNotice writes the notice of a lease, or removes it if it is empty.
func (m *Memory) SetNotice(key string, n subnet.Notice) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.notices == nil {
		m.notices = make(map[string]subnet.Notice)
	}
	if m.notices[key] = n; n == (subnet.Notice{}) {
		delete(m.notices, key)
	}
	m.wake()
}

// WatchNotices implements subnet.Noticer.
func (m *Memory) WatchNotices(ctx context.Context, to func(subnet.Notices)) error {
	var told map[string]subnet.Notice
	for epoch := 0; ; {
		m.mu.Lock()
		now, changed := maps.Clone(m.notices), m.changed
		u := subnet.Notices{Complete: epoch != m.epoch, Set: make(map[string]subnet.Notice)}
		epoch = m.epoch
		m.mu.Unlock()
		for key, n := range now {
			if u.Complete || told[key] != n {
				u.Set[key] = n
			}
		}
		for key := range told {
			if _, is := now[key]; !is && !u.Complete {
				u.Gone = append(u.Gone, key)
			}
		}
		if told = now; u.Complete || len(u.Set)+len(u.Gone) > 0 {
			to(u)
		}
		if err := wait(ctx, changed); err != nil {
			return err
		}
	}
}
