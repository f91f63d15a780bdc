package lifecycle

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

const dedicated = "example.org/dedicated"

// TestTheTaintOfAStoppedInstance: a Node gets the taint while its instance is stopped, and loses
// it when the Node is ready again. Other taints stay. While all Nodes are ready, the cloud gets
// one request in half an hour.
func TestTheTaintOfAStoppedInstance(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add("a", "b")
		l.Begin()
		l.Pass(2 * time.Hour)
		if calls := l.cloud.Calls(); len(calls) > 5 {
			t.Errorf("%d calls while all is well", len(calls))
		}
		l.cloud.SetState("a", cloud.Stopping)
		l.SetReady("a", corev1.ConditionUnknown)
		l.Pass(3 * time.Second)
		l.wantTaints("a", dedicated)
		l.cloud.SetState("a", cloud.Stopped)
		l.Pass(15 * time.Second)
		l.wantTaints("a", dedicated, Taint)
		l.Pass(6 * time.Hour)
		l.wantNodes(2)
		if r := l.report(); r.Unready != 1 || r.ShutDown != 1 || len(r.Gone) != 0 {
			t.Errorf("%+v", r)
		}
		l.cloud.SetState("a", cloud.Running)
		l.Pass(2 * time.Minute)
		l.wantTaints("a", dedicated, Taint)
		l.SetReady("a", corev1.ConditionTrue)
		l.Pass(2 * time.Second)
		l.wantTaints("a", dedicated)
		calls := len(l.cloud.Calls())
		l.Pass(2 * time.Hour)
		if n := len(l.cloud.Calls()) - calls; n > 5 {
			t.Errorf("%d calls while all is well", n)
		}
	})
}

// TestTheTaintGoesWithoutTheCloud: a ready Node loses the taint even while the cloud does not
// answer.
func TestTheTaintGoesWithoutTheCloud(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add("a")
		n := l.API.Node("a").DeepCopy()
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: Taint, Effect: corev1.TaintEffectNoSchedule})
		l.API.Do(func() { l.API.Change("MODIFIED", n); l.cloud.Revoked = true })
		l.Begin()
		l.wantTaints("a", dedicated)
	})
}

// TestDeletesNodesWhoseInstancesHaveEnded: a Node whose instance has ended is deleted after some
// minutes. One request a minute covers all unready Nodes.
func TestDeletesNodesWhoseInstancesHaveEnded(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.add("ended", "cut", "rogue")
		l.Begin()
		l.cloud.SetState("ended", cloud.Terminated)
		l.cloud.SetState("rogue", cloud.Terminated) // but its kubelet renews the Lease
		for _, name := range []string{"ended", "cut"} {
			l.SetReady(name, corev1.ConditionUnknown)
		}
		l.Pass(Usual.Pace + time.Second)
		l.WantEvent("ended", instanceGone, "terminated", "5m0s")
		l.Pass(4 * time.Minute)
		l.wantNodes(33)
		if r := l.report(); len(r.Gone) != 1 || r.Gone[0].Node != "ended" || r.Gone[0].Why != Observed || r.Doubt != "" {
			t.Errorf("%+v", r)
		}
		l.Pass(2 * time.Minute)
		l.wantNodes(32)
		if l.API.Node("ended") != nil {
			t.Error("another Node is deleted")
		}
		l.WantEvent("ended", deletingNode, "terminated", " since ")
		if r := l.report(); r.Deleted != 1 || len(r.Gone) != 0 {
			t.Errorf("%+v", r)
		}
		for _, c := range l.cloud.Calls() {
			if len(c.Keys) > 3+vouching && len(c.Keys) < 33 { // 33 is an audit of all
				t.Errorf("a call is about %q", c.Keys)
			}
		}
		if n := len(l.cloud.Calls()); n > 9 {
			t.Errorf("%d calls in six minutes", n)
		}
		l.Pass(3 * time.Hour)
		l.wantNodes(32)
	})
}

