package web

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// Every peer has a place of its own on the rings, and within the picture.
func TestRings(t *testing.T) {
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

// The grid has all peers in at most so many cells, none of which is in the way of
// this node, and no picture has many parts.
func TestGrid(t *testing.T) {
	for _, n := range []int{401, cells, cells + 1, 10000, 100001} {
		for _, f := range []fake{well(n), troubled(n)} {
			p := draw(f.peers, "good", "me")
			whole := strings.Count(p.Well, "M")
			if p.Each*cells < n || whole > cells || len(p.Dots) > 0 || len(p.Cells) > mostBars || len(p.Parts[lostPeer]+p.Parts[behindPeer]) > 2*40*cells {
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
	if p := draw(all.peers, "good", "me"); p.Well != "" || len(p.Cells) > 0 || strings.Count(p.Parts[lostPeer], "M") != 10000/p.Each {
		t.Errorf("all lost: %+v", p)
	}
}
