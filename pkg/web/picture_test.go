package web

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/probe"
	"github.com/tulle-net/tulle/pkg/status"
)

// TestRingsGiveEachPeerAPlace: every peer has its own place on the rings, within the picture.
func TestRingsGiveEachPeerAPlace(t *testing.T) {
	most := 0
	for n := range 500 {
		places := rings(n)
		if places == nil && n > 0 {
			break
		}
		most = n
		if len(places) != n {
			t.Fatalf("%d places for %d", len(places), n)
		}
		for i, a := range places {
			if min(a.x, a.y) < 6 || max(a.x, a.y) > side-6 {
				t.Fatalf("%d: %v is not in the picture", n, a)
			}
			for _, b := range places[:i] {
				if math.Hypot(a.x-b.x, a.y-b.y) < 11 {
					t.Fatalf("%d: %v and %v are on one another", n, a, b)
				}
			}
		}
	}
	if most < 320 || rings(100000) != nil {
		t.Errorf("there is room for %d", most)
	}
}

// TestGridHoldsAllPeers: the grid has all peers in a limited number of cells, none of which covers
// this node. No picture has many parts.
func TestGridHoldsAllPeers(t *testing.T) {
	for _, n := range []int{401, cells, cells + 1, 10000, 100001} {
		for _, f := range []fake{well(n), troubled(n)} {
			p := draw(f.peers, "good", "me")
			whole := strings.Count(strings.Join(p.Well[:], ""), "M")
			if p.Each*cells < n || whole > cells || len(p.Dots) > 0 || len(p.Cells) > mostBars || len(p.Parts[lostPeer].Path+p.Parts[failingPeer].Path+p.Parts[behindPeer].Path) > 2*40*cells {
				t.Errorf("%d: %d a cell, %d cells, %d bars, %d dots", n, p.Each, whole, len(p.Cells), len(p.Dots))
			}
			for _, b := range p.Cells {
				var x, y, height float64
				if _, err := fmt.Sscan(b.X, &x); err != nil {
					t.Fatal(err)
				}
				if _, err := fmt.Sscan(b.Y+" "+b.Height, &y, &height); err != nil {
					t.Fatal(err)
				}
				middleOfIt := x > middle-1.5*cell && x < middle+.5*cell && y > middle-1.5*cell && y < middle+.5*cell
				if x < 0 || y < 0 || height <= 0 || y+height > side || middleOfIt {
					t.Fatalf("%d: a bar is %+v", n, b)
				}
			}
		}
	}
	all := well(10000)
	for i := range all.peers {
		all.peers[i] = lost(all.peers[i])
	}
	if p := draw(all.peers, "good", "me"); p.Well != [shades]string{} || len(p.Cells) > 0 || strings.Count(p.Parts[lostPeer].Path, "M") != 10000/p.Each {
		t.Errorf("all lost: %+v", p)
	}
}

// TestWorstConditionCounts: the worst condition of a peer counts.
func TestWorstConditionCounts(t *testing.T) {
	ok := probed(peer(1), 1, probe.Well)
	pending := ok
	pending.InSync = false
	for _, c := range []struct {
		name string
		peer status.Peer
		want condition
	}{
		{"untried", peer(1), wellPeer},
		{"answers", ok, wellPeer},
		{"being written", pending, behindPeer},
		{"partly refused, and answers", behind(ok), behindPeer},
		{"fails", probed(peer(1), 0, probe.Down), failingPeer},
		{"passes small ones alone", probed(peer(1), 1, probe.SmallMTU), failingPeer},
		{"refused, and fails", behind(probed(peer(1), 0, probe.Diverted)), failingPeer},
		{"no way", lost(peer(1)), lostPeer},
		{"no way any more", func() status.Peer {
			p := lost(peer(1))
			p.Probes = probed(peer(1), 0, probe.Down).Probes
			return p
		}(), lostPeer},
	} {
		if got := conditionOf(c.peer); got != c.want {
			t.Errorf("%s: %s, not %s", c.name, got, c.want)
		}
	}
}

// TestShadesShowRoundTrips: shades show round trips where there is no room for numbers, and only if
// a round trip is known.
func TestShadesShowRoundTrips(t *testing.T) {
	for ms, want := range map[float64]string{0: "unknown", .004: "up to 1 ms", 1: "up to 1 ms", 1.01: "up to 10 ms", 100: "up to 100 ms", 101: "over 100 ms", 5000: "over 100 ms"} {
		if got := shadeOf(ms).String(); got != want {
			t.Errorf("%g ms is %s, not %s", ms, got, want)
		}
	}
	for _, n := range []int{3, 300, 1000} {
		f := well(n)
		for i := range f.peers {
			f.peers[i].Probes = nil
		}
		if p := draw(f.peers, "good", "me"); p.Shades != nil || strings.Contains(fmt.Sprint(p.Dots), "ms") {
			t.Errorf("%d that were not tried: %v, %v", n, p.Shades, p.Dots)
		}
		f.peers[n/2] = probed(f.peers[n/2], 12, probe.Well)
		p := draw(f.peers, "good", "me")
		if n == 3 {
			if p.Shades != nil || p.Dots[1].Took != "12.0 ms" || p.Dots[0].Took != "" {
				t.Errorf("%v, %v", p.Shades, p.Dots)
			}
			continue
		}
		if got := fmt.Sprint(p.Shades); got != "[up to 100 ms unknown]" {
			t.Errorf("of %d one is known: %s", n, got)
		}
	}
}
