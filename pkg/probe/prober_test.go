package probe

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// cluster is a Source whose peers have one path each, and an Echoer.
type cluster struct {
	mu    sync.Mutex
	peers []string
	down  map[netip.Addr]bool
	ahead time.Duration
	tried map[netip.Addr]int
	keyed bool // the tunnels encrypt, with this session
	state Session
}

func newCluster(n int) *cluster {
	c := &cluster{down: make(map[netip.Addr]bool), tried: make(map[netip.Addr]int)}
	for i := range n {
		c.peers = append(c.peers, fmt.Sprint(i))
	}
	return c
}

func at(peer string) netip.Addr {
	var i int
	if _, err := fmt.Sscan(peer, &i); err != nil {
		panic(err)
	}
	return netip.AddrFrom4([4]byte{10, 64 + byte(i>>8), byte(i), 0})
}

// Peers implements Source.
func (c *cluster) Peers(context.Context) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.peers)
}

// Paths implements Source.
func (c *cluster) Paths(_ context.Context, peers []string) (paths []Path) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range peers {
		if slices.Contains(c.peers, p) {
			path := way(p)
			path.To = at(p)
			if c.keyed {
				path.Key = "key of " + p
			}
			paths = append(paths, path)
		}
	}
	return paths
}

// Sessions implements Source.
func (c *cluster) Sessions(_ context.Context, paths []Path) []Session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Repeat([]Session{c.state}, len(paths))
}

// Route implements Source.
func (c *cluster) Route(context.Context, netip.Addr) (string, error) { return "tulle.1", nil }

// Echo implements Echoer.
func (c *cluster) Echo(ctx context.Context, t Try) (Answer, error) {
	c.mu.Lock()
	c.tried[t.To]++
	lost := c.down[t.To]
	c.mu.Unlock()
	return echoes(func(Try) (Answer, error) {
		if lost {
			return Answer{}, errLost
		}
		return Answer{RTT: time.Millisecond, Ahead: c.ahead, Clock: true}, nil
	}).Echo(ctx, t)
}

func (c *cluster) set(peer string, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down[at(peer)] = down
}

func (c *cluster) count() (peers, tries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.tried {
		tries += n
	}
	return len(c.tried), tries
}

// run runs a Prober of a cluster for f.
func run(t *testing.T, c *cluster, f func(p *Prober, changes *atomic.Int32)) {
	t.Helper()
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var changes atomic.Int32
		p := &Prober{Interval: 5 * time.Second, Echoer: c}
		var wg sync.WaitGroup
		wg.Go(func() { p.Run(ctx, c, func() { changes.Add(1) }) })
		f(p, &changes)
		cancel()
		wg.Wait()
	})
}

// after lets time pass in a bubble.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// TestRounds checks that all peers are probed, a few in each round: as many in a
// large cluster as in a small one.
func TestRounds(t *testing.T) {
	c := newCluster(100)
	run(t, c, func(p *Prober, changes *atomic.Int32) {
		after(firstRound + 500*time.Millisecond)
		if peers, tries := c.count(); peers != sample || tries != 2*sample {
			t.Errorf("the first round: %d peers, %d tries", peers, tries)
		}
		after(13 * 5 * time.Second)
		if peers, _ := c.count(); peers != 100 {
			t.Errorf("%d peers were tried", peers)
		}
		if s := p.Summary(); s.Known != 100 || len(s.Failing) > 0 || s.Well < 100 || s.Latency.Count != s.Well || s.Latency.Buckets[3] != s.Well {
			t.Errorf("%+v", s)
		}
		if changes.Load() != 0 {
			t.Errorf("%d changes, and nothing has", changes.Load())
		}
	})
}

// TestSuspects checks that a failing peer is probed in every round, and that changes
// are reported.
func TestSuspects(t *testing.T) {
	c := newCluster(200)
	c.set("7", true)
	run(t, c, func(p *Prober, changes *atomic.Int32) {
		for range 200 {
			if _, known := p.Of("7"); known {
				break
			}
			after(time.Second)
		}
		r, known := p.Of("7")
		if !known || r.Cause != Filtered || changes.Load() != 1 {
			t.Fatalf("%+v, %t, %d changes", r, known, changes.Load())
		}
		since := r.Since
		after(20 * time.Second)
		if r, _ := p.Of("7"); r.Cause != Filtered || r.Since != since || time.Since(r.At) > 10*time.Second || !r.Lasts || !r.logged || changes.Load() != 2 {
			t.Errorf("%+v, %d changes", r, changes.Load())
		}
		if s := p.Summary(); len(s.Failing) != 1 || s.Failing[0].Peer != "7" || s.Failed[Filtered] < 3 {
			t.Errorf("%+v", s)
		}
		c.set("7", false)
		after(10 * time.Second)
		if r, _ := p.Of("7"); r.Cause != Well || r.logged || changes.Load() != 3 {
			t.Errorf("%+v, %d changes", r, changes.Load())
		}
	})
}

