package etcdlead

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	m.Run()
}

// waitLimit is the timeout of until.
const waitLimit = time.Minute

// leaderLog counts the leaders, and records their terms.
type leaderLog struct {
	leaders atomic.Int32
	most    atomic.Int32
	mu      sync.Mutex
	terms   []election.Term
}

// lead leads until ctx ends.
func (r *leaderLog) lead(clean bool) func(context.Context, election.Term) bool {
	return func(ctx context.Context, t election.Term) bool {
		n := r.leaders.Add(1)
		for most := r.most.Load(); n > most && !r.most.CompareAndSwap(most, n); most = r.most.Load() {
		}
		r.mu.Lock()
		r.terms = append(r.terms, t)
		r.mu.Unlock()
		<-ctx.Done()
		r.leaders.Add(-1)
		return clean
	}
}

func (r *leaderLog) count() (n int, last election.Term) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n = len(r.terms); n > 0 {
		last = r.terms[n-1]
	}
	return n, last
}

// replica runs an Elector until it is stopped.
func replica(t *testing.T, c *etcdtest.Cluster, r *leaderLog, name string, clean bool) (e *Elector, stop func()) {
	t.Helper()
	e = New(Options{
		Client: c.Client(t), Prefix: "/net/controller", Identity: name,
		LeaseDuration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 500 * time.Millisecond,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		e.Run(ctx, r.lead(clean))
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	t.Cleanup(stop)
	return e, stop
}

// until waits for the n-th term.
func (r *leaderLog) until(t *testing.T, n int) (last election.Term) {
	t.Helper()
	kerneltest.Eventually(t, waitLimit, func() error {
		var got int
		if got, last = r.count(); got < n || r.leaders.Load() != 1 {
			return fmt.Errorf("%d terms, %d leaders", got, r.leaders.Load())
		}
		return nil
	})
	return last
}

// TestOneLeadsAndIsFollowed: after a leader releases its key, the next term begins at once. That
// term is clean only if the last leader knew the outcomes of all its writes.
func TestOneLeadsAndIsFollowed(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	r := &leaderLog{}
	first, stop := replica(t, c, r, "a", true)
	if term := r.until(t, 1); !term.Clean || term.Deadline().Before(time.Now()) {
		t.Errorf("%+v", term)
	}
	second, stopSecond := replica(t, c, r, "b", false)
	kerneltest.Eventually(t, waitLimit, func() error {
		if s := second.Status(); s.Leader != "a" || s.Leading || !s.Known {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if s := first.Status(); !s.Leading || s.Leader != "a" {
		t.Errorf("%+v", s)
	}
	stop()
	if term := r.until(t, 2); !term.Clean {
		t.Error("a release is not clean")
	}
	stopSecond()
	replica(t, c, r, "c", true)
	if term := r.until(t, 3); term.Clean {
		t.Error("a term after unknown writes is clean")
	}
	if r.most.Load() != 1 {
		t.Errorf("%d led at once", r.most.Load())
	}
}

// TestNeverTwoLeadersInEtcd: a leader whose lease ends stops. Whatever happens to etcd, two
// replicas never lead at once.
func TestNeverTwoLeadersInEtcd(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	r := &leaderLog{}
	for _, name := range []string{"a", "b", "c"} {
		replica(t, c, r, name, true)
	}
	r.until(t, 1)
	client := c.Client(t)
	for n := 2; n < 5; n++ {
		got, err := client.Get(t.Context(), "/net/controller/leader")
		if err != nil || len(got.Kvs) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		if _, err := client.Revoke(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease)); err != nil {
			t.Fatal(err)
		}
		// The old leader may continue until its next renewal or its deadline. The ledger
		// refuses its writes.
		r.until(t, n)
	}
	c.Member(0).Kill()
	kerneltest.Eventually(t, waitLimit, func() error {
		if r.leaders.Load() > 0 {
			return errors.New("it leads without etcd")
		}
		return nil
	})
	c.Member(0).Restart()
	n, _ := r.count()
	r.until(t, n+1)
}

// TestLateLeaderWritesNothing: a leader that has lost its key without noticing cannot write the
// ledger, even if the next leader has not written it yet.
func TestLateLeaderWritesNothing(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	r := &leaderLog{}
	first := New(Options{Client: c.Client(t), Prefix: "/net/controller", Identity: "a", LeaseDuration: 10 * time.Minute, RenewDeadline: 9 * time.Minute, RetryPeriod: 5 * time.Minute})
	ledger := Ledger{Client: c.Client(t), Prefix: "/net/controller", Fence: first.Guard}
	before, err := ledger.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ledger.Write(t.Context(), before.Version, []cloudroute.Entry{entry(1, "eni-1")}); !errors.Is(err, errMoved) {
		t.Errorf("a write before the first term: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		first.Run(ctx, r.lead(true))
	}()
	r.until(t, 1)
	version, err := ledger.Write(ctx, before.Version, []cloudroute.Entry{entry(1, "eni-1")})
	if err != nil {
		t.Fatal(err)
	}
	client := c.Client(t)
	got, err := client.Get(ctx, "/net/controller/leader")
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	if _, err := client.Revoke(ctx, clientv3.LeaseID(got.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	next := &leaderLog{}
	replica(t, c, next, "b", true)
	next.until(t, 1)
	if !first.Status().Leading {
		t.Fatal("the first replica knows that it does not lead")
	}
	if _, err := ledger.Write(ctx, version, []cloudroute.Entry{entry(1, "eni-late")}); !errors.Is(err, errMoved) {
		t.Errorf("a late write: %v", err)
	}
	cancel()
	<-ended
	if _, err := ledger.Write(t.Context(), version, []cloudroute.Entry{entry(1, "eni-late")}); !errors.Is(err, errMoved) {
		t.Errorf("a write after the last term: %v", err)
	}
	// The late leader's release does not delete the key of the next one.
	if got, err := client.Get(t.Context(), "/net/controller/leader"); err != nil || len(got.Kvs) != 1 || string(got.Kvs[0].Value) != "b" {
		t.Errorf("the leader's key is %v, %v", got, err)
	}
	now, err := ledger.Read(t.Context())
	if err != nil || len(now.Entries) != 1 || !now.Entries[0].Equal(entry(1, "eni-1")) {
		t.Errorf("%+v, %v", now, err)
	}
}

// TestForeignLeaderKeyIsReported: if another program wrote a leader's key that never expires, the
// error names the key and the fix. A strange name in the key is quoted.
func TestForeignLeaderKeyIsReported(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	client := c.Client(t)
	if _, err := client.Put(t.Context(), "/net/controller/leader", "x\n<b>"); err != nil {
		t.Fatal(err)
	}
	r := &leaderLog{}
	e, _ := replica(t, c, r, "a", true)
	failing := func(part string) {
		t.Helper()
		kerneltest.Eventually(t, waitLimit, func() error {
			if err := e.Status().Failing; err == nil || !strings.Contains(err.Error(), part) {
				return fmt.Errorf("failing: %v", err)
			}
			return nil
		})
	}
	failing(`/net/controller/leader with the leader "x\n<b>" has no lease in etcd, so it never expires; delete it`)
	lease, err := client.Grant(t.Context(), 600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "/net/controller/leader", "x\n<b>", clientv3.WithLease(lease.ID)); err != nil {
		t.Fatal(err)
	}
	kerneltest.Eventually(t, waitLimit, func() error {
		if s := e.Status(); s.Leader != `"x\n<b>"` || s.Failing != nil {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
	if _, err := client.Delete(t.Context(), "/net/controller/leader"); err != nil {
		t.Fatal(err)
	}
	r.until(t, 1)
}

func TestNameOfLeader(t *testing.T) {
	for value, want := range map[string]string{
		"host-1": "host-1", "": `""`, "a\x00": `"a\x00"`, "\xff": `"\xff"`, "a b": "a b", strings.Repeat("x", 300): `"` + strings.Repeat("x", 80) + `"`,
	} {
		if got := nameOf([]byte(value)); got != want {
			t.Errorf("%q: %s, want %s", value, got, want)
		}
	}
}

func entry(i int, target string) cloudroute.Entry {
	return cloudroute.Entry{Destination: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24), Routes: []cloudroute.Owned{{Table: "rtb-a", Targets: []string{target}, Node: "n"}}}
}

// TestLedgerRefusesLateWrites: the ledger refuses a write with an outdated version, and keeps all
// its entries.
func TestLedgerRefusesLateWrites(t *testing.T) {
	c := etcdtest.Start(t, etcdtest.Options{})
	l := Ledger{Client: c.Client(t), Prefix: "/net/controller"}
	ctx := t.Context()
	old, err := l.Read(ctx)
	if err != nil || len(old.Entries) > 0 {
		t.Fatalf("%+v, %v", old, err)
	}
	var all []cloudroute.Entry
	for i := range 1500 {
		all = append(all, entry(i, "eni-1"))
	}
	version, err := l.Write(ctx, old.Version, all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Write(ctx, old.Version, []cloudroute.Entry{entry(0, "eni-late")}); !errors.Is(err, errMoved) {
		t.Errorf("a late write: %v", err)
	}
	gone := entry(3, "")
	gone.Routes = nil
	if version, err = l.Write(ctx, version, []cloudroute.Entry{gone}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Client.Put(ctx, "/net/controller/routes/nonsense", "x"); err != nil {
		t.Fatal(err)
	}
	now, err := l.Read(ctx)
	if err != nil || now.Version != version || len(now.Entries) != 1499 || len(now.Problems) != 1 || !now.Entries[0].Equal(all[0]) {
		t.Errorf("%s %s, %d entries, %q, %v", now.Version, version, len(now.Entries), now.Problems, err)
	}
}
