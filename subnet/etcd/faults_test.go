package etcd

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/tulle-net/tulle/subnet"
)

const network = `{"Network": "10.5.0.0/16"}`

func claim(n int) subnet.Claim {
	var c subnet.Claim
	c.PublicIP[subnet.IPv4] = netip.AddrFrom4([4]byte{198, 18, byte(n >> 8), byte(n)})
	c.BackendType = "host-gw"
	c.Node = subnet.Node{ID: fmt.Sprintf("machine-%d", n), Name: fmt.Sprintf("node-%d", n)}
	return c
}

func (l *lab) acquire(s *Store, c subnet.Claim) subnet.Lease {
	l.t.Helper()
	lease, err := s.Acquire(l.t.Context(), c)
	if err != nil {
		l.t.Fatal(err)
	}
	return lease
}

// hold holds a lease until the test ends.
func (l *lab) hold(s *Store, own subnet.Lease) {
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() {
		if err := s.Hold(ctx, own); !errors.Is(err, context.Canceled) {
			l.t.Errorf("Hold ended with %v", err)
		}
	})
	l.t.Cleanup(func() { cancel(); running.Wait() })
}

// follow watches a store until the test ends.
func (l *lab) follow(s *Store) *follower {
	f := &follower{t: l.t, leases: map[string]subnet.Lease{}, changed: make(chan struct{}, 1)}
	var running sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	running.Go(func() { s.Watch(ctx, f.take) })
	l.t.Cleanup(func() { cancel(); running.Wait() })
	return f
}

// follower records what a watch reports.
type follower struct {
	t       *testing.T
	changed chan struct{}

	mu     sync.Mutex
	leases map[string]subnet.Lease
	bad    []*subnet.LeaseError
	lists  int
}

func (f *follower) take(u subnet.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if u.Complete {
		f.lists++
		clear(f.leases)
		f.bad = nil
	}
	for _, key := range u.Gone {
		delete(f.leases, key)
	}
	for _, l := range u.Leases {
		f.leases[l.Key()] = l
	}
	f.bad = append(f.bad, u.Bad...)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// await waits until met, and fails the test after some seconds.
func (f *follower) await(what string, met func() bool) {
	f.t.Helper()
	limit := time.NewTimer(40 * time.Second)
	defer limit.Stop()
	for {
		f.mu.Lock()
		ok := met()
		f.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-f.changed:
		case <-limit.C:
			f.mu.Lock()
			defer f.mu.Unlock()
			f.t.Fatalf("timed out waiting for %s; there are %v", what, slices.Sorted(maps.Keys(f.leases)))
		}
	}
}

func (f *follower) has(leases ...subnet.Lease) func() bool {
	return func() bool {
		for _, l := range leases {
			if f.leases[l.Key()].Attrs != l.Attrs {
				return false
			}
		}
		return len(f.leases) == len(leases)
	}
}

// counter counts the calls to etcd.
type counter struct {
	mu    sync.Mutex
	calls []string
}

func (c *counter) options() []grpc.DialOption {
	note := func(method string) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.calls = append(c.calls, method[strings.LastIndex(method, "/")+1:])
	}
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, o ...grpc.CallOption) error {
			note(method)
			return invoke(ctx, method, req, reply, cc, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, s grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			note(method)
			return s(ctx, d, cc, method, o...)
		}),
	}
}

func (c *counter) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := strings.Join(c.calls, " ")
	c.calls = nil
	return calls
}

// sorted sorts calls, because some are concurrent.
func sorted(calls string) string {
	return strings.Join(slices.Sorted(slices.Values(strings.Fields(calls))), " ")
}