// TestOldSuspects checks that a peer that has failed for long is probed less often,
// and that its recovery is noticed.
func TestOldSuspects(t *testing.T) {
	c := newCluster(2000)
	c.set("7", true)
	run(t, c, func(p *Prober, _ *atomic.Int32) {
		for {
			if _, known := p.Of("7"); known {
				break
			}
			after(time.Second)
		}
		after(2 * time.Minute)
		tried := func() int {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.tried[at("7")]
		}
		before := tried()
		after(2 * time.Minute)
		if n := tried() - before; n == 0 || n > 5*5*tries {
			t.Errorf("tried %d times", n)
		}
		c.set("7", false)
		after(retryPause + 10*time.Second)
		if r, _ := p.Of("7"); r.Cause != Well {
			t.Errorf("%+v", r)
		}
	})
}

// TestAllFail checks that a round stays small however many peers fail.
func TestAllFail(t *testing.T) {
	c := newCluster(100)
	for _, p := range c.peers {
		c.set(p, true)
	}
	run(t, c, func(p *Prober, _ *atomic.Int32) {
		after(5 * time.Minute)
		before, tries := c.count()
		after(time.Minute)
		_, later := c.count()
		if most := 12 * 2 * sample * 5 * tries; later-tries > most || before == 0 {
			t.Errorf("%d tries in a minute, not %d", later-tries, most)
		}
		if s := p.Summary(); len(s.Failing) != 100 {
			t.Errorf("%d of 100 fail", len(s.Failing))
		}
	})
}

// TestGone removes peers: they are forgotten, with their failures.
func TestGone(t *testing.T) {
	c := newCluster(3)
	c.set("1", true)
	run(t, c, func(p *Prober, _ *atomic.Int32) {
		after(20 * time.Second)
		if s := p.Summary(); s.Known != 3 || len(s.Failing) != 1 {
			t.Errorf("%+v", s)
		}
		c.mu.Lock()
		c.peers, c.ahead = c.peers[:1], time.Hour
		c.mu.Unlock()
		after(20 * time.Second)
		if s := p.Summary(); s.Known != 1 || len(s.Failing) != 0 || len(s.Clocks) != 1 {
			t.Errorf("%+v", s)
		}
	})
}

// TestMemory checks that all failing peers are remembered, and a limited number of
// others.
func TestMemory(t *testing.T) {
	p := &Prober{}
	for i := range 3 * memory {
		key := fmt.Sprint(i)
		f := Finding{Path: way(key)}
		if i%10 == 0 {
			f.Cause = Down
		}
		p.take([]string{key}, []Finding{f}, time.Now())
	}
	if s := p.Summary(); s.Known > memory || len(s.Failing) != 3*memory/10 {
		t.Errorf("%d known, %d failing", s.Known, len(s.Failing))
	}
}

// TestSinceCountsTheOverlay counts probes that show whether a peer knows this node.
func TestSinceCountsTheOverlay(t *testing.T) {
	p, now := &Prober{}, time.Now()
	direct := way("direct")
	direct.To = direct.HostTo
	p.take([]string{"old"}, []Finding{{Path: way("old")}}, now)
	p.take([]string{"a", "b", "direct"}, []Finding{{Path: way("a")}, {Path: way("b"), Cause: Filtered}, {Path: direct}}, now.Add(time.Second))
	for since, want := range map[time.Duration][2]int{-time.Second: {2, 3}, 0: {1, 2}, time.Second: {0, 0}} {
		if passed, tried := p.Since(now.Add(since)); passed != want[0] || tried != want[1] {
			t.Errorf("since %s: %d of %d, want %v", since, passed, tried, want)
		}
	}
}

// TestWorst checks that the failing one of two families decides a peer's result.
func TestWorst(t *testing.T) {
	for _, causes := range [][]Cause{{Well, Down}, {Down, Well}} {
		p := &Prober{}
		var findings []Finding
		for _, c := range causes {
			findings = append(findings, Finding{Path: way("a"), Cause: c})
		}
		p.take([]string{"a"}, findings, time.Now())
		if r, _ := p.Of("a"); r.Cause != Down {
			t.Errorf("%v: %+v", causes, r)
		}
	}
}

// A failure lasts only on one way: the rounds count again after a change from the tunnel.
func TestRoundsCountOnOneWay(t *testing.T) {
	var p Prober
	take := func(tunnel string, wantNews, wantLasts bool) {
		t.Helper()
		f := Finding{Cause: Down, Path: Path{Peer: "7", Tunnel: tunnel}}
		news := p.take([]string{"7"}, []Finding{f}, time.Now())
		if r, _ := p.Of("7"); news != wantNews || r.Lasts != wantLasts {
			t.Errorf("tunnel %q: news %t, %+v", tunnel, news, r)
		}
	}
	take("UDP port 8472", true, false)
	take("UDP port 8472", true, true)
	take("", true, false)
	take("", true, true)
	take("", false, true)
}
