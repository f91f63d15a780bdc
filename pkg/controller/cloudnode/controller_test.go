package cloudnode

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// Fault 13 of the incumbents: one worker, and one request for each Node. Here one request covers
// all Nodes, and each Node gets two patches: one of its status, and one of the rest.
func TestFiveHundredNodesAtOnce(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		all := labtest.Names(500)
		l.add(all...)
		l.Pass(2 * time.Second)
		for _, name := range all {
			l.want(name)
		}
		if calls := l.cloud.Calls(); len(calls) > 3 {
			t.Errorf("%d calls", len(calls))
		}
		if n := l.Patches(""); n != 1000 {
			t.Errorf("%d patches", n)
		}
		if r := l.report(); r.Nodes != 500 || r.Waiting != 0 || r.Retrying != 0 || len(r.Findings) != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestNodesThatAreThereAtTheStart: two requests look up all Nodes that exist when the term
// begins: those with a providerID by ID, the others by name.
func TestNodesThatAreThereAtTheStart(t *testing.T) {
	inLab(t, func(l *lab) {
		all := labtest.Names(20)
		for i, name := range all {
			id := l.cloud.Launch(name)
			if i%2 == 0 {
				id = ""
			}
			l.register(name, withID(id))
		}
		l.Begin()
		for _, name := range all {
			l.want(name)
		}
		calls := l.cloud.Calls()
		slices.SortFunc(calls, func(a, b cloudtest.Call) int { return strings.Compare(a.Action, b.Action) })
		if len(calls) != 2 || calls[0].Action != "Instances" || len(calls[0].Keys) != 10 || calls[1].Action != "Named" || len(calls[1].Keys) != 10 {
			t.Errorf("the calls are %v", calls)
		}
	})
}

// TestASettledClusterStaysAsItIs: a Node that another program has initialised stays the same, to
// the byte. Each Refresh costs one request, which omits the Nodes of no cloud.
func TestASettledClusterStaysAsItIs(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("settled", "other")
		l.register("bare", func(n *corev1.Node) { n.Spec.Taints = nil })
		l.Pass(2 * time.Second)
		l.want("settled")
		patches := l.Patches("")
		before := []*corev1.Node{l.API.Node("settled"), l.API.Node("other"), l.API.Node("bare")}
		l.End()
		calls := len(l.cloud.Calls())
		l.Begin()
		l.Pass(90 * time.Minute)
		if n := l.Patches(""); n != patches {
			t.Errorf("%d patches", n-patches)
		}
		for _, n := range before {
			if !reflect.DeepEqual(n, l.API.Node(n.Name)) {
				t.Errorf("%s was changed", n.Name)
			}
		}
		later := l.cloud.Calls()[calls:]
		if len(later) != 2 {
			t.Errorf("%d calls in 90 minutes: %v", len(later), later)
		}
		for _, c := range later {
			if c.Action != "Instances" || len(c.Keys) != 2 {
				t.Errorf("the call is %v", c)
			}
		}
	})
}

// TestANodeThatBecomesReadyIsCompared: a stopped instance may have another address and another
// type when it runs again. The controller updates its Node as soon as the Node is ready.
func TestANodeThatBecomesReadyIsCompared(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("a")
		l.Pass(2 * time.Second)
		l.SetReady("a", corev1.ConditionUnknown)
		l.cloud.Change("a", func(i *cloud.Instance) { i.Addresses[1].Value, i.Type = "203.0.113.7", "fake.huge" })
		l.Pass(5 * time.Minute)
		calls := len(l.cloud.Calls())
		l.SetReady("a", corev1.ConditionTrue)
		l.Pass(2 * time.Second)
		n := l.API.Node("a")
		if got := l.addresses("a"); got[1] != "ExternalIP=203.0.113.7" || n.Labels[oldType] != "fake.huge" || n.Labels[stableType] != "fake.huge" {
			t.Errorf("%q, %v", got, n.Labels)
		}
		if n := len(l.cloud.Calls()) - calls; n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestAddressesFollowTheCloud: each Refresh updates Nodes whose instances have changed, without
// an event.
func TestAddressesFollowTheCloud(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("a", "b")
		l.Pass(2 * time.Second)
		l.cloud.Change("a", func(i *cloud.Instance) { i.Addresses = slices.Delete(i.Addresses, 1, 2) })
		patches := l.Patches("")
		l.Pass(refresh)
		if got := l.addresses("a"); len(got) != 3 || l.Patches("") != patches+1 {
			t.Errorf("%q after %d patches", got, l.Patches("")-patches)
		}
	})
}

