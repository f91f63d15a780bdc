package route

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudroute"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// TestANewNodeIsOneWriteATable: the first Nodes cost a read of the tables and a lookup of all
// instances. Each further Node costs a lookup and a write for each table, and no read.
func TestANewNodeIsOneWriteATable(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 50 {
			l.add(i)
		}
		l.Begin()
		l.Pass(2 * time.Second)
		for i := range 50 {
			l.wantRouted(i)
		}
		if n := len(l.cloud.Changes()); n != 100 || l.cloud.Reads() != 1 || len(l.fleet.Calls()) != 1 {
			t.Errorf("%d changes, %d readings, %d lookups", n, l.cloud.Reads(), len(l.fleet.Calls()))
		}
		l.Pass(30 * time.Second)
		reads := l.cloud.Reads()
		l.add(77)
		l.Pass(time.Second)
		l.wantRouted(77)
		if n := len(l.cloud.Changes()); n != 102 || l.cloud.Reads() != reads {
			t.Errorf("%d changes, %d more readings", n, l.cloud.Reads()-reads)
		}
		l.wantExplained()
		if n := len(l.entries()); n != 51 {
			t.Errorf("the ledger has %d entries", n)
		}
	})
}

// TestARushOfNodesCostsFewLookups: many Nodes that appear one after the other cost few lookups.
// A Node that appears alone does not wait.
func TestARushOfNodesCostsFewLookups(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		for i := range 240 {
			l.add(i)
			l.Pass(20 * time.Millisecond)
		}
		l.Pass(2 * time.Second)
		for i := range 240 {
			l.wantRouted(i)
		}
		lookups := len(l.fleet.Calls())
		if lookups > 40 {
			t.Errorf("%d lookups for 240 Nodes within 5 s", lookups)
		}
		l.Pass(30 * time.Second)
		l.add(240)
		l.Pass(150 * time.Millisecond)
		if n := len(l.fleet.Calls()); n != lookups+1 {
			t.Errorf("%d lookups for one more Node", n-lookups)
		}
	})
}

// TestASettledClusterCostsOnlyReads: an hour without changes costs one read a minute, and no
// write.
func TestASettledClusterCostsOnlyReads(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 10 {
			l.add(i)
		}
		l.Begin()
		l.Pass(time.Minute)
		changes, reads, lookups, writes := len(l.cloud.Changes()), l.cloud.Reads(), len(l.fleet.Calls()), l.API.Asked("PATCH ")
		l.Pass(time.Hour)
		if n := len(l.cloud.Changes()) - changes; n > 0 || l.cloud.Reads()-reads > 61 || len(l.fleet.Calls())-lookups > 2 || l.API.Asked("PATCH ") != writes {
			t.Errorf("%d changes, %d readings, %d lookups, %d writes", n, l.cloud.Reads()-reads, len(l.fleet.Calls())-lookups, l.API.Asked("PATCH ")-writes)
		}
	})
}

// Fault 7: cloud controller managers never retry a failed route.
func TestAFailedRouteIsRetriedWithinASecond(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		failures := 0
		l.cloud.Do(func() {
			l.cloud.Fail = func(c cloud.RouteChange) error {
				if failures++; failures <= 2 {
					return &cloud.Error{Kind: cloud.Unavailable, Action: "CreateRoute", Text: "internal error"}
				}
				return nil
			}
		})
		l.add(1)
		l.Pass(1100 * time.Millisecond)
		l.wantRouted(1)
		l.wantEvent(1, "Could not create route uid-worker-1 10.4.1.0/24 for node worker-1 after ", "internal error")
	})
}

// Fault 8: a Node's condition waits for its own routes, but not for those of other Nodes.
func TestANodesConditionWaitsForItsOwnRoutesAlone(t *testing.T) {
	inLab(t, func(l *lab) {
		held := make(chan struct{})
		l.cloud.Do(func() {
			l.cloud.Hold = func(c cloud.RouteChange) <-chan struct{} {
				if c.Destination.String() == cidrOf(3) && c.Table == "rtb-b" {
					return held
				}
				return nil
			}
		})
		for i := range 20 {
			l.add(i)
		}
		l.Begin()
		l.Pass(time.Second)
		for i := range 20 {
			if i != 3 {
				l.wantRouted(i)
			}
		}
		l.wantCondition(3, unrouted)
		close(held)
		l.Pass(2 * time.Second)
		l.wantRouted(3)
	})
}

