package etcd

import (
	"context"
	"errors"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

// TestSeedOnlyWritesBelowAnEmptyPrefix: any key below the prefix prevents a first config.
func TestSeedOnlyWritesBelowAnEmptyPrefix(t *testing.T) {
	l := newLab(t)
	s := l.openWith(func(o *Options) { o.Prefix = "/net" })
	for _, test := range []struct {
		there string
		want  bool
	}{
		{"", true},
		{"/net/config", false},
		{"/net/subnets/10.5.1.0-24", false},
		{"/net/", false},
		{"/net/more/config", false},
		{"/network/config", true},
		{"/net", true},
		{"/a/net/config", true},
	} {
		r, err := l.client.Delete(t.Context(), "/", clientv3.WithPrefix())
		l.do("empty it", r, err)
		if test.there != "" {
			r, err := l.client.Put(t.Context(), test.there, "theirs")
			l.do("write "+test.there, r, err)
		}
		seeded, err := s.Seed(t.Context(), "ours")
		if err != nil || seeded != test.want {
			t.Errorf("beside %q: %t, %v", test.there, seeded, err)
		}
		got, err := l.client.Get(t.Context(), "/net/config")
		l.do("read the config", got, err)
		if ours := len(got.Kvs) == 1 && string(got.Kvs[0].Value) == "ours"; ours != test.want {
			t.Errorf("beside %q stands %v", test.there, got.Kvs)
		}
	}
}

// TestSeedLeavesAnEtcdWithUsersAlone: a person has set it up. A node may not write
// the config.
func TestSeedLeavesAnEtcdWithUsersAlone(t *testing.T) {
	l, cluster := newCluster(t, 1)
	cluster.Protect(prefix, map[string]string{"node": "secret"})
	for _, name := range []string{"", "node"} {
		s := l.openWith(func(o *Options) {
			if name != "" {
				o.Username, o.Password = name, "secret"
			}
		})
		if seeded, err := s.Seed(t.Context(), "ours"); seeded || err != nil {
			t.Errorf("as %q: %t, %v", name, seeded, err)
		}
	}
}

// TestSeedWaitsForEtcd starts before etcd does.
func TestSeedWaitsForEtcd(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{Members: 1})
	l := newLabAt(t, c.Endpoints()...)
	c.Member(0).Kill()
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := l.Seed(short, "ours"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	type result struct {
		seeded bool
		err    error
	}
	done := make(chan result, 1)
	go func() {
		seeded, err := l.Seed(t.Context(), "ours")
		done <- result{seeded, err}
	}()
	c.Member(0).Restart()
	if r := <-done; !r.seeded || r.err != nil {
		t.Errorf("%+v", r)
	}
}
