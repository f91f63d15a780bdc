package etcd

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

// TestFullEtcdIsExplained fills a database up to its quota. A node that cannot write
// its lease names the commands that make room, and they do.
func TestFullEtcdIsExplained(t *testing.T) {
	cluster := etcdtest.Start(t, etcdtest.Options{Quota: 1 << 20})
	l := newLabAt(t, cluster.Endpoints()...)
	l.SetConfig(network)
	held, err := l.client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	for value := strings.Repeat("x", 64<<10); ; {
		if _, err := l.client.Put(t.Context(), "ballast", value); err != nil {
			if !errors.Is(err, rpctypes.ErrNoSpace) {
				t.Fatal(err)
			}
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	acquired := make(chan error, 1)
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		_, err := l.Acquire(ctx, claim(1))
		acquired <- err
	})
	awaitStatus(t, l.Store, false)
	why := l.Status().Last.Why
	for _, part := range []string{"etcdctl compact REVISION", "etcdctl defrag", "etcdctl alarm disarm"} {
		if !strings.Contains(why, part) {
			t.Errorf("%q is not in: %s", part, why)
		}
	}
	if _, err := l.client.KeepAliveOnce(t.Context(), held.ID); err != nil {
		t.Errorf("a lease is not renewed: %v", err)
	}
	// Do what the commands do.
	r, err := l.client.Get(t.Context(), "ballast", clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.client.Compact(t.Context(), r.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	if _, err := l.client.Defragment(t.Context(), cluster.Endpoints()[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := l.client.AlarmDisarm(t.Context(), &clientv3.AlarmMember{}); err != nil {
		t.Fatal(err)
	}
	if err := <-acquired; err != nil {
		t.Error(err)
	}
}