// TestAddressesAreRestored: if another program changes an initialised Node, the controller
// restores its facts from a new lookup.
func TestAddressesAreRestored(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("a")
		l.Pass(2 * time.Minute)
		l.ChangeNode("a", func(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[:1] })
		l.Pass(2 * time.Second)
		l.want("a")
	})
}

// TestAnInstanceThatIsNotShownYet: while the cloud does not show an instance yet, its Node keeps
// the taint and has an event. The lookups back off from a second to a minute, and each covers
// all Nodes.
func TestAnInstanceThatIsNotShownYet(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		all := labtest.Names(30)
		for i, name := range all {
			l.register(name)
			l.Pass(time.Duration(i) * 10 * time.Millisecond)
		}
		l.Pass(3 * time.Second)
		l.wantWaiting(all...)
		l.WantEvent("worker-7", notFound, "keeps its taint", "worker-7")
		l.wantCodes("worker-7", NoInstance)
		if r := l.report(); r.Waiting != 30 {
			t.Errorf("%+v", r)
		}
		l.Pass(10 * time.Minute)
		calls := len(l.cloud.Calls())
		l.Pass(10 * time.Minute)
		if n := len(l.cloud.Calls()) - calls; n > 45 {
			t.Errorf("%d calls in ten minutes", n)
		}
		for _, name := range all {
			l.cloud.Launch(name)
		}
		l.Pass(2 * time.Minute)
		for _, name := range all {
			l.want(name)
		}
		if r := l.report(); len(r.Findings) != 0 || r.Waiting != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestAnswersInParts: an instance that the answer lacks delays no other Node. An error of the
// cloud causes no write.
func TestAnswersInParts(t *testing.T) {
	inLab(t, func(l *lab) {
		refused := &cloud.Error{Kind: cloud.Throttled, Action: "Instances", Text: "slow down"}
		l.cloud.Fault = func(c cloudtest.Call) (answered []string, err error) {
			return slices.DeleteFunc(slices.Clone(c.Keys), func(key string) bool { return key == "b" }), refused
		}
		l.Begin()
		l.add("a", "b", "c")
		l.Pass(3 * time.Second)
		l.want("a")
		l.want("c")
		l.wantWaiting("b")
		l.wantCodes("b")
		l.cloud.Do(func() { l.cloud.Fault = nil })
		l.Pass(10 * time.Second)
		l.want("b")

		l.cloud.Do(func() { l.cloud.Revoked = true })
		l.add("d")
		patches := l.Patches("")
		l.Pass(2 * refresh)
		l.wantWaiting("d")
		if n := l.Patches("") - patches; n != 0 {
			t.Errorf("%d patches without an answer", n)
		}
		l.cloud.Do(func() { l.cloud.Revoked = false })
		l.Pass(2 * time.Minute)
		l.want("d")
	})
}

// TestLookupsOfADescribedNodeBackOff: lookups also back off for a Node whose instance is known
// but that keeps its taint: while the cloud does not answer, and while the kubelet requests an
// address that the instance does not have.
func TestLookupsOfADescribedNodeBackOff(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("first")
		l.Pass(2 * time.Second)
		l.register("second", withID(cloudtest.ProviderID("first")))
		l.Pass(3 * time.Second)
		l.wantWaiting("second")
		l.cloud.Do(func() { l.cloud.Revoked = true })
		l.Pass(10 * time.Minute)
		calls := len(l.cloud.Calls())
		l.Pass(10 * time.Minute)
		if n := len(l.cloud.Calls()) - calls; n > 15 {
			t.Errorf("%d calls in ten minutes without an answer", n)
		}
	})
	inLab(t, func(l *lab) {
		l.Begin()
		l.cloud.Launch("a")
		l.register("a", withIP("192.0.2.1"))
		l.Pass(10 * time.Minute)
		l.wantCodes("a", BadAddress)
		calls := len(l.cloud.Calls())
		l.Pass(10 * time.Minute)
		if n := len(l.cloud.Calls()) - calls; n > 15 {
			t.Errorf("%d calls in ten minutes for a wrong address", n)
		}
	})
}

