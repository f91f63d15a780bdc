package cloudroute

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/subnet"
)

func TestEveryTableGetsEveryRange(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a", "rtb-b", "rtb-c")
	w.add(1, "10.0.1.0/24", "fd00:0:0:1::/64")
	w.add(2)
	w.settle()
	w.want(map[string]string{"10.0.1.0/24": "eni-1", "fd00:0:0:1::/64": "eni-1", "10.0.2.0/24": "eni-2"})
	w.wantStatus(1, Routed)
	if len(w.made) != 9 || len(w.ledger) != 3 {
		t.Errorf("%d changes, %d entries", len(w.made), len(w.ledger))
	}
	w.pass(time.Hour)
	if len(w.made) != 9 {
		t.Errorf("%d changes of a settled cluster", len(w.made)-9)
	}
}

// TestAnEventExaminesOnlyItsNode: the cost of an event does not depend on the number of nodes.
func TestAnEventExaminesOnlyItsNode(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a", "rtb-b", "rtb-c")
	for i := range 5000 {
		w.add(i)
	}
	w.settle()
	w.examined = 0
	w.add(6000)
	w.settle()
	w.readTables()
	w.settle()
	if w.examined > 20 {
		t.Errorf("examined %d destinations", w.examined)
	}
	w.wantStatus(6000, Routed)
}

func TestARouteIsRemovedAfterTheGraceAndARead(t *testing.T) {
	w := newWorld(t, Options{Grace: 5 * time.Minute}, "rtb-a", "rtb-b")
	w.add(1)
	w.add(2)
	w.settle()
	w.remove(1)
	w.pass(5*time.Minute - time.Second)
	w.want(map[string]string{"10.0.1.0/24": "eni-1", "10.0.2.0/24": "eni-2"})
	// While the tables cannot be read, no route is removed.
	w.every = 24 * time.Hour
	w.now = w.now.Add(time.Hour)
	w.settle()
	w.want(map[string]string{"10.0.1.0/24": "eni-1", "10.0.2.0/24": "eni-2"})
	w.readTables()
	w.settle()
	w.want(map[string]string{"10.0.2.0/24": "eni-2"})
	w.every = time.Minute
	w.pass(lateTime + time.Minute)
	if len(w.ledger) != 1 {
		t.Errorf("the ledger has %v", w.ledger)
	}
}

// TestTheLastRouteIsNeverRemoved: a list without any node counts as a mistake.
func TestTheLastRouteIsNeverRemoved(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	for i := range 3 {
		w.add(i)
	}
	w.settle()
	for i := range 3 {
		w.remove(i)
	}
	w.pass(24 * time.Hour)
	w.want(map[string]string{"10.0.0.0/24": "eni-0", "10.0.1.0/24": "eni-1", "10.0.2.0/24": "eni-2"})
	w.add(2)
	w.pass(15 * time.Minute)
	w.want(map[string]string{"10.0.2.0/24": "eni-2"})
}

func TestForeignRoutesStay(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	w.put("rtb-a", cloud.Route{Destination: prefix("10.0.9.0/24"), Kind: cloud.ToInterface, Target: "eni-99", State: cloud.Blackhole})
	w.put("rtb-a", cloud.Route{Destination: prefix("10.0.1.0/24"), Kind: cloud.ToInterface, Target: "eni-98", Instance: "i-98"})
	w.put("rtb-a", cloud.Route{Destination: prefix("10.0.3.0/24"), Kind: cloud.ToGateway, Target: "pcx-1"})
	w.restart()
	for i := 1; i <= 3; i++ {
		w.add(i)
	}
	w.pass(time.Hour)
	w.want(map[string]string{"10.0.9.0/24": "eni-99", "10.0.1.0/24": "eni-98", "10.0.2.0/24": "eni-2", "10.0.3.0/24": "pcx-1"})
	w.wantStatus(1, Taken)
	w.wantStatus(2, Routed)
	w.wantStatus(3, Taken)
	foreign := 0
	for _, r := range w.Rows() {
		if r.Code == Foreign {
			foreign++
		}
	}
	if foreign != 3 {
		t.Errorf("%d foreign routes in %+v", foreign, w.Rows())
	}
	// A person deletes the foreign route.
	delete(w.tables["rtb-a"], prefix("10.0.1.0/24"))
	w.pass(time.Minute)
	w.wantStatus(1, Routed)
}

