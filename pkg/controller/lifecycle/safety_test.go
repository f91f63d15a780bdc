package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// TestAProcessKnowsTheDeletionsOfTheHour: a process that restarts repeatedly does not know earlier
// deletions, so it makes none. A standby has seen them.
func TestAProcessKnowsTheDeletionsOfTheHour(t *testing.T) {
	c := newCourt(t, 96, 4)
	c.watching = c.now.Add(-50 * time.Minute)
	c.minutes(6)
	c.want(Observed, "this process watches Nodes since 02:10:00 UTC", "deletes none in its first hour")
	c.minutes(4)
	c.want(Due)

	for range 5 { // a standby sees the deletions of the leader
		name := fmt.Sprint("x", c.version())
		c.add(name, false)
		c.remove(name, c.now, false)
	}
	c.want(Limited, "5 Nodes that were not ready")
	c.add("ready", true)
	c.remove("ready", c.now, false)
	c.want(Limited, "5 Nodes")
	c.add("ready", true)
	c.remove("ready", c.now, true) // the watch has missed the deletion
	c.want(Limited, "6 Nodes")
	c.minutes(61)
	c.want(Due)
}

func (c *court) version() int { return len(c.deleted) }

// TestAKubeletUnderTheNodeOfAnotherMachine: the controller notices that another machine uses a
// Node while the Node is ready.
func TestAKubeletUnderTheNodeOfAnotherMachine(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.Begin()
		l.cloud.SetState("worker-3", cloud.Terminated)
		for i := range 40 {
			l.renew("worker-3", fmt.Sprint("time ", i))
			l.Pass(time.Minute)
		}
		l.WantEvent("worker-3", heldBack, "another machine")
		if r := l.report(); len(r.Gone) != 1 || r.Gone[0].Why != Outlived || r.Held() != 1 {
			t.Errorf("%+v", r)
		}
		l.SetReady("worker-3", corev1.ConditionUnknown)
		l.Pass(10 * time.Hour)
		l.wantNodes(30)
		l.cloud.SetState("worker-3", cloud.Running)
		l.Pass(40 * time.Minute) // the next audit, and some answers
		if r := l.report(); len(r.Gone) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestALeaseCountsAcrossReadiness: a Node's Lease may be renewed between the last answer while it
// was ready and the first one while it is unready. This proves that a kubelet uses the Node.
func TestALeaseCountsAcrossReadiness(t *testing.T) {
	c := newCourt(t, 5, 1)
	c.states["w0"], c.leases["w0"] = cloud.Terminated, "first"
	c.minutes(1)
	c.set(subject{name: "w0", uid: "uid-w0", version: "2", id: "id-w0"})
	c.leases["w0"] = "second"
	c.minutes(10)
	if why, text := c.why("w0"); why != Outlived {
		t.Errorf("w0 is %s: %s", why, text)
	}
	// A Node whose kubelet ended with its instance is deleted.
	c.states["w1"], c.leases["w1"] = cloud.Terminated, "first"
	c.minutes(1)
	c.set(subject{name: "w1", uid: "uid-w1", version: "2", id: "id-w1"})
	c.minutes(10)
	if why, text := c.why("w1"); why != Limited && why != Due {
		t.Errorf("w1 is %s: %s", why, text)
	}
}

// TestAbsenceCountsForNothingWhileAReadyNodeIsAbsent: while the instance of a ready Node is
// absent, the answers seem incomplete, and absence is no evidence.
func TestAbsenceCountsForNothingWhileAReadyNodeIsAbsent(t *testing.T) {
	c := newCourt(t, 10, 2)
	c.rules.Limit = 50
	c.states["d0"] = cloud.Absent
	c.states["w4"], c.states["w3"] = cloud.Absent, cloud.Absent
	c.leases["w3"], c.leases["w4"] = "a", "a"
	c.minutes(300)
	c.want(Doubted, "no instance of Node w3 either, which is ready")
	if why, text := c.why("d1"); why != Due {
		t.Errorf("d1, which is terminated, is %s: %s", why, text)
	}
	c.states["w3"], c.states["w4"] = cloud.Running, cloud.Running
	c.minutes(30)
	c.want(Vanished)
	c.minutes(31)
	c.want(Due)
}

// TestFailedRoundsBackOff: failed rounds are retried with a back-off.
func TestFailedRoundsBackOff(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(5)
		l.Begin()
		l.cloud.Do(func() { l.cloud.Revoked = true })
		l.SetReady("worker-0", corev1.ConditionUnknown)
		before := len(l.cloud.Calls())
		for i := range 60 { // meanwhile other Nodes appear and vanish
			l.SetReady("worker-1", []corev1.ConditionStatus{corev1.ConditionUnknown, corev1.ConditionTrue}[i%2])
			l.Pass(time.Minute)
		}
		if n := len(l.cloud.Calls()) - before; n > 125 || n < 50 {
			t.Errorf("%d calls in an hour", n)
		}
		// One failure sends no warning; a failure that lasts does.
		if text := l.Event("worker-0", heldBack); text != "" {
			t.Errorf("an instance that is not gone: %s", text)
		}
	})
}

