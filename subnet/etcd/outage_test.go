package etcd

import (
	"context"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/etcdserver"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/retry"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
	"github.com/tulle-net/tulle/subnet"
)

// patience is far longer than any step takes.
const patience = 40 * time.Second

// awaitStatus waits until the store works, or does not.
func awaitStatus(t *testing.T, s *Store, well bool) {
	t.Helper()
	kerneltest.Eventually(t, patience, func() error {
		if failing := s.Status().Failing; len(failing) == 0 != well {
			return fmt.Errorf("failing is %v", failing)
		}
		return nil
	})
}

// briefly returns a context that ends soon.
func briefly(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// goesOn fails the test unless the store restores a deleted lease, and sees other
// nodes' new leases.
func (l *lab) goesOn(s *Store, f *follower, own subnet.Lease, others ...subnet.Lease) {
	l.t.Helper()
	f.mu.Lock()
	before := f.leases[own.Key()].Revision
	f.mu.Unlock()
	kerneltest.Eventually(l.t, patience, func() error {
		_, err := l.client.Delete(briefly(l.t), prefix+"/subnets/"+own.Key())
		return err
	})
	f.await("the lease written again", func() bool {
		return f.leases[own.Key()].Attrs == own.Attrs && f.leases[own.Key()].Revision > before
	})
	f.await("all leases", f.has(append(others, own)...))
	awaitStatus(l.t, s, true)
}

// TestFrozenEtcdIsReportedOnce: an etcd that stops answering is reported once. The
// store resumes with it, without a list.
func TestFrozenEtcdIsReportedOnce(t *testing.T) {
	l, cluster := newCluster(t, 1)
	log := logtest.Capture(t, 0)
	l.SetConfig(network)
	own := l.acquire(l.Store, claim(1))
	l.hold(l.Store, own)
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))

	before := time.Now()
	cluster.Member(0).Freeze()
	if got, err := l.list(briefly(t)); err == nil {
		t.Errorf("a frozen etcd gave %+v", got)
	}
	awaitStatus(t, l.Store, false)
	t.Logf("known after %v: %v", time.Since(before), l.Status().Failing)
	before = time.Now()
	cluster.Member(0).Thaw()
	awaitStatus(t, l.Store, true)
	t.Logf("well again after %v", time.Since(before))
	l.goesOn(l.Store, f, own)
	if f.lists != 1 {
		t.Errorf("%d lists", f.lists)
	}
	if off, on := log.Count("Store operation failed"), log.Count("Store operation recovered"); off != 1 || on != 1 {
		t.Errorf("logged %d times, %d times", off, on)
	}
}

// TestReconnectionEndsPauses: after an outage, a store goes on as soon as it is connected
// again, however long it was about to wait. Nodes must not find an emptied etcd so far
// apart that the first ones give up the peers that have not come back yet.
func TestReconnectionEndsPauses(t *testing.T) {
	before := pauses
	t.Cleanup(func() { pauses = before }) // after all stores are closed
	pauses = retry.Backoff{First: time.Hour, Last: time.Hour}
	l := newLab(t)
	l.SetConfig(network)
	line := newLine(t, l.server.Endpoint())
	s := l.openAt(line.endpoint())
	own := l.acquire(s, claim(1))
	l.hold(s, own)
	f := l.follow(s)
	f.await("the lease", f.has(own))
	line.set(true)
	awaitStatus(t, s, false) // what failed waits now
	line.set(false)
	awaitStatus(t, s, true)
	l.goesOn(s, f, own)
}

// TestOneOfThreeMembersMayFail: whichever it is and however it fails.
func TestOneOfThreeMembersMayFail(t *testing.T) {
	for name, how := range map[string]struct {
		times      int
		away, back func(*etcdtest.Member)
	}{
		"killed": {3, (*etcdtest.Member).Kill, (*etcdtest.Member).Restart},
		"frozen": {1, (*etcdtest.Member).Freeze, (*etcdtest.Member).Thaw},
	} {
		t.Run(name, func(t *testing.T) {
			l, cluster := newCluster(t, 3)
			l.SetConfig(network)
			own := l.acquire(l.Store, claim(1))
			l.hold(l.Store, own)
			f := l.follow(l.Store)
			f.await("the lease", f.has(own))
			var others []subnet.Lease
			for n := range how.times {
				m := cluster.Leader()
				how.away(m)
				before := time.Now()
				others = append(others, l.acquire(l.open(), claim(n+2)))
				l.goesOn(l.Store, f, own, others...)
				t.Logf("went on within %v", time.Since(before))
				how.back(m)
			}
			if f.lists != 1 {
				t.Errorf("%d lists", f.lists)
			}
		})
	}
}