// TestAdoptsRoutesOfLivingNodes: a route that another controller created for a living node is
// adopted.
func TestAdoptsRoutesOfLivingNodes(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	w.put("rtb-a", cloud.Route{Destination: prefix("10.0.1.0/24"), Kind: cloud.ToInterface, Target: "eni-1", Instance: "i-1"})
	w.put("rtb-a", cloud.Route{Destination: prefix("10.0.2.0/24"), Kind: cloud.ToInterface, Target: "eni-other", Instance: "i-2"})
	w.restart()
	w.add(1)
	w.add(2)
	w.settle()
	w.wantStatus(1, Routed)
	w.wantStatus(2, Routed)
	if len(w.made) > 0 || len(w.ledger) != 1 {
		t.Errorf("%v, the ledger has %v", w.made, w.ledger)
	}
	w.remove(1)
	w.remove(2)
	w.add(3)
	w.pass(time.Hour)
	w.want(map[string]string{"10.0.2.0/24": "eni-other", "10.0.3.0/24": "eni-3"})
}

func TestAnotherInstanceIsOneReplace(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a", "rtb-b")
	w.add(1)
	w.settle()
	w.made = nil
	for id := range w.tables {
		w.put(id, cloud.Route{Destination: prefix("10.0.1.0/24"), Kind: cloud.ToInterface, Target: "eni-1", State: cloud.Blackhole})
	}
	w.pass(time.Minute)
	w.wantStatus(1, Blackhole)
	w.SetTarget("worker-1", target(11), w.now)
	w.settle()
	w.want(map[string]string{"10.0.1.0/24": "eni-11"})
	if len(w.made) != 2 || w.made[0].Verb != cloud.Replace || w.made[1].Verb != cloud.Replace {
		t.Errorf("%v", w.made)
	}
	// A late write of the last leader is corrected: the ledger still has its target.
	w.put("rtb-a", cloud.Route{Destination: prefix("10.0.1.0/24"), Kind: cloud.ToInterface, Target: "eni-1"})
	w.pass(time.Minute)
	w.want(map[string]string{"10.0.1.0/24": "eni-11"})
	w.pass(2 * lateTime)
	if got := w.ledger[prefix("10.0.1.0/24")].Text(); got != "rtb-a eni-11 worker-1\nrtb-b eni-11 worker-1\n" {
		t.Errorf("the ledger has %q", got)
	}
}

func TestDriftIsHealed(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a", "rtb-b")
	w.add(1)
	w.add(2)
	w.pass(time.Minute)
	delete(w.tables["rtb-a"], prefix("10.0.1.0/24"))
	w.put("rtb-b", cloud.Route{Destination: prefix("10.0.2.0/24"), Kind: cloud.ToInterface, Target: "eni-hand"})
	w.pass(time.Minute)
	w.wantStatus(1, Routed)
	w.wantStatus(2, Taken)
	if got := w.tables["rtb-b"][prefix("10.0.2.0/24")].Target; got != "eni-hand" {
		t.Errorf("the route by hand leads to %s", got)
	}
}

// TestARaisedQuotaServesAllThatWait: a table that the cloud reported as full is tried again
// after a minute, with one route, and then gets all the others. That also holds if the quota
// that was read had room all the time.
func TestARaisedQuotaServesAllThatWait(t *testing.T) {
	for _, most := range []int{0, 500} {
		w := newWorld(t, Options{}, "rtb-a", "rtb-b")
		w.quota = cloud.Quota{Most: subnet.Pair[int]{subnet.IPv4: most}}
		refused, real := 0, 7 // two of them are not ours
		w.fail = func(c Change) error {
			if c.Verb != cloud.Add || len(w.tables[c.Table]) < real {
				return nil
			}
			refused++
			return &cloud.Error{Kind: cloud.Full, Text: "the quota is used up"}
		}
		w.readTables()
		for i := range 30 {
			w.add(i)
		}
		w.pass(10 * time.Second)
		w.wantStatus(4, Routed)
		w.wantStatus(29, TableFull)
		refused = 0
		w.pass(10 * time.Minute)
		w.wantStatus(29, TableFull)
		if refused == 0 || refused > 20 {
			t.Errorf("with the quota %d, %d routes were refused in ten minutes, want one a minute in each table", most, refused)
		}
		real = 500
		w.pass(2 * time.Minute)
		for i := range 30 {
			w.wantStatus(i, Routed)
		}
	}
}

