package cloudroute

import (
	"slices"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// splitWorld returns a settled cluster of two nodes. The first one has changed its instance
// from i-1 to i-7, and the table has a route to each.
func splitWorld(t *testing.T) *world {
	w := newWorld(t, Options{}, "net")
	w.add(1)
	w.add(2)
	w.settle()
	moved := target(7)
	w.fail = func(Change) error { return &cloud.Error{Kind: cloud.Unavailable, Action: "routes.delete", Text: "cut"} }
	w.SetTarget("worker-1", moved, w.now)
	w.settle()
	w.fail = nil
	w.put("net", cloud.Route{Destination: prefix("10.0.1.0/24"), Kind: cloud.ToInterface, Target: "eni-7", Instance: "i-7", Split: "eni-1"})
	w.restart()
	return w
}

// TestRetriesAnInterruptedReplace: an interrupted Replace leaves two routes of ours. It is due
// again, although one of them leads to the right instance.
func TestRetriesAnInterruptedReplace(t *testing.T) {
	w := splitWorld(t)
	before := len(w.made)
	w.settle()
	if len(w.made) != before+1 || w.made[before].Verb != cloud.Replace || w.made[before].Was.Split != "eni-1" || w.made[before].Instance != "i-7" {
		t.Errorf("%v", w.made[before:])
	}
	w.wantStatus(1, Routed)
	w.want(map[string]string{"10.0.1.0/24": "eni-7", "10.0.2.0/24": "eni-2"})
}

// TestASecondRouteThatTheLedgerLacksIsForeign: if the ledger has only one of two marked routes,
// the other one is foreign.
func TestASecondRouteThatTheLedgerLacksIsForeign(t *testing.T) {
	w := splitWorld(t)
	w.put("net", cloud.Route{Destination: prefix("10.0.1.0/24"), Kind: cloud.ToInterface, Target: "eni-7", Instance: "i-7", Split: "eni-9"})
	w.readTables()
	before := len(w.made)
	w.settle()
	w.wantStatus(1, Taken)
	if text := w.Status("worker-1").Text; len(w.made) != before || !strings.Contains(text, "eni-9") {
		t.Errorf("%v, %s", w.made[before:], text)
	}
}

// TestARivalIsShownAndStays: a foreign route that takes the packets is a finding. Our route is
// removed after its node is gone, but the foreign one stays.
func TestARivalIsShownAndStays(t *testing.T) {
	w := newWorld(t, Options{}, "net")
	w.add(1)
	w.add(2)
	w.settle()
	w.now = w.now.Add(2 * settleTime)
	r := w.tables["net"][prefix("10.0.1.0/24")]
	r.Rival = "by-hand"
	w.put("net", r)
	w.readTables()
	w.settle()
	w.wantStatus(1, Taken)
	if text := w.Status("worker-1").Text; !strings.Contains(text, "by-hand") {
		t.Error(text)
	}
	w.remove(1)
	w.pass(2 * w.options.Grace)
	if _, there := w.tables["net"][prefix("10.0.1.0/24")]; there || !slices.ContainsFunc(w.made, func(c Change) bool { return c.Verb == cloud.Remove && c.Was.Rival == "by-hand" }) {
		t.Errorf("%v", w.made)
	}
}

// TestAnUnmarkedRouteIsNeverOurs: a route without our mark counts as its node's route, but is
// never adopted or removed.
func TestAnUnmarkedRouteIsNeverOurs(t *testing.T) {
	w := newWorld(t, Options{}, "net")
	w.put("net", cloud.Route{Destination: prefix("10.0.1.0/24"), Kind: cloud.ToInterface, Target: "eni-1", Instance: "i-1", Origin: cloud.Unmarked})
	w.readTables()
	w.add(1)
	w.add(2)
	w.settle()
	w.wantStatus(1, Routed)
	w.remove(1)
	w.pass(2 * w.options.Grace)
	if _, there := w.tables["net"][prefix("10.0.1.0/24")]; !there || len(w.ledger) != 1 || len(w.made) != 1 {
		t.Errorf("%v, %v", w.ledger, w.made)
	}
}
