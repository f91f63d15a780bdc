package probe

import (
	"context"
	"fmt"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// trying runs Try with healthy peers, and an Echoer that knows whether offload is
// enabled. It returns the verdict, and how long offload was enabled.
func trying(t *testing.T, peers int, passes func(enabled bool, try Try) bool) (v Verdict, lasted time.Duration) {
	t.Helper()
	c := newCluster(peers)
	var enabled atomic.Bool
	p := &Prober{Echoer: passing(func(t Try) bool { return passes(enabled.Load(), t) })}
	for _, key := range c.peers {
		path := way(key)
		path.To = at(key)
		p.take([]string{key}, []Finding{{Path: path}}, time.Now())
	}
	var began time.Time
	v = p.Try(t.Context(), c, func(context.Context) bool {
		began = time.Now()
		return !enabled.Swap(true)
	})
	if !began.IsZero() {
		lasted = time.Since(began)
	}
	return v, lasted
}

// TestTrial: whatever comes back, offload is enabled for no longer than a second, and
// not at all if no peer answers before.
func TestTrial(t *testing.T) {
	checked := func(k Kind) bool { return k == UDP || k == HalfBare }
	for _, c := range []struct {
		name   string
		peers  int
		passes func(enabled bool, t Try) bool
		want   Verdict
		most   time.Duration
	}{
		{"whole again", 20, func(bool, Try) bool { return true }, Sound, 0},
		{"one peer", 1, func(bool, Try) bool { return true }, Sound, 0},
		{"still broken", 20, func(on bool, t Try) bool { return !on || !checked(t.Kind) }, Broken, patience},
		{"still broken, one peer", 1, func(on bool, t Try) bool { return !on || !checked(t.Kind) }, Broken, patience},
		{"broken to some", 8, func(on bool, t Try) bool { return !on || !checked(t.Kind) || t.To.As4()[2]%2 == 0 }, Broken, 2 * patience},
		{"broken in large packets", 8, func(on bool, t Try) bool { return !on || !checked(t.Kind) || t.Size == small }, NoVerdict, 2 * patience},
		{"no peer", 0, func(bool, Try) bool { return true }, NoVerdict, 0},
		{"no peer answers", 20, func(bool, Try) bool { return false }, NoVerdict, 0},
		{"peers broken themselves", 20, func(_ bool, t Try) bool { return t.Kind != UDP }, Sound, 0},
		{"all silent from then on", 20, func(on bool, _ Try) bool { return !on }, NoVerdict, patience},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				// An answer takes no time here.
				if v, lasted := trying(t, c.peers, c.passes); v != c.want || lasted > c.most {
					t.Errorf("verdict %d after %s, want %d after at most %s", v, lasted, c.want, c.most)
				}
			})
		})
	}
}

// TestLossIsNoVerdict loses packets of every kind at random, as a flood does. That never
// shows broken checksums as sound, and rarely sound ones as broken.
func TestLossIsNoVerdict(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		for percent := 0; percent < 100; percent += 10 {
			for _, broken := range []bool{false, true} {
				lost, got := losing(percent), make(map[Verdict]int)
				for range 100 {
					v, lasted := trying(t, 8, func(on bool, t Try) bool {
						return !lost(t) && !(broken && on && t.Kind == HalfBare)
					})
					got[v]++
					if lasted > trialWaves*patience {
						t.Errorf("%d%% lost: it takes %s", percent, lasted)
					}
				}
				if broken && got[Sound] > 0 || !broken && got[Broken] > 10 {
					t.Errorf("%d%% lost, broken: %t: verdicts %v", percent, broken, got)
				}
			}
		}
	})
}

// TestNoRoundDuringTrial: what a trial loses is no finding about a peer.
func TestNoRoundDuringTrial(t *testing.T) {
	c := newCluster(8)
	run(t, c, func(p *Prober, changes *atomic.Int32) {
		after(30 * time.Second)
		for range 20 {
			p.Try(context.Background(), c, func(context.Context) bool {
				for i := range 8 {
					c.set(fmt.Sprint(i), true)
				}
				return true
			})
			for i := range 8 {
				c.set(fmt.Sprint(i), false)
			}
			after(1700 * time.Millisecond)
		}
		if s := p.Summary(); changes.Load() != 0 || len(s.Failing) > 0 || len(s.Failed) > 0 {
			t.Errorf("%d changes: %+v", changes.Load(), s)
		}
	})
}

func TestTrialEndsWithItsContext(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c, p := newCluster(1), &Prober{Echoer: passing(func(Try) bool { return true })}
		path := way("0")
		path.To = at("0")
		p.take([]string{"0"}, []Finding{{Path: path}}, time.Now())
		if v := p.Try(ctx, c, func(context.Context) bool { cancel(); return true }); v != NoVerdict {
			t.Errorf("verdict %d", v)
		}
	})
}

// dual is a cluster whose peers have a path in IPv6, too.
type dual struct{ *cluster }

// Paths implements Source.
func (d dual) Paths(ctx context.Context, peers []string) []Path {
	paths := d.cluster.Paths(ctx, peers)
	for _, path := range paths {
		path.To, path.HostTo = netip.MustParseAddr("fd00:5::2"), netip.MustParseAddr("fd00:18::2")
		paths = append(paths, path)
	}
	return paths
}

// TestTrialOfBothFamilies: checksums that are broken in one family are broken.
func TestTrialOfBothFamilies(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			breaks func(to netip.Addr) bool
			want   Verdict
		}{
			{netip.Addr.Is4, Broken}, {netip.Addr.Is6, Broken}, {netip.Addr.IsMulticast, Sound},
		} {
			var enabled atomic.Bool
			all := dual{newCluster(3)}
			p := &Prober{Echoer: passing(func(t Try) bool { return t.Kind == Bare || !enabled.Load() || !c.breaks(t.To) })}
			for _, path := range all.Paths(t.Context(), all.peers) {
				p.take([]string{path.Peer}, []Finding{{Path: path}}, time.Now())
			}
			if v := p.Try(t.Context(), all, func(context.Context) bool { return !enabled.Swap(true) }); v != c.want {
				t.Errorf("verdict %d, want %d", v, c.want)
			}
		}
	})
}