// TestAnotherAccountChangesNothing: credentials of another account show no instance. Initialised
// Nodes stay the same.
func TestAnotherAccountChangesNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("a", "b")
		l.Pass(2 * time.Second)
		patches := l.Patches("")
		l.cloud.Do(func() { l.cloud.Elsewhere = true })
		l.Pass(3 * refresh)
		if n := l.Patches("") - patches; n != 0 || len(l.report().Findings) != 0 {
			t.Errorf("%d patches, %+v", n, l.report())
		}
	})
}

// TestConflictsAreFindings: conflicting facts are findings, and the controller continues.
func TestConflictsAreFindings(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.cloud.Launch("foreign", func(i *cloud.Instance) { i.State = "" })
		l.register("foreign", withID(cloudtest.ProviderID("foreign")))
		l.cloud.Launch("gone", func(i *cloud.Instance) { i.State = cloud.Terminated })
		l.register("gone")
		l.cloud.Launch("requests")
		l.register("requests", withIP("192.0.2.1"))
		l.add("fine")
		l.Pass(3 * time.Second)
		l.wantWaiting("foreign", "gone", "requests")
		l.want("fine")
		l.wantCodes("foreign", Foreign)
		l.WantEvent("foreign", conflicts, "not of this cloud")
		l.wantCodes("gone", NoInstance)
		l.WantEvent("gone", notFound, "is terminated; delete the Node")
		l.wantCodes("requests", BadAddress)
		l.WantEvent("requests", invalidIP, "192.0.2.1", "--node-ip")

		l.ChangeNode("requests", withIP("172.20.0.3"))
		l.Pass(2 * time.Minute)
		if !l.initialised("requests") || l.addresses("requests")[0] != "InternalIP=172.20.0.3" {
			t.Errorf("requests has %q", l.addresses("requests"))
		}
		l.ChangeNode("requests", withIP("192.0.2.1"))
		l.Pass(2 * time.Minute)
		l.wantCodes("requests", BadAddress)
		if len(l.addresses("requests")) != 4 {
			t.Errorf("requests lost its addresses: %q", l.addresses("requests"))
		}
	})
}

// TestTwoNodesOfOneInstance: two Nodes with one instance are a finding. The second one waits
// until the first has been unready for unreadyTime.
func TestTwoNodesOfOneInstance(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("first")
		l.Pass(2 * time.Second)
		l.register("second", withID(cloudtest.ProviderID("first")))
		l.Pass(10 * time.Minute)
		l.want("first")
		l.wantWaiting("second")
		l.wantCodes("first", Shared)
		l.wantCodes("second", Shared)
		l.WantEvent("second", conflicts, "i-first", "Node first")
		l.SetReady("first", corev1.ConditionUnknown)
		l.Pass(4 * time.Minute)
		l.wantWaiting("second")
		l.Pass(3 * time.Minute)
		if !l.initialised("second") {
			t.Error("second is not initialised")
		}
		l.API.Do(func() { l.API.Change("DELETED", l.API.Nodes["first"]) })
		l.Pass(time.Minute)
		l.wantCodes("second")
	})
}