// TestAFullTableServesTheOldest: the oldest nodes get the room, and keep it.
func TestAFullTableServesTheOldest(t *testing.T) {
	for _, known := range []bool{true, false} {
		w := newWorld(t, Options{}, "rtb-a", "rtb-b")
		real := cloud.Quota{Most: subnet.Pair[int]{subnet.IPv4: 7}} // two of them are not ours
		if w.quota = real; !known {
			w.quota = cloud.Quota{}
			w.fail = func(c Change) error {
				if c.Verb == cloud.Add && len(w.tables[c.Table]) >= 7 {
					return &cloud.Error{Kind: cloud.Full, Text: "the quota is used up"}
				}
				return nil
			}
		}
		w.readTables()
		for i := 9; i >= 0; i-- {
			w.add(i)
		}
		w.pass(time.Minute)
		for i := range 10 {
			want := Routed
			if i >= 5 {
				want = TableFull
			}
			w.wantStatus(i, want)
		}
		if u := w.Usages()[0]; u.Used != 7 || u.Waiting != 5 || u.Most != 7 || !strings.Contains(u.String(), "7 of 7 routes, 0 free; 5 waiting") {
			t.Errorf("%+v", u)
		}
		if n := len(w.made); known && n != 10 {
			t.Errorf("%d changes", n)
		}
		// A new but older node takes no route from the others.
		w.SetNode(Node{Name: "worker-77", Created: -1, Ranges: []string{"10.7.7.0/24"}, Target: target(77)}, w.now)
		w.pass(time.Minute)
		w.wantStatus(77, TableFull)
		// It gets the first room.
		w.remove(2)
		w.pass(15 * time.Minute)
		w.wantStatus(77, Routed)
		w.wantStatus(5, TableFull)
		w.quota, w.fail = cloud.Quota{Most: subnet.Pair[int]{subnet.IPv4: 500}}, nil
		w.pass(time.Hour)
		for _, i := range []int{5, 6, 7, 8, 9} {
			w.wantStatus(i, Routed)
		}
		if u := w.Usages()[0]; known && u.String() != "12 of 500 routes, 488 free" {
			t.Error(u)
		}
	}
}

// TestAFailingRouteDelaysNoOther: a failed route is retried within a second, and delays no
// other.
func TestAFailingRouteDelaysNoOther(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	var tries []time.Time
	w.fail = func(c Change) error {
		if c.Node != "worker-3" {
			return nil
		}
		tries = append(tries, w.now)
		return errors.New("connection reset")
	}
	for i := range 50 {
		w.add(i)
	}
	w.settle()
	for i := range 50 {
		want := Routed
		if i == 3 {
			want = Failing
		}
		w.wantStatus(i, want)
	}
	w.pass(time.Hour)
	if d := tries[1].Sub(tries[0]); d > time.Second || len(tries) < 60 || len(tries) > 150 {
		t.Errorf("tried again after %s, %d times in an hour", d, len(tries))
	}
	w.fail = nil
	w.pass(time.Minute)
	w.wantStatus(3, Routed)
}

// TestThrottlingPausesAll: a throttled change does not count as a failure of its route.
func TestThrottlingPausesAll(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	tokens, asked := 0, 0
	last := w.now
	w.fail = func(Change) error {
		if d := int(w.now.Sub(last) / (400 * time.Millisecond)); d > 0 {
			tokens, last = tokens+d, w.now
		}
		if asked++; tokens == 0 {
			return &cloud.Error{Kind: cloud.Throttled, Text: "no token in time"}
		}
		tokens--
		return nil
	}
	for i := range 250 {
		w.add(i)
	}
	w.pass(5 * time.Minute)
	for i := range 250 {
		w.wantStatus(i, Routed)
	}
	if asked > 250+16*300 {
		t.Errorf("%d tries", asked)
	}
}

func TestInvalidNodesAreFindings(t *testing.T) {
	w := newWorld(t, Options{Within: []netip.Prefix{prefix("10.0.0.0/8"), prefix("172.16.0.0/12")}}, "rtb-a")
	w.otherNetwork["rtb-a"] = false
	w.add(1)
	w.add(2, "10.0.1.0/24")    // of an older node
	w.add(3, "0.0.0.0/0")      // everything
	w.add(4, "192.168.0.0/24") // of others
	w.add(5, "172.31.7.0/24")  // the network's own addresses
	w.add(6, "10.0.6.1/24")
	w.add(7, "nonsense")
	w.SetNode(Node{Name: "worker-8", Created: 8, Ranges: []string{"10.0.8.0/24"}, Target: target(1)}, w.now) // another node's instance
	far := target(9)
	far.Network = "vpc-9"
	w.SetNode(Node{Name: "worker-9", Created: 9, Ranges: []string{"10.0.9.0/24"}, Target: far}, w.now)
	w.SetNode(Node{Name: "worker-10", Created: 10}, w.now)
	w.SetNode(Node{Name: "worker-11", Created: 11, Ranges: []string{"10.0.11.0/24"}, Target: Target{Problem: "no such instance"}}, w.now)
	w.pass(time.Hour)
	w.want(map[string]string{"10.0.1.0/24": "eni-1"})
	for i, want := range []Code{1: Routed, 2: Duplicate, 3: Outside, 4: Outside, 5: OwnAddresses, 6: Malformed, 7: Malformed, 8: SharedInstance, 9: OtherNetwork, 10: NoRange, 11: NoInstance} {
		if i > 0 {
			w.wantStatus(i, want)
		}
	}
	n := 0
	for f := range w.Findings() {
		if n++; f.Text == "" || !f.Code.IsProblem() {
			t.Errorf("%+v", f)
		}
	}
	if n != 10 || w.Counts()[Routed] != 1 {
		t.Errorf("%d findings, %v", n, w.Counts())
	}
	// When the older node is gone, the younger one gets its range.
	w.remove(1)
	w.pass(time.Minute)
	w.wantStatus(2, Routed)
	w.wantStatus(8, Routed)
}