// TestNoQuorumIsNoEmptyList: without a majority there are errors, and never an empty
// list.
func TestNoQuorumIsNoEmptyList(t *testing.T) {
	l, cluster := newCluster(t, 3)
	log := logtest.Capture(t, 0)
	l.SetConfig(network)
	own := l.acquire(l.Store, claim(1))
	l.hold(l.Store, own)
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))
	cluster.Member(1).Kill()
	cluster.Member(2).Kill()
	for range 3 {
		if got, err := l.list(briefly(t)); err == nil {
			t.Errorf("a member alone gave %+v", got)
		}
		if got, err := l.open().Acquire(briefly(t), claim(2)); err == nil {
			t.Errorf("a member alone gave %+v", got)
		}
	}
	awaitStatus(t, l.Store, false)
	t.Log(l.Status().Failing)
	f.await("the lease, still", f.has(own))
	cluster.Member(1).Restart()
	awaitStatus(t, l.Store, true)
	l.goesOn(l.Store, f, own)
	if f.lists != 1 {
		t.Errorf("%d lists", f.lists)
	}
	for _, what := range []string{"watching the leases", "renewing the lease", "reaching etcd"} {
		if off, on := log.Count("Store operation failed", what), log.Count("Store operation recovered", what); off > 2 || on > 1 {
			t.Errorf("%s: logged %d times, %d times", what, off, on)
		}
	}
}

// TestExpiredLeaseComesBack: a lease that expired while its node was cut off is
// created again with the same subnet.
func TestExpiredLeaseComesBack(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.SetConfig(network)
	line := newLine(t, l.server.Endpoint())
	s := l.openWith(func(o *Options) {
		o.Endpoints, o.TTL, o.RenewMargin = []string{line.endpoint()}, 3*time.Second, time.Second
	})
	own := l.acquire(s, claim(1))
	l.hold(s, own)
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))
	line.set(true)
	f.await("its end", f.has())
	line.set(false)
	f.await("the lease", f.has(own))
}

// TestLeaseGetsTheWholeTTL: a lease has an etcd lease of the configured TTL, all of which is
// left when its node begins.
func TestLeaseGetsTheWholeTTL(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.SetConfig(network)
	with := func(ttl time.Duration) (subnet.Lease, *clientv3.LeaseTimeToLiveResponse) {
		own := l.acquire(l.openWith(func(o *Options) { o.TTL = ttl }), claim(1))
		r, err := l.client.Get(t.Context(), prefix+"/subnets/"+own.Key())
		l.do("read the lease", r, err)
		left, err := l.client.TimeToLive(t.Context(), clientv3.LeaseID(r.Kvs[0].Lease))
		l.do("ask for the time left", left, err)
		return own, left
	}
	long, left := with(time.Hour)
	if left.GrantedTTL != 3600 {
		t.Errorf("granted %d s", left.GrantedTTL)
	}
	id := left.ID
	kerneltest.Eventually(t, patience, func() error {
		r, err := l.client.TimeToLive(t.Context(), id)
		if err == nil && r.TTL > r.GrantedTTL-2 {
			err = fmt.Errorf("%d s are left", r.TTL)
		}
		return err
	})
	again, left := with(time.Hour)
	if again != long || left.ID != id || left.TTL < left.GrantedTTL-1 {
		t.Errorf("the same again: %+v, %+v", again, left)
	}
	short, left := with(time.Minute)
	if short.Subnets != long.Subnets || left.GrantedTTL != 60 {
		t.Errorf("shorter: %+v, %+v", short, left)
	}
}

func TestRenewalKeepsTheMargin(t *testing.T) {
	for _, test := range []struct{ ttl, margin, want time.Duration }{
		{24 * time.Hour, time.Hour, defaultHeartbeat},
		{24 * time.Hour, 24*time.Hour - time.Minute, time.Minute},
		{24 * time.Hour, 25 * time.Hour, time.Second},
		{time.Minute, 0, 20 * time.Second},
		{time.Minute, 50 * time.Second, 10 * time.Second},
	} {
		h := holder{Store: &Store{options: Options{TTL: test.ttl, RenewMargin: test.margin}}}
		if got := h.renewal(); got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}

// TestSocketAndDeadEndpointWork uses a socket, and a list of endpoints whose first is dead.
func TestSocketAndDeadEndpointWork(t *testing.T) {
	socket := "unix://" + t.TempDir() + "/etcd.sock"
	server, err := etcdserver.Start(t.Context(), etcdserver.Options{Dir: t.TempDir(), Listen: socket})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	l := newLabAt(t, server.Endpoint())
	l.SetConfig(network)
	own := l.acquire(l.Store, claim(1))
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))

	l = newLab(t)
	l.SetConfig(network)
	before := time.Now()
	s := l.openAt("http://127.0.0.1:1", l.endpoints[0])
	own = l.acquire(s, claim(1))
	f = l.follow(s)
	f.await("the lease", f.has(own))
	t.Logf("with a dead endpoint a lease took %v", time.Since(before))
}

// TestDeletedLeaseIsRestored: a lease that a person deleted is back soon.
func TestDeletedLeaseIsRestored(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.SetConfig(network)
	own := l.acquire(l.Store, claim(1))
	l.hold(l.Store, own)
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))
	for range 5 {
		before := time.Now()
		l.goesOn(l.Store, f, own)
		t.Logf("back after %v", time.Since(before))
	}
}