// TestTheOlderOfTwoNodesGetsTheInstance: if two waiting Nodes have the same instance, the older
// one gets it.
func TestTheOlderOfTwoNodesGetsTheInstance(t *testing.T) {
	inLab(t, func(l *lab) {
		id := l.cloud.Launch("a")
		l.register("z", withID(id))
		l.Pass(2 * time.Second)
		l.register("b", withID(id))
		l.Begin()
		l.Pass(time.Second)
		l.wantWaiting("b")
		if !l.initialised("z") {
			t.Error("z is not initialised")
		}
	})
}

// TestEveryNodeIsInitialisedWhateverFails: despite failed, lost and late writes, the controller
// initialises every Node.
func TestEveryNodeIsInitialisedWhateverFails(t *testing.T) {
	for name, code := range map[string]int32{"409": 409, "422": 422, "429": 429, "500": 500, "503": 503} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				var refused atomic.Int32
				l.API.Refuse = func(r *http.Request) *metav1.Status {
					if r.Method != http.MethodPatch || refused.Add(1) > 10 {
						return nil
					}
					return apitest.Refusal(code, "refused by the test")
				}
				l.Begin()
				l.add(labtest.Names(8)...)
				l.Pass(2 * time.Minute)
				for _, name := range labtest.Names(8) {
					l.want(name)
				}
				if code == 422 {
					texts := ""
					for _, name := range labtest.Names(8) {
						texts += l.Event(name, updateFailed)
					}
					if !strings.Contains(texts, "refused by the test") {
						t.Errorf("the events say %q", texts)
					}
				}
			})
		})
	}
	t.Run("lost answers", func(t *testing.T) {
		inLab(t, func(l *lab) {
			var asked atomic.Int32
			l.API.Lose = func(r *http.Request) bool {
				return r.Method == http.MethodPatch && asked.Add(1)%2 == 0
			}
			l.Begin()
			l.add(labtest.Names(8)...)
			l.Pass(time.Minute)
			for _, name := range labtest.Names(8) {
				l.want(name)
			}
		})
	})
}

// TestARecreatedNodeIsAnotherNode: a re-created Node gets no fact of the earlier Node with its
// name.
func TestARecreatedNodeIsAnotherNode(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("a")
		l.Pass(2 * time.Second)
		l.API.Do(func() { l.API.Change("DELETED", l.API.Nodes["a"]) })
		l.cloud.Forget("a")
		l.register("a", func(n *corev1.Node) { n.UID = "another" })
		l.Pass(3 * time.Second)
		l.wantWaiting("a")
		l.register("deleting", func(n *corev1.Node) {
			n.DeletionTimestamp, n.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.org/kept"}
		})
		l.cloud.Launch("deleting")
		l.Pass(3 * time.Second)
		l.wantWaiting("deleting")
	})
}

// TestPlanShowsEachNodeAsOneWrite: a dry run shows one write for each Node, and makes none.
func TestPlanShowsEachNodeAsOneWrite(t *testing.T) {
	inLabAs(t, controller.ObserveMode, func(l *lab) {
		l.add("a", "b")
		l.Engine.Follow()
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil || len(writes) != 2 {
			t.Fatalf("%v, %v", writes, err)
		}
		for _, w := range writes {
			for _, part := range []string{"set providerID fake:///fake-1a/i-" + w.Object.Name, "ExternalIP=198.51.0.", "set labels instance-type=fake.large,region=fake-1,topology.fake.example/zone-id=fk1-az1,zone=fake-1a", "remove the taint " + Taint} {
				if !strings.Contains(w.Summary, part) {
					t.Errorf("%s lacks %q", fmt.Sprint(w.Object, ": ", w.Summary), part)
				}
			}
		}
		l.Pass(time.Minute)
		if n := l.Patches(""); n != 0 {
			t.Errorf("%d patches", n)
		}
	})
}