// Fault 12 of the incumbents: they deleted a Node as soon as the cloud answered "not found", so
// wrong permissions deleted every Node. Here a doubtful answer deletes none.
func TestNoDoubtDeletesANode(t *testing.T) {
	for name, doubt := range map[string]func(l *lab){
		"credentials are revoked":        func(l *lab) { l.cloud.Revoked = true },
		"credentials of another account": func(l *lab) { l.cloud.Elsewhere = true },
		"answers in parts": func(l *lab) {
			l.cloud.Fault = func(c cloudtest.Call) ([]string, error) {
				return slices.DeleteFunc(slices.Clone(c.Keys), func(key string) bool { return key == cloudtest.ProviderID("worker-1") }), nil
			}
		},
		"answers with errors": func(l *lab) {
			l.cloud.Fault = func(c cloudtest.Call) ([]string, error) {
				return c.Keys, &cloud.Error{Kind: cloud.Throttled, Action: c.Action, Text: "slow down"}
			}
		},
		"the ready ones are gone, too": func(l *lab) {
			l.cloud.Fault = func(c cloudtest.Call) ([]string, error) { return c.Keys, nil }
			l.cloud.Elsewhere = true
		},
		"the Leases cannot be read": func(l *lab) {
			l.API.Refuse = func(r *http.Request) *metav1.Status {
				if strings.Contains(r.URL.Path, leaseNamespace) {
					return apitest.Refusal(http.StatusForbidden, "forbidden by the test")
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.workers(5)
				l.Begin()
				l.cloud.SetState("worker-0", cloud.Terminated)
				l.cloud.Do(func() { l.API.Do(func() { doubt(l) }) })
				for _, name := range []string{"worker-0", "worker-1"} {
					l.SetReady(name, corev1.ConditionUnknown)
				}
				l.Pass(6 * time.Hour)
				l.wantNodes(5)
				l.cloud.Do(func() {
					l.cloud.Revoked, l.cloud.Elsewhere, l.cloud.Fault = false, false, nil
					l.API.Do(func() { l.API.Refuse = nil })
				})
				l.Pass(10 * time.Minute)
				l.wantNodes(4)
				if l.API.Node("worker-0") != nil {
					t.Error("another Node is deleted")
				}
			})
		})
	}
}

// TestAKubeletThatRenewsItsLeaseIsAlive: the Node of a kubelet that renews its Lease stays,
// whatever the cloud and the condition say.
func TestAKubeletThatRenewsItsLeaseIsAlive(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(5)
		l.Begin()
		l.cloud.SetState("worker-0", cloud.Terminated)
		l.SetReady("worker-0", corev1.ConditionFalse)
		for range 60 {
			l.renew("worker-0", time.Now().String())
			l.Pass(2 * time.Minute)
		}
		l.wantNodes(5)
		l.WantEvent("worker-0", heldBack, "belongs to another machine", "restart its kubelet")
		l.Pass(10 * time.Hour)
		l.wantNodes(5)
	})
}

// TestTheLimitHoldsNodesBack: the limit of an hour holds deletions back, with an event. They
// follow later.
func TestTheLimitHoldsNodesBack(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(40)
		l.Begin()
		for _, name := range []string{"worker-0", "worker-1", "worker-2", "worker-3", "worker-4"} {
			l.cloud.SetState(name, cloud.Terminated)
			l.SetReady(name, corev1.ConditionUnknown)
		}
		l.Pass(30 * time.Minute)
		l.wantNodes(38)
		l.WantEvent("worker-2", heldBack, "2 Nodes that were not ready were deleted within the hour", "--node-deletion-limit=5%")
		if r := l.report(); r.Deleted != 2 || len(r.Gone) != 3 || r.Gone[0].Why != Limited {
			t.Errorf("%+v", r)
		}
		l.Pass(40 * time.Minute)
		l.wantNodes(37)
		l.Pass(time.Hour)
		l.wantNodes(36)
	})
}