// Fault 9: a Node whose instance is unknown delays no other Node. The others get their routes of
// both families in all tables.
func TestAnUnknownInstanceDelaysNoOther(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1, func(n *corev1.Node) { n.Spec.PodCIDRs = append(n.Spec.PodCIDRs, "fd00:10:4:1::/64") })
		l.add(2)
		l.fleet.Forget(nameOf(2))
		l.add(3, func(n *corev1.Node) { n.Spec.ProviderID = "" })
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantRouted(1)
		for _, id := range []string{"rtb-a", "rtb-b"} {
			if got := l.cloud.Targets(id)["fd00:10:4:1::/64"]; got != "nic-worker-1" {
				t.Errorf("%s: IPv6 leads to %q", id, got)
			}
		}
		l.wantCondition(2, unrouted)
		l.wantEvent(2, "there is no instance of")
		l.wantEvent(3, "no providerID", "run cloud-node-controller")
		// The API shows the instance late.
		l.fleet.Launch(nameOf(2), func(i *cloud.Instance) { i.Forwards = true })
		l.Pass(time.Minute)
		l.wantRouted(2)
		changes := len(l.cloud.Changes())
		l.Pass(time.Hour)
		if n := len(l.cloud.Changes()) - changes; n > 0 {
			t.Errorf("%d changes in an hour", n)
		}
	})
}

// Fault 10: the controller deletes no foreign route, not even a blackhole in the range of
// podCIDRs. A destination always has a route while it gets another target.
func TestForeignRoutesAreNeverTouched(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1)
		l.add(2)
		gone := netip.MustParsePrefix("10.4.99.0/24")
		taken := netip.MustParsePrefix(cidrOf(2))
		l.cloud.Put("rtb-a", cloud.Route{Destination: gone, Kind: cloud.ToInterface, Target: "nic-gone"})
		l.cloud.Put("rtb-b", cloud.Route{Destination: taken, Kind: cloud.ToInterface, Target: "nic-appliance"})
		l.Begin()
		l.Pass(time.Hour)
		l.wantRouted(1)
		if l.cloud.Targets("rtb-a")["10.4.99.0/24"] != "nic-gone" || l.cloud.Targets("rtb-b")[cidrOf(2)] != "nic-appliance" {
			t.Errorf("%v, %v", l.cloud.Targets("rtb-a"), l.cloud.Targets("rtb-b"))
		}
		l.wantEvent(2, "Could not create route for node worker-2", "leads to nic-appliance (blackhole) and is not ours")
		l.wantExplained("10.4.99.0/24", cidrOf(2))

		// The Node gets another machine.
		before := len(l.cloud.Changes())
		l.fleet.Change(nameOf(1), func(i *cloud.Instance) { i.Interface, i.ID = "nic-new", "i-new" })
		l.Pass(5 * time.Minute)
		for _, c := range l.cloud.Changes()[before:] {
			if c.Verb != cloud.Replace && c.Destination.String() == cidrOf(1) {
				t.Errorf("%s", c)
			}
		}
		if got := l.cloud.Targets("rtb-a")[cidrOf(1)]; got != "nic-new" {
			t.Errorf("it leads to %s", got)
		}
	})
}

func TestDriftIsHealedWithinAMinute(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1)
		l.add(2)
		l.Begin()
		l.Pass(time.Minute)
		l.cloud.Delete("rtb-a", cidrOf(1))
		l.cloud.Put("rtb-b", cloud.Route{Destination: netip.MustParsePrefix(cidrOf(2)), Kind: cloud.ToInterface, Target: "nic-worker-1"})
		l.Pass(61 * time.Second)
		l.wantRouted(1)
		if got := l.cloud.Targets("rtb-b")[cidrOf(2)]; got != "nic-worker-1" {
			t.Errorf("a route taken by hand leads to %s", got)
		}
		l.Pass(10 * time.Second)
		l.wantCondition(2, unrouted)
	})
}

// TestNothingIsRemovedOnErrors: after any failed read, no route is removed, and no Node's
// condition changes.
func TestNothingIsRemovedOnErrors(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 4 {
			l.add(i)
		}
		l.Begin()
		l.Pass(time.Minute)
		l.remove(3)
		l.cloud.Do(func() {
			l.cloud.Unreadable = &cloud.Error{Kind: cloud.Denied, Action: "DescribeRouteTables", Text: "the credentials were revoked"}
		})
		l.fleet.Do(func() { l.fleet.Revoked = true })
		l.Pass(3 * time.Hour)
		if got := l.cloud.Targets("rtb-a")[cidrOf(3)]; got == "" {
			t.Error("a route was removed without a reading of the tables")
		}
		l.wantRouted(0, 1, 2)
		s, _ := l.Engine.State(l.Context())
		for _, f := range s.Feeds {
			if f.What == "route tables" && !strings.Contains(f.Problem, "revoked") {
				t.Errorf("%+v", f)
			}
		}
		l.cloud.Do(func() { l.cloud.Unreadable = nil })
		l.fleet.Do(func() { l.fleet.Revoked = false })
		l.Pass(3 * time.Minute)
		if got := l.cloud.Targets("rtb-a")[cidrOf(3)]; got != "" {
			t.Errorf("it leads to %s", got)
		}
	})
}

