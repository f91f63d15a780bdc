package etcd

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"testing"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/subnet"
)

// told records what WatchNotices reports.
type told struct {
	mu  sync.Mutex
	all map[string]subnet.Notice
}

func (l *lab) notices(s *Store) *told {
	r := &told{}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.WatchNotices(ctx, func(u subnet.Notices) {
			r.mu.Lock()
			defer r.mu.Unlock()
			if u.Complete {
				r.all = make(map[string]subnet.Notice)
			}
			maps.Copy(r.all, u.Set)
			for _, key := range u.Gone {
				delete(r.all, key)
			}
		})
	}()
	l.t.Cleanup(func() { cancel(); <-ended })
	return r
}

func (r *told) await(t *testing.T, want map[string]string) {
	t.Helper()
	kerneltest.Eventually(t, patience, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		got := make(map[string]string)
		for key, n := range r.all {
			got[key] = n.String()
		}
		if r.all == nil || !maps.Equal(got, want) {
			return fmt.Errorf("the notices are %v, want %v", got, want)
		}
		return nil
	})
}

func (l *lab) putNotice(key, text string) {
	l.t.Helper()
	kerneltest.Eventually(l.t, patience, func() error {
		_, err := l.client.Put(briefly(l.t), prefix+"/routed/"+key, text)
		return err
	})
}

// Notices are followed, and what cannot be read is none. They are no leases.
func TestNoticesAreFollowed(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	l.putNotice("10.5.1.0-24", "vpc-1 198.18.0.1 10.5.1.0/24")
	l.putNotice("10.5.2.0-24", "garbage\n")
	l.putNotice("garbage", "vpc-1 198.18.0.1 10.5.1.0/24")
	r := l.notices(l.Store)
	r.await(t, map[string]string{"10.5.1.0-24": "vpc-1 198.18.0.1 10.5.1.0/24"})
	l.putNotice("10.5.2.0-24", "vpc-1 198.18.0.1")
	l.putNotice("10.5.1.0-24", "vpc-2 198.18.0.1 10.5.1.0/24")
	r.await(t, map[string]string{"10.5.1.0-24": "vpc-2 198.18.0.1 10.5.1.0/24", "10.5.2.0-24": "vpc-1 198.18.0.1"})
	l.putNotice("10.5.1.0-24", "vpc-2 198.18.0.1 10.5.1.1/24")
	if _, err := l.client.Delete(t.Context(), prefix+"/routed/10.5.2.0-24"); err != nil {
		t.Fatal(err)
	}
	r.await(t, map[string]string{})
	if got, err := l.list(t.Context()); err != nil || len(got.leases)+len(got.bad) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// An etcd that stops changes nothing, and is followed again when it is back.
func TestNoticesOutliveEtcd(t *testing.T) {
	t.Parallel()
	l, cluster := newCluster(t, 1)
	l.SetConfig(network)
	l.putNotice("10.5.1.0-24", "vpc-1 198.18.0.1 10.5.1.0/24")
	r := l.notices(l.Store)
	first := map[string]string{"10.5.1.0-24": "vpc-1 198.18.0.1 10.5.1.0/24"}
	r.await(t, first)
	cluster.Member(0).Kill()
	r.await(t, first)
	cluster.Member(0).Restart()
	l.putNotice("10.5.2.0-24", "vpc-1 198.18.0.1")
	r.await(t, map[string]string{"10.5.1.0-24": "vpc-1 198.18.0.1 10.5.1.0/24", "10.5.2.0-24": "vpc-1 198.18.0.1"})
}

// TestRestoreOfNoticesIsNoticed: etcd is restored from a backup that lacks the latest
// change of the notices, which this store read in a list or saw in its watch, but no
// change of a lease.
func TestRestoreOfNoticesIsNoticed(t *testing.T) {
	const one, two, notice, other = "10.5.1.0-24", "10.5.2.0-24", "vpc-1 198.18.0.1 10.5.1.0/24", "vpc-2 198.18.0.1 10.5.1.0/24"
	before := map[string]string{one: notice}
	for name, c := range map[string]struct {
		change func(*lab)
		after  map[string]string // what the notices are then
	}{
		"added":   {func(l *lab) { l.putNotice(two, other) }, map[string]string{one: notice, two: other}},
		"changed": {func(l *lab) { l.putNotice(one, other) }, map[string]string{one: other}},
		"removed": {func(l *lab) {
			kerneltest.Eventually(l.t, patience, func() error { // its connection broke with the etcd of before
				_, err := l.client.Delete(briefly(l.t), prefix+subnet.NoticesPrefix+one)
				return err
			})
		}, map[string]string{}},
	} {
		for _, listed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, listed %t", name, listed), func(t *testing.T) {
				t.Parallel()
				l, cluster := newCluster(t, 1)
				l.SetConfig(network)
				lease := l.acquire(l.open(), claim(1))
				l.putNotice(one, notice)
				s := l.open()
				f := l.follow(s)
				f.await("the lease", f.has(lease))
				var r *told
				if !listed {
					r = l.notices(s)
					r.await(t, before)
				}
				backup := cluster.Snapshot()
				c.change(l)
				if listed {
					r = l.notices(s)
				}
				r.await(t, c.after)
				cluster.Restore(backup)
				r.await(t, before)
			})
		}
	}
}
