package netstate_test

import (
	"slices"
	"testing"

	. "github.com/tulle-net/tulle/pkg/netstate"
)

// TestRoutesThatDropFrameAPlan: they come before what they must not let pass elsewhere,
// and go after it.
func TestRoutesThatDropFrameAPlan(t *testing.T) {
	drop := Route{Dst: pfx("10.1.0.0/16"), Drop: true, Metric: 9}
	route := Route{Dst: pfx("10.1.2.0/24"), Link: "tulle.1"}
	link := vxlan("tulle.1", 1)
	var p Planner
	for _, o := range []Object{route, link, drop} {
		p.Add(Delete, o)
		p.Add(Create, o)
	}
	want := Plan{{Create, drop}, {Create, link}, {Create, route}, {Delete, route}, {Delete, link}, {Delete, drop}}
	if got := p.Plan(); !slices.Equal(got, want) {
		t.Errorf("planned\n%s", got)
	}
}

// TestReusedPlannerPlansTheSame: the memory of one plan serves the next, smaller or
// larger, and nothing of the former plan stays.
func TestReusedPlannerPlansTheSame(t *testing.T) {
	objects := peers(40)
	var reused Planner
	for _, n := range []int{100, 3, 0, 120, 120} {
		var fresh Planner
		for i, o := range objects[:n] {
			verb := []Verb{Create, Delete, Replace}[i%3]
			fresh.Add(verb, o)
			reused.Add(verb, o)
		}
		want, got := fresh.Plan(), reused.Plan()
		if len(got) != n || !slices.Equal(got, want) {
			t.Fatalf("%d steps: planned\n%s\nwant\n%s", n, got, want)
		}
		reused.Reuse(got)
	}
	plan := func() {
		reused.Grow(len(objects))
		for _, o := range objects {
			reused.Add(Create, o)
		}
		reused.Reuse(reused.Plan())
	}
	if n := testing.AllocsPerRun(10, plan); n > 0 {
		t.Errorf("a plan as large as the one before allocates %v times", n)
	}
}