// TestAClusterWithoutNodesKeepsItsRoutes: if the API server loses all Nodes, their routes stay.
func TestAClusterWithoutNodesKeepsItsRoutes(t *testing.T) {
	inLab(t, func(l *lab) {
		for i := range 3 {
			l.add(i)
		}
		l.Begin()
		l.Pass(time.Minute)
		for i := range 3 {
			l.remove(i)
		}
		l.Pass(5 * time.Hour)
		if n := len(l.cloud.Targets("rtb-a")); n != 3 {
			t.Errorf("%d routes", n)
		}
	})
}

func TestForwardingIsSwitchedOnOnlyWhereItIsOff(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1)
		l.add(2)
		l.fleet.Change(nameOf(2), func(i *cloud.Instance) { i.Forwards = false })
		l.cloud.Do(func() { l.cloud.NoForward = errors.New("not allowed") })
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantRouted(1)
		l.wantCondition(2, unrouted)
		l.cloud.Do(func() { l.cloud.NoForward = nil })
		l.Pass(time.Minute)
		l.wantRouted(2)
		asked := len(l.cloud.Forwarded())
		for _, id := range l.cloud.Forwarded() {
			if id != "i-worker-2" {
				t.Errorf("changed %s", id)
			}
		}
		l.Pass(time.Hour)
		if n := len(l.cloud.Forwarded()) - asked; n > 0 || l.c.Waiting() > 0 {
			t.Errorf("changed it %d times more, %d Nodes wait", n, l.c.Waiting())
		}
	})
}

// TestForwardingThatPeopleMustSwitchOn: where only people can let an instance forward, the
// program plans no change. It says what to do, and notices when that is done.
func TestForwardingThatPeopleMustSwitchOn(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1)
		l.add(2)
		l.fleet.Change(nameOf(2), func(i *cloud.Instance) { i.Forwards, i.ForwardFix = false, "re-create it" })
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantRouted(1)
		l.wantCondition(2, unrouted)
		const want = "forwarding is off at i-worker-2; re-create it"
		if all := l.report().Findings; len(all) != 1 || all[0].Node != nameOf(2) || all[0].Code != cloudroute.NoForwarding || all[0].Text != want {
			t.Errorf("%+v", all)
		}
		l.wantEvent(2, want)
		var lines []controller.Line
		l.Do(func() { lines = l.c.Explain(nameOf(2)) })
		if !slices.ContainsFunc(lines, func(x controller.Line) bool {
			return x.Text == "forwarding is off, which drops packets of containers; re-create it" && !x.OK
		}) {
			t.Errorf("%+v", lines)
		}
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil || len(writes) > 0 || len(l.cloud.Forwarded()) > 0 {
			t.Errorf("%v, %v, %v", writes, l.cloud.Forwarded(), err)
		}
		l.fleet.Change(nameOf(2), func(i *cloud.Instance) { i.Forwards, i.ForwardFix = true, "" })
		l.Pass(time.Minute)
		l.wantRouted(2)
		if len(l.report().Findings) > 0 || l.c.Waiting() > 0 || len(l.cloud.Forwarded()) > 0 {
			t.Errorf("%+v, %d Nodes wait", l.report().Findings, l.c.Waiting())
		}
	}, func(o *Options) { o.Forwarding = cloud.Forwarding{Setting: "forwarding", On: true} })
}

// TestConditionsOfOthersStay: the controller does not touch a condition with another program's
// reason.
func TestConditionsOfOthersStay(t *testing.T) {
	inLab(t, func(l *lab) {
		for i, reason := range []string{"TulleNotReady", "FlannelIsUp"} {
			l.add(i, func(n *corev1.Node) { n.Status.Conditions[len(n.Status.Conditions)-1].Reason = reason })
		}
		l.add(2, func(n *corev1.Node) { n.Status.Conditions = n.Status.Conditions[:len(n.Status.Conditions)-1] })
		l.Begin()
		l.Pass(10 * time.Second)
		l.wantCondition(0, "True TulleNotReady")
		l.wantCondition(1, "True FlannelIsUp")
		l.wantCondition(2, routed)
	})
}