func TestForwardingIsSwitchedOnWhereItIsOff(t *testing.T) {
	w := newWorld(t, Options{}, "rtb-a")
	for i := range 3 {
		x := target(i)
		x.Forwards = i != 1
		w.SetNode(Node{Name: fmt.Sprintf("worker-%d", i), Created: 1, Ranges: []string{fmt.Sprintf("10.0.%d.0/24", i)}, Target: x}, w.now)
	}
	w.PlanLedger(w.now)
	w.LedgerDone(true, w.now)
	changes, _ := w.Next(w.now, 100)
	var forwards []Change
	for _, c := range changes {
		var err error
		if c.Verb == Forward {
			forwards = append(forwards, c)
			err = errors.New("no permission")
		}
		w.Done(c, err, w.now)
	}
	if len(forwards) != 1 || forwards[0].Instance != "i-1" {
		t.Errorf("%v", forwards)
	}
	w.wantStatus(1, NoForwarding)
	w.wantStatus(2, Routed)
	w.pass(time.Minute)
	w.wantStatus(1, Routed)
}

// TestForwardingOfAnInstanceThatWasReplaced: a node may get another instance, or lose it for a
// while, before the cloud has answered. It forwards nonetheless.
func TestForwardingOfAnInstanceThatWasReplaced(t *testing.T) {
	for name, between := range map[string]Target{"another one": target(2), "none": {}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{}, "rtb-a")
			off := target(1)
			off.Forwards = false
			between.Forwards = false
			w.SetNode(Node{Name: "worker-1", Created: 1, Ranges: []string{"10.0.1.0/24"}, Target: off}, w.now)
			w.PlanLedger(w.now)
			w.LedgerDone(true, w.now)
			changes, _ := w.Next(w.now, 100)
			w.SetTarget("worker-1", between, w.now)
			for _, c := range changes {
				w.Done(c, nil, w.now)
			}
			w.SetTarget("worker-1", off, w.now)
			changes, _ = w.Next(w.now, 100)
			if !slices.ContainsFunc(changes, func(c Change) bool { return c.Verb == Forward && c.Instance == off.Instance }) {
				t.Errorf("the changes are %+v", changes)
			}
		})
	}
}

func TestNothingHappensWithoutTablesOrLedger(t *testing.T) {
	b := New(Options{})
	b.Reset(start)
	b.SetNode(Node{Name: "worker-1", Ranges: []string{"10.0.1.0/24"}, Target: target(1)}, start)
	check := func(want Code) {
		t.Helper()
		changes, _ := b.Next(start, 10)
		if marks := b.PlanLedger(start); len(changes)+len(marks) > 0 || b.Status("worker-1").Code != want {
			t.Errorf("%v, %v, %+v", changes, marks, b.Status("worker-1"))
		}
	}
	check(Unknown)
	b.SetTables([]cloud.Table{{ID: "rtb-a"}}, start, start)
	check(Unknown)
	b.Reset(start)
	b.SetLedger(nil, start)
	check(Unknown)
	b.SetTables(nil, start, start)
	check(NoTables)
}

// TestDryRunPlansBoth: a plan shows changes of the cloud whose entries the ledger does not have
// yet.
func TestDryRunPlansBoth(t *testing.T) {
	w := newWorld(t, Options{DryRun: true}, "rtb-a")
	w.ledger[prefix("10.0.7.0/24")] = Entry{prefix("10.0.7.0/24"), []Owned{{"rtb-a", []string{"eni-7"}, "worker-7"}}}
	w.put("rtb-a", cloud.Route{Destination: prefix("10.0.7.0/24"), Kind: cloud.ToInterface, Target: "eni-7"})
	w.restart()
	w.add(1)
	if entries := w.PlanLedger(w.now); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	changes, _ := w.Next(w.now, 1<<30)
	if len(changes) != 2 {
		t.Fatalf("%v", changes)
	}
	for _, c := range changes {
		if want := map[cloud.Verb]string{cloud.Add: "rtb-a eni-1 worker-1", cloud.Remove: "rtb-a eni-7 worker-7"}[c.Verb]; c.Mark != want {
			t.Errorf("%v: %q", c, c.Mark)
		}
	}
}