// TestANewTermCountsAgain: a new term counts the answers from zero, and deletes no Node in its
// first minutes.
func TestANewTermCountsAgain(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(5)
		l.Begin()
		l.cloud.SetState("worker-0", cloud.Terminated)
		l.SetReady("worker-0", corev1.ConditionUnknown)
		for range 10 {
			l.Pass(4 * time.Minute)
			l.End()
			l.Begin()
		}
		l.Pass(4 * time.Minute)
		l.wantNodes(5)
		l.Pass(3 * time.Minute)
		l.wantNodes(4)
	})
}

// TestADeletionRequiresTheNodeAsItWas: the server refuses the deletion of a Node that has changed
// since the decision, or was re-created with the same name.
func TestADeletionRequiresTheNodeAsItWas(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(5)
		l.Begin()
		l.cloud.SetState("worker-0", cloud.Terminated)
		l.SetReady("worker-0", corev1.ConditionUnknown)
		hold := make(chan struct{})
		l.API.Do(func() {
			l.API.Hold = func(r *http.Request) <-chan struct{} {
				if r.Method == http.MethodDelete {
					return hold
				}
				return nil
			}
		})
		l.Pass(6*time.Minute + 2*time.Second)
		l.API.Do(func() { l.API.Hold = nil })
		l.SetReady("worker-0", corev1.ConditionTrue) // while the deletion is in flight
		close(hold)
		l.Pass(time.Hour)
		l.wantNodes(5)
	})
}

// TestALostAnswerCountsAgainstTheLimit: a deletion whose answer is lost counts against the limit,
// and is not retried beyond it.
func TestALostAnswerCountsAgainstTheLimit(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(20)
		l.Begin()
		l.API.Do(func() { l.API.Lose = func(r *http.Request) bool { return r.Method == http.MethodDelete } })
		for _, name := range []string{"worker-0", "worker-1"} {
			l.cloud.SetState(name, cloud.Terminated)
			l.SetReady(name, corev1.ConditionUnknown)
		}
		l.Pass(30 * time.Minute)
		l.wantNodes(19)
	})
}

// TestPlanShowsDeletionsToCome: a dry run shows the deletions that are not due yet, with the
// reason.
func TestPlanShowsDeletionsToCome(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(3)
		l.add("stopped")
		l.cloud.SetState("worker-0", cloud.Terminated)
		l.cloud.SetState("stopped", cloud.Stopped)
		l.SetReady("worker-0", corev1.ConditionUnknown)
		l.SetReady("stopped", corev1.ConditionUnknown)
		l.Engine.Follow()
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil || len(writes) != 2 {
			t.Fatalf("%v, %v", writes, err)
		}
		slices.SortFunc(writes, func(a, b controller.Write) int { return strings.Compare(a.Verb, b.Verb) })
		if w := writes[0]; w.Verb != controller.Delete || !strings.HasPrefix(w.Summary, "delete later: its instance is terminated") {
			t.Errorf("%+v", w)
		}
		if w := writes[1]; w.Verb != controller.Patch || w.Summary != "add the taint "+Taint+": its instance is stopped" {
			t.Errorf("%+v", w)
		}
		l.Pass(time.Hour)
		l.wantNodes(4)
	}, func(e *controller.Options, o *Options) { e.Mode, o.Preview = controller.ObserveMode, true })
}

// TestNodesOfOtherCloudsStay: a Node without a providerID, or with one of another cloud, is never
// deleted.
func TestNodesOfOtherCloudsStay(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(5)
		l.cloud.Launch("foreign", func(i *cloud.Instance) { i.State = "" })
		for _, name := range []string{"foreign", "bare"} {
			n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if name == "foreign" {
				n.Spec.ProviderID = cloudtest.ProviderID(name)
			}
			l.API.Do(func() { l.API.Change("ADDED", n) })
		}
		l.Begin()
		l.Pass(6 * time.Hour)
		l.wantNodes(7)
	})
}