// TestPlanShowsEveryWrite: a plan shows the write of the ledger and every change of the cloud.
// For a removal, it shows the ledger's entry.
func TestPlanShowsEveryWrite(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add(1)
		l.fleet.Change(nameOf(1), func(i *cloud.Instance) { i.Forwards = false })
		l.API.Do(func() {
			l.API.ChangeObject("ADDED", "api/v1/namespaces/kube-system/configmaps/tulle-controller-routes", map[string]any{
				"kind": "ConfigMap", "apiVersion": "v1", "metadata": map[string]any{"name": "tulle-controller-routes", "namespace": "kube-system"},
				"data": map[string]any{"10.4.9.0_24": "rtb-a nic-worker-9 worker-9\n", "nonsense": "x"},
			})
		})
		l.cloud.Put("rtb-a", cloud.Route{Destination: netip.MustParsePrefix("10.4.9.0/24"), Kind: cloud.ToInterface, Target: "nic-worker-9"})
		l.Engine.Follow()
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil {
			t.Fatal(err)
		}
		var all string
		for _, w := range writes {
			all += fmt.Sprintln(w.Verb, w.Object, "|", w.Summary, "|", w.Before, "|", w.After, "|", w.Mark)
		}
		for _, part := range []string{
			"patch ConfigMap kube-system/tulle-controller-routes | note the routes of 1 destination as ours",
			"create Route rtb-a 10.4.1.0/24 | add route 10.4.1.0/24 via i-worker-1 to rtb-a for worker-1 | none | i-worker-1 | rtb-a nic-worker-1 worker-1",
			"delete Route rtb-a 10.4.9.0/24 | remove route 10.4.9.0/24 via nic-worker-9 (blackhole) from rtb-a for worker-9 | nic-worker-9 (blackhole) | none | rtb-a nic-worker-9 worker-9",
			"patch Instance i-worker-1 | switch off the source/destination check of i-worker-1 for worker-1 | the source/destination check is on | off",
		} {
			if !strings.Contains(all, part) {
				t.Errorf("the plan lacks %q:\n%s", part, all)
			}
		}
		if len(l.cloud.Changes()) > 0 || len(l.cloud.Forwarded()) > 0 || len(l.report().Problems) != 1 {
			t.Errorf("%v, %v, %q", l.cloud.Changes(), l.cloud.Forwarded(), l.report().Problems)
		}
		x, err := l.Engine.Explain(l.Context(), nameOf(1))
		if err != nil || len(x) != 1 || len(x[0].Lines) != 5 || x[0].Lines[0].OK {
			t.Errorf("%+v, %v", x, err)
		}
	}, func(o *Options) { o.DryRun = true })
}

// TestRoutesAreWrittenSoonAfterAnOutage: no route is written before the ledger is known. However
// long the server has not shown it, it is read soon after.
func TestRoutesAreWrittenSoonAfterAnOutage(t *testing.T) {
	for range 5 { // the pauses are random
		inLab(t, func(l *lab) {
			l.add(1)
			l.API.Do(func() {
				l.API.Refuse = func(r *http.Request) *metav1.Status {
					if strings.Contains(r.URL.Path, "/configmaps/") {
						return apitest.Refusal(http.StatusServiceUnavailable, "refused by the test")
					}
					return nil
				}
			})
			l.Begin()
			l.Pass(10 * time.Minute)
			if n := len(l.cloud.Changes()); n > 0 {
				t.Errorf("%d changes without the ledger", n)
			}
			l.API.Do(func() { l.API.Refuse = nil })
			l.Pass(15 * time.Second)
			l.wantRouted(1)
		})
	}
}

// TestAFailedReadOfTheLedgerStaysDueDuringAWrite: a read that has failed is still due after a
// write that began meanwhile.
func TestAFailedReadOfTheLedgerStaysDueDuringAWrite(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		writes   bool
		failures int
		due      time.Duration
		keys     int
		again    time.Duration // 0 is never
	}{
		"due":                           {keys: 1},
		"later":                         {due: time.Minute, again: time.Minute},
		"written":                       {writes: true},
		"written, later":                {writes: true, due: time.Minute},
		"failed and written":            {writes: true, failures: 1, again: lookups.First},
		"failed, later, and written":    {writes: true, failures: 2, due: time.Minute, again: time.Minute},
		"failed long ago, and written":  {writes: true, failures: 1, due: -time.Hour, again: lookups.First},
		"failed long ago, not in write": {failures: 1, due: -time.Hour, keys: 1},
	} {
		r := &Controller{ledger: poll{failures: c.failures, due: now.Add(c.due)}}
		if c.writes {
			r.writing = []cloudroute.Entry{}
		}
		keys, again := r.ledgerDue(now)
		if want := now.Add(c.again); len(keys) != c.keys || c.again == 0 && !again.IsZero() || c.again != 0 && !again.Equal(want) {
			t.Errorf("%s: %d keys, again in %s", name, len(keys), again.Sub(now))
		}
	}
}
