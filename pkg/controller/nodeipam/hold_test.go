package nodeipam

import (
	"fmt"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/election"
)

// hold runs test with a Controller that holds Nodes back.
func hold(t *testing.T, test func(l *lab)) {
	t.Helper()
	run(t, "10.1.0.0/24", func(l *lab) {
		l.options.Hold = true
		test(l)
	})
}

// held fails unless Nodes wait for this revision, or none does.
func (l *lab) held(want int64) {
	l.t.Helper()
	if got := l.Held(); got != want {
		l.t.Errorf("Nodes wait for the revision %d, want %d", got, want)
	}
	if want > 0 {
		l.none()
	}
}

func TestANodeWaitsForThePoolsAsOfItsCreation(t *testing.T) {
	hold(t, func(l *lab) {
		l.shows("a", "1", 10)
		l.held(10)
		if r := l.Report(time.Now()); r.Waiting != 1 || len(r.Findings) > 0 {
			t.Errorf("%+v", r)
		}
		// Later changes of the Node, as by its kubelet, need no later pools.
		l.shows("a", "1", 14)
		l.held(10)
		l.Known(9)
		l.held(10)
		l.Known(10)
		l.held(0)
		w := l.one()
		if l.requires(w) != "14" {
			t.Errorf("of version %s", l.requires(w))
		}
		l.done(w, 15)
		l.shows("a", "1", 15, "10.1.0.0/24")
		l.held(0)
	})
}

// Other labels may select a pool that is newer than the Node.
func TestANodeWaitsAgainWhenItsLabelsChange(t *testing.T) {
	hold(t, func(l *lab) {
		l.shows("other", "2", 5, "10.1.0.0/24") // nothing is free
		l.shows("a", "1", 10)
		l.Known(10)
		l.none()
		v := stateOf("a", "1", 20)
		v.Labels = map[string]string{"zone": "x"}
		l.set("a", v)
		l.held(20)
		l.Known(20)
		l.held(0)
	})
}

func TestNodesThatGetNothingAreNotHeld(t *testing.T) {
	hold(t, func(l *lab) {
		l.shows("has", "1", 10, "10.1.0.0/24")
		v := stateOf("deleting", "2", 11)
		v.Deleting = true
		l.set("deleting", v)
		v = stateOf("odd", "3", 0) // its resourceVersion is no number
		l.set("odd", v)
		l.held(0)
		l.shows("gone", "4", 12)
		l.held(12)
		l.delete("gone")
		l.held(0)
		l.shows("again", "5", 13)
		l.shows("again", "6", 14) // created again under its name
		l.held(14)
		l.list(1, map[string]node{"again": stateOf("again", "6", 15, "10.1.0.0/24")})
		l.held(0)
	})
}

// A new leader knows nothing of the pools until it has read them.
func TestANewTermHoldsNodesAgain(t *testing.T) {
	hold(t, func(l *lab) {
		l.shows("a", "1", 10)
		l.Known(10)
		l.Lead(election.Term{Number: 2, Clean: true})
		l.list(2, map[string]node{"a": stateOf("a", "1", 10)})
		l.held(10)
		l.Known(10)
		l.one()
	})
}

// What the pools are asked for does not go through all Nodes that are held.
func TestManyHeldNodesAreAskedForAtNoCost(t *testing.T) {
	hold(t, func(l *lab) {
		for i := range 5000 {
			l.shows(fmt.Sprint("n", i), fmt.Sprint(i), int64(10+i))
		}
		if n := testing.AllocsPerRun(10, func() { l.Held() }); n > 0 || l.Held() != 5009 {
			t.Errorf("%.0f allocations, revision %d", n, l.Held())
		}
		// Another Node may have waited for it; the pools as of then are as good.
		l.delete("n4999")
		if at := l.Held(); at < 5008 || at > 5009 {
			t.Errorf("Nodes wait for the revision %d", at)
		}
		l.Known(5008)
		l.held(0)
		l.shows("late", "x", 6000)
		if at := l.Held(); at != 6000 {
			t.Errorf("a later Node waits for the revision %d", at)
		}
	})
}