// TestStartCostsFewCalls: a start costs a handful of calls, however many leases there
// are. One that finds its lease unchanged writes nothing.
func TestStartCostsFewCalls(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	for n := range 250 {
		l.Write(fmt.Sprintf("10.5.%d.0-24", n+1), fmt.Sprintf(`{"PublicIP":"198.19.0.%d"}`, n))
	}
	start := func(news string) (subnet.Lease, string) {
		var c counter
		s := l.open(c.options()...)
		cfg, err := s.Config(t.Context(), subnet.Config{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var changes sync.WaitGroup
		defer changes.Wait()
		defer cancel()
		changes.Go(func() { _, _ = s.Config(ctx, cfg) })
		own := l.acquire(s, claim(1))
		f := l.follow(s)
		l.hold(s, own)
		f.await("all leases", func() bool { return len(f.leases) >= 251 })
		l.Write(news, `{"PublicIP":"198.19.1.1"}`) // it arrives only if the watch runs
		f.await("news", func() bool { _, ok := f.leases[news]; return ok })
		return own, c.take()
	}
	own, calls := start("10.5.252.0-24")
	if want := "LeaseGrant Range Txn Watch"; sorted(calls) != want {
		t.Errorf("the first start: %s, want %s", calls, want)
	}
	again, calls := start("10.5.253.0-24")
	if want := "LeaseKeepAlive Range Watch"; sorted(calls) != want || again != own {
		t.Errorf("a restart: %s, want %s; %+v after %+v", calls, want, again, own)
	}
}

// TestLostRaceNeedsNoList: a node that loses a race continues from what the failed
// transaction returned.
func TestLostRaceNeedsNoList(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	var c counter
	late := l.open(c.options()...)
	if _, err := late.Config(t.Context(), subnet.Config{}); err != nil {
		t.Fatal(err)
	}
	want := claim(2)
	want.Want[subnet.IPv4] = netip.MustParsePrefix("10.5.7.0/24")
	first := claim(1)
	first.Want = want.Want
	l.acquire(l.Store, first)
	c.take()
	if got := l.acquire(late, want); got.Subnets == want.Want {
		t.Errorf("two nodes have %s", got.Key())
	}
	if calls := c.take(); calls != "LeaseGrant Txn Txn" {
		t.Errorf("it took %s", calls)
	}
}

// TestRetryGrantsAgainAfterDataLoss: an etcd lease that was granted for a failed
// write may be lost at the retry, with an etcd that lost its data.
func TestRetryGrantsAgainAfterDataLoss(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	var lost atomic.Bool
	s := l.open(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if !strings.HasSuffix(method, "/Txn") || lost.Swap(true) {
			return invoke(ctx, method, request, reply, conn, options...)
		}
		granted, err := l.client.Leases(ctx)
		if err != nil {
			return err
		}
		for _, g := range granted.Leases {
			if _, err := l.client.Revoke(ctx, g.ID); err != nil {
				return err
			}
		}
		return errors.New("the line broke")
	}))
	own := l.acquire(s, claim(1))
	l.hold(s, own)
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))
}

// TestGivesWayAlsoWhenAnswerIsLost: while a node leases two families, another takes half of
// its choice, and the answer to its write is lost. It yields, and leases another
// subnet.
func TestGivesWayAlsoWhenAnswerIsLost(t *testing.T) {
	l := newLab(t)
	l.SetConfig(`{"Network": "10.5.0.0/16", "EnableIPv6": true, "IPv6Network": "fd00:5::/48"}`)
	var lost atomic.Bool
	var rival string
	s := l.open(grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if !strings.HasSuffix(method, "/Txn") || lost.Swap(true) {
			return invoke(ctx, method, request, reply, conn, options...)
		}
		for _, op := range request.(*etcdserverpb.TxnRequest).Success {
			if put := op.GetRequestPut(); put != nil {
				v4, _, _ := strings.Cut(strings.TrimPrefix(string(put.Key), prefix+"/subnets/"), "&")
				rival = v4 + "&fd00:5:0:1::-64"
				l.Write(rival, `{"PublicIP": "198.18.0.77", "PublicIPv6": "fd00:18::77", "BackendType": "vxlan"}`)
			}
		}
		if err := invoke(ctx, method, request, reply, conn, options...); err != nil {
			return err
		}
		return errors.New("the answer is lost")
	}))
	want := claim(1)
	want.PublicIP[subnet.IPv6] = netip.MustParseAddr("fd00:18::1")
	own := l.acquire(s, want)
	if v4, _, _ := strings.Cut(rival, "&"); rival == "" || strings.HasPrefix(own.Key(), v4) {
		t.Errorf("it leased %s beside the earlier %s", own.Key(), rival)
	}
	f := l.follow(l.Store)
	f.await("its lease and its rival's", func() bool { return len(f.leases) == 2 })
}

