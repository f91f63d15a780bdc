package cloudnode

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
)

// TestTheBackOffOfLookupsIsOfTheMonotonicClock: the times of lookups lie on a grid of the
// monotonic clock. So a wall clock that is set back delays no lookup.
func TestTheBackOffOfLookupsIsOfTheMonotonicClock(t *testing.T) {
	c := &Controller{began: time.Now()}
	now := c.began.Add(12345 * time.Millisecond)
	var times []time.Time
	for _, after := range []time.Duration{0, 40 * time.Millisecond} {
		n := &node{name: "a"}
		for d := lookupFirst; d <= lookupLast; d *= 2 {
			from := now.Add(after)
			c.retryLookup(n, from)
			at := c.reads.Next()
			if at == at.Round(0) { // Round strips the monotonic reading
				t.Errorf("the lookup at %s has no monotonic reading", at)
			}
			if wait := at.Sub(from); wait <= d*3/4 || wait > d {
				t.Errorf("looked up after %s, want %s", wait, d)
			}
			times = append(times, at)
		}
	}
	if half := len(times) / 2; !slices.Equal(times[:half], times[half:]) {
		t.Errorf("Nodes that failed within 40 ms are looked up at %v", times)
	}
}

// TestAProviderIDThatAnotherProgramSets: if another program sets the providerID after a lookup by
// name, the Node gets the facts of that instance, and none of the instance with its name.
func TestAProviderIDThatAnotherProgramSets(t *testing.T) {
	for name, after := range map[string]time.Duration{"while the lookup runs": latency / 2, "while nothing is found": 10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.Begin()
				l.cloud.Launch("other", func(i *cloud.Instance) { i.Type = "fake.other" })
				l.register("a")
				l.Pass(after)
				l.ChangeNode("a", withID(cloudtest.ProviderID("other")))
				l.Pass(3 * time.Second)
				if n := l.API.Node("a"); !l.initialised("a") || n.Labels[stableType] != "fake.other" || n.Spec.ProviderID != cloudtest.ProviderID("other") {
					t.Errorf("providerID %s, labels %v, taints %v", n.Spec.ProviderID, n.Labels, n.Spec.Taints)
				}
			})
		})
	}
	inLab(t, func(l *lab) {
		l.Begin()
		// A wrong --node-ip keeps the Node waiting, so the lookup by name has ended.
		l.cloud.Launch("a")
		l.cloud.Launch("other", func(i *cloud.Instance) { i.Type = "fake.other" })
		l.register("a", withIP("192.0.2.1"))
		l.Pass(3 * time.Second)
		l.wantCodes("a", BadAddress)
		l.ChangeNode("a", func(n *corev1.Node) {
			n.Spec.ProviderID, n.Annotations = cloudtest.ProviderID("other"), nil
		})
		l.Pass(3 * time.Second)
		if n := l.API.Node("a"); !l.initialised("a") || n.Labels[stableType] != "fake.other" {
			t.Errorf("labels %v, taints %v", n.Labels, n.Spec.Taints)
		}
	})
}

// TestAWaitingNodeGetsItsInstanceAtOnce: a Node gets its instance as soon as the holder is gone.
func TestAWaitingNodeGetsItsInstanceAtOnce(t *testing.T) {
	for name, leave := range map[string]func(l *lab){
		"deleted": func(l *lab) { l.API.Do(func() { l.API.Change("DELETED", l.API.Nodes["first"]) }) },
		"deleting": func(l *lab) {
			l.ChangeNode("first", func(n *corev1.Node) {
				n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.org/kept"}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.Begin()
				l.add("first")
				l.Pass(2 * time.Second)
				l.register("second", withID(cloudtest.ProviderID("first")))
				l.Pass(5 * time.Second)
				l.wantWaiting("second")
				leave(l)
				l.Pass(2 * time.Second)
				if !l.initialised("second") {
					t.Error("second is not initialised two seconds later")
				}
			})
		})
	}
}

// TestAShortStopShowsTheNewAddress: an instance that is stopped and started has another address.
// The Node gets it, even if a lookup came just before.
func TestAShortStopShowsTheNewAddress(t *testing.T) {
	for name, since := range map[string]time.Duration{"looked up before the stop": 0, "looked up while it is stopped": 70 * time.Second} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.Begin()
				l.add("a")
				l.Pass(3*time.Second + since)
				l.SetReady("a", corev1.ConditionTrue)
				l.Pass(time.Second)
				calls := len(l.cloud.Calls())
				l.cloud.SetState("a", cloud.Stopped)
				l.SetReady("a", corev1.ConditionUnknown)
				if since > 0 { // another program changes the Node, which triggers a lookup
					l.ChangeNode("a", func(n *corev1.Node) { n.Status.Addresses = nil })
				}
				l.Pass(10 * time.Second)
				l.cloud.Change("a", func(i *cloud.Instance) { i.State, i.Addresses[1].Value = cloud.Running, "198.51.100.77" })
				l.SetReady("a", corev1.ConditionTrue)
				l.Pass(2 * time.Minute)
				if all := l.API.Node("a").Status.Addresses; !slices.Contains(all, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "198.51.100.77"}) {
					t.Errorf("the Node has the addresses %v", all)
				}
				if n := len(l.cloud.Calls()) - calls; n > 3 {
					t.Errorf("%d calls", n)
				}
			})
		})
	}
}
