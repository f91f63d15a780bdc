package cloudroute

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

// routed returns the number of tables that have a route to the i-th node's range.
func (w *world) routed(i int) (n int) {
	for _, routes := range w.tables {
		if _, there := routes[netip.MustParsePrefix(fmt.Sprintf("10.%d.%d.0/24", i/256, i%256))]; there {
			n++
		}
	}
	return n
}

// atMost makes the cloud report a table as full when it has that many routes, whatever quota was
// read.
func (w *world) atMost(most map[string]int) {
	w.fail = func(c Change) error {
		if c.Verb == cloud.Add && len(w.tables[c.Table]) >= most[c.Table] {
			return &cloud.Error{Kind: cloud.Full, Text: "the quota is used up"}
		}
		return nil
	}
}

// unsure are quotas that may be wrong.
var unsure = map[string]cloud.Quota{
	"unknown": {}, "assumed": {Most: subnet.Pair[int]{500, 500}, Assumed: "not permitted"},
}

// TestAnUnsureQuotaGivesAllTablesOrNone: many nodes appear at once, and no quota is known. If the
// fuller table has no room, the other one does not get the route either.
func TestAnUnsureQuotaGivesAllTablesOrNone(t *testing.T) {
	for name, quota := range unsure {
		for _, fuller := range []string{"rtb-a", "rtb-b", "rtb-c"} {
			w := newWorld(t, Options{}, "rtb-a", "rtb-b", "rtb-c")
			w.quota = quota
			w.put(fuller, cloud.Route{Destination: prefix("192.0.2.0/24"), Kind: cloud.ToGateway, Target: "vgw-1"})
			w.atMost(map[string]int{"rtb-a": 20, "rtb-b": 20, "rtb-c": 20}) // two are not ours
			w.readTables()
			for i := range 60 {
				w.add(i)
			}
			for range 30 { // minutes
				w.pass(time.Minute)
				for i := range 60 {
					if n := w.routed(i); n != 0 && n != 3 {
						t.Fatalf("%s: worker-%d has routes in %d of 3 tables", name, i, n)
					}
				}
			}
			w.wantStatus(0, Routed)
			w.wantStatus(16, Routed)
			w.wantStatus(17, TableFull)
			w.atMost(map[string]int{"rtb-a": 500, "rtb-b": 500, "rtb-c": 500})
			w.pass(2 * time.Minute)
			for i := range 60 {
				w.wantStatus(i, Routed)
			}
		}
	}
}

// TestTablesOfDifferentQuotas: the emptier table may be full first. Then a node has a route in the
// other one. That route stays, and the node gets the missing one when there is room.
func TestTablesOfDifferentQuotas(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a", "rtb-b")
	w.put("rtb-a", cloud.Route{Destination: prefix("192.0.2.0/24"), Kind: cloud.ToGateway, Target: "vgw-1"})
	w.atMost(map[string]int{"rtb-a": 500, "rtb-b": 12})
	w.readTables()
	for i := range 30 {
		w.add(i)
	}
	w.pass(10 * time.Minute)
	half := 0
	for i := range 30 {
		if n := w.routed(i); n == 1 {
			half++
			w.wantStatus(i, TableFull)
		}
	}
	if half == 0 || half > 16 { // the number of changes at once
		t.Errorf("%d nodes are in one table of two", half)
	}
	for _, c := range w.made {
		if c.Verb == cloud.Remove {
			t.Errorf("removed %v", c)
		}
	}
	w.atMost(map[string]int{"rtb-a": 500, "rtb-b": 500})
	w.pass(2 * time.Minute)
	for i := range 30 {
		w.wantStatus(i, Routed)
	}
}

// TestAFailingTableDelaysNoOther: a table that fails for another reason than its quota does not
// keep routes from the other tables.
func TestAFailingTableDelaysNoOther(t *testing.T) {
	for name, quota := range unsure {
		w := newWorld(t, Options{}, "rtb-a", "rtb-b")
		w.quota = quota
		w.put("rtb-a", cloud.Route{Destination: prefix("192.0.2.0/24"), Kind: cloud.ToGateway, Target: "vgw-1"})
		w.fail = func(c Change) error {
			if c.Table == "rtb-a" {
				return &cloud.Error{Kind: cloud.Denied, Text: "not permitted"}
			}
			return nil
		}
		w.readTables()
		w.add(1)
		w.pass(time.Minute)
		if n := w.routed(1); n != 1 {
			t.Errorf("%s: %d tables have the route", name, n)
		}
		w.wantStatus(1, Failing)
	}
}

// TestAKnownQuotaNeedsNoOrder: with a known quota, all tables get a route at once. A plan shows
// all changes, whatever the quota.
func TestAKnownQuotaNeedsNoOrder(t *testing.T) {
	for want, w := range map[int]*world{1: newWorld(t, Options{}, "rtb-a", "rtb-b"), 2: newWorld(t, Options{}, "rtb-a", "rtb-b")} {
		if want == 2 {
			w.quota = cloud.Quota{Most: subnet.Pair[int]{500, 500}}
			w.readTables()
		}
		w.add(1)
		w.PlanLedger(w.now)
		w.LedgerDone(true, w.now)
		if changes, _ := w.Next(w.now, 16); len(changes) != want {
			t.Errorf("%d changes, want %d", len(changes), want)
		}
	}
	w := newWorld(t, Options{DryRun: true}, "rtb-a", "rtb-b")
	w.add(1)
	if changes, _ := w.Next(w.now, 16); len(changes) != 2 {
		t.Errorf("the plan has %d changes", len(changes))
	}
}