// TestEmptiedEtcdIsRefilled: etcd is emptied by hand, and every node restores its
// subnet with one write.
func TestEmptiedEtcdIsRefilled(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	var all []subnet.Lease
	for n := range 20 {
		s := l.open()
		all = append(all, l.acquire(s, claim(n+1)))
		l.hold(s, all[n])
	}
	f := l.follow(l.Store)
	f.await("all", f.has(all...))
	for range 2 {
		r, err := l.client.Delete(t.Context(), prefix+"/subnets/", clientv3.WithPrefix())
		l.do("delete all", r, err)
		f.await("none", func() bool { return len(f.leases) < len(all) })
		f.await("all again", f.has(all...))
		// A busy etcd answers some requests too late, but it carries each write out once.
		after, err := l.client.Get(t.Context(), prefix)
		l.do("read the revision", after, err)
		if n := after.Header.Revision - r.Header.Revision; n != int64(len(all)) {
			t.Errorf("%d writes for %d leases", n, len(all))
		}
	}
}

// TestRestoreFromBackupIsNoticed: the same after etcd lost its data, or went back to
// old data.
func TestRestoreFromBackupIsNoticed(t *testing.T) {
	for _, members := range []int{1, 3} {
		for _, backup := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d members, backup %t", members, backup), func(t *testing.T) {
				t.Parallel()
				l, cluster := newCluster(t, members)
				l.SetConfig(network)
				old := cluster.Snapshot()
				a, b := l.open(), l.open()
				one, two := l.acquire(a, claim(1)), l.acquire(b, claim(2))
				l.hold(a, one)
				l.hold(b, two)
				f := l.follow(a)
				f.await("both", f.has(one, two))
				for range 100 { // so that revisions differ clearly
					l.SetConfig(network)
				}
				l.Write("10.5.200.0-24", `{"PublicIP":"198.18.9.9"}`)
				f.await("three", func() bool { return len(f.leases) == 3 })
				if backup {
					cluster.Restore(old)
				} else {
					cluster.Wipe()
				}
				f.await("the two who live", f.has(one, two))
			})
		}
	}
}

// TestListOfEarlierHistoryIsNotUsed: a watch does not begin with a list from before a
// restore, however long the node waited for its lease.
func TestListOfEarlierHistoryIsNotUsed(t *testing.T) {
	t.Parallel()
	l, cluster := newCluster(t, 1)
	l.SetConfig(network)
	old := cluster.Snapshot()
	l.acquire(l.Store, claim(1))
	s := l.open()
	if _, err := s.Config(t.Context(), subnet.Config{}); err != nil {
		t.Fatal(err)
	}
	cluster.Restore(old)
	for range 30 { // so that revisions do not show the restore
		l.SetConfig(network)
	}
	other := l.acquire(l.open(), claim(2))
	own := l.acquire(s, claim(3))
	f := l.follow(s)
	f.await("those who are there now", f.has(own, other))
}

// TestRestoreBringsBackDeletedLease: what was deleted before a node started may exist
// again after a restore.
func TestRestoreBringsBackDeletedLease(t *testing.T) {
	for name, forget := range map[string]bool{"all history": false, "compacted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, cluster := newCluster(t, 1)
			l.SetConfig(network)
			one, two := l.acquire(l.Store, claim(1)), l.acquire(l.Store, claim(2))
			old := cluster.Snapshot()
			l.Delete(two.Key())
			s := l.open()
			f := l.follow(s)
			f.await("the one", f.has(one))
			cluster.Restore(old)
			if forget {
				cluster.Compact()
			}
			f.await("both", f.has(one, two))
		})
	}
}