// TestAnOldStopTaintsNothing: an answer from before a Node became ready does not count later.
func TestAnOldStopTaintsNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(3)
		l.Begin()
		l.cloud.SetState("worker-0", cloud.Stopped)
		l.SetReady("worker-0", corev1.ConditionUnknown)
		l.Pass(15 * time.Second)
		l.wantTaints("worker-0", dedicated, Taint)
		l.cloud.SetState("worker-0", cloud.Running)
		l.SetReady("worker-0", corev1.ConditionTrue)
		l.Pass(2 * time.Second)
		l.wantTaints("worker-0", dedicated)
		l.SetReady("worker-0", corev1.ConditionUnknown)
		for range 60 {
			l.Pass(time.Second)
			l.wantTaints("worker-0", dedicated)
		}
	})
}

// TestOneErrorWarnsAboutNoNode: a single error of the cloud causes no warning. Errors that last
// do.
func TestOneErrorWarnsAboutNoNode(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(40)
		l.Begin()
		l.cloud.SetState("worker-0", cloud.Terminated)
		l.SetReady("worker-0", corev1.ConditionUnknown)
		l.Pass(90 * time.Second)
		l.cloud.Do(func() { l.cloud.Revoked = true })
		l.Pass(3 * time.Minute)
		if r := l.report(); len(r.Gone) != 1 || r.Gone[0].Why != Doubted {
			t.Errorf("%+v", r)
		}
		if text := l.Event("worker-0", heldBack); text != "" {
			t.Errorf("a short doubt warns: %s", text)
		}
		l.Pass(5 * time.Minute)
		if text := l.Event("worker-0", heldBack); !strings.Contains(text, "decides nothing") {
			t.Errorf("a long doubt says %q", text)
		}
	})
}

// TestVerdictsLookAtSuspectsOnly: verdicts examines only the suspects, so it costs nothing while
// there are none.
func TestVerdictsLookAtSuspectsOnly(t *testing.T) {
	c := newCourt(t, 1000, 1)
	c.minutes(1)
	if len(c.suspects) != 1 || c.lasting != 1001 {
		t.Errorf("%d suspects of %d Nodes", len(c.suspects), c.lasting)
	}
	c.remove("d0", c.now, false)
	if n := testing.AllocsPerRun(10, func() { c.verdicts(c.now, 0) }); n != 0 || len(c.suspects) != 0 || c.lasting != 1000 {
		t.Errorf("%v allocations, %d suspects, %d Nodes", n, len(c.suspects), c.lasting)
	}
}

// TestAListBeginsToWatch: a process has watched since its first list of the Nodes, not since its
// last one.
func TestAListBeginsToWatch(t *testing.T) {
	inLab(t, func(l *lab) {
		c := &Controller{judge: newJudge(Rules{})}
		c.list(map[string]subject{"a": {name: "a", uid: "1", version: "1", ready: true}})
		first := c.judge.watching
		l.Pass(time.Minute)
		c.list(nil)
		if first.IsZero() || c.judge.watching != first || len(c.judge.deleted) != 1 {
			t.Errorf("%s, then %s, %v", first, c.judge.watching, c.judge.deleted)
		}
	})
}