// TestRubbishHarmsNoLease writes keys and values that are no leases.
func TestRubbishHarmsNoLease(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	own := l.acquire(l.Store, claim(1))
	l.hold(l.Store, own)
	f := l.follow(l.Store)
	f.await("the lease", f.has(own))
	keys := []string{"rubbish", "0.0.0.0-0x", "10.5.9.0-24", "a/b/c", ""}
	for _, value := range []string{"", "rubbish", "{", strings.Repeat("x", 1_000_000), `{"PublicIP":7}`} {
		for _, key := range keys {
			if key != "" || value != "" {
				l.Write(key, value)
			}
		}
		f.await("what is wrong", func() bool { return len(f.bad) >= len(keys)-1 })
		f.await("the lease", f.has(own))
		l.Store.position.mu.Lock()
		l.Store.position.lose()
		l.Store.position.mu.Unlock()
	}
}

// TestLeaseBeyondTheNetworkIsIgnored: the oldest lease is larger than the network,
// and takes no subnet.
func TestLeaseBeyondTheNetworkIsIgnored(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	l.Write("0.0.0.0-0", `{"PublicIP":"198.18.9.9"}`)
	own := l.acquire(l.Store, claim(1))
	l.hold(l.Store, own)
	f := l.follow(l.Store)
	f.await("the lease", func() bool { return f.leases[own.Key()].Attrs == own.Attrs })
	l.Delete(own.Key())
	f.await("the lease again", func() bool { return f.leases[own.Key()].Revision > own.Revision })
	// Nor does it without a config to compare with.
	r, err := l.client.Delete(t.Context(), prefix+"/config")
	l.do("delete the config", r, err)
	for text, want := range map[string]bool{"0.0.0.0/0": false, "10.5.9.0/24": true} {
		other := subnet.Lease{Subnets: subnet.Pair[netip.Prefix]{netip.MustParsePrefix(text)}}
		if got, err := l.Store.possible(t.Context(), other); err != nil || got != want {
			t.Errorf("a lease of %s is possible: %t, %v", text, got, err)
		}
	}
}

// TestSecondNodeWithOurAddressIsRefused: of two nodes with one address, the second is refused with the
// first one's name, and leaves its lease alone.
func TestSecondNodeWithOurAddressIsRefused(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	first := l.acquire(l.Store, claim(1))
	other := claim(2)
	other.PublicIP = claim(1).PublicIP
	_, err := l.open().Acquire(t.Context(), other)
	if !errors.Is(err, subnet.ErrSameAddress) || !strings.Contains(err.Error(), "node-1") {
		t.Errorf("got %v", err)
	}
	f := l.follow(l.Store)
	f.await("the first's lease", f.has(first))
}

// TestListInPages: a list longer than a page comes in several answers.
func TestListInPages(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	for _, n := range []int{pageSize - 1, pageSize, 2*pageSize + 1} { // the config is one more key
		fill(t, l.client, n)
		var c counter
		got, err := l.open(c.options()...).list(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		keys := make(map[string]bool)
		for _, lease := range got.leases {
			keys[lease.Key()] = true
		}
		if len(keys) != n || len(got.leases) != n || got.config == nil {
			t.Errorf("%d leases, %d of them different, of %d", len(got.leases), len(keys), n)
		}
		if calls, want := c.take(), strings.TrimSpace(strings.Repeat("Range ", (n+pageSize)/pageSize)); calls != want {
			t.Errorf("%d leases: %s, want %s", n, calls, want)
		}
	}
}

// TestNodesThatSwapAddressesDoNotWait for each other.
func TestNodesThatSwapAddressesDoNotWait(t *testing.T) {
	l := newLab(t)
	l.SetConfig(network)
	one, two := claim(1), claim(2)
	a, b := l.open(), l.open()
	first, second := l.acquire(a, one), l.acquire(b, two)
	one.PublicIP, two.PublicIP = two.PublicIP, one.PublicIP
	if own := l.acquire(a, one); own.Subnets != first.Subnets || own.PublicIP != one.PublicIP {
		t.Errorf("the first has %+v", own)
	}
	if own := l.acquire(b, two); own.Subnets != second.Subnets || own.PublicIP != two.PublicIP {
		t.Errorf("the second has %+v", own)
	}
	three := claim(3)
	three.PublicIP = one.PublicIP
	if _, err := l.open().Acquire(t.Context(), three); !errors.Is(err, subnet.ErrSameAddress) {
		t.Errorf("a new node with the address of another: %v", err)
	}
}
