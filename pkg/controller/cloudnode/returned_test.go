package cloudnode

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// newIP is the public address of an instance after it was stopped and started.
const newIP = "198.51.100.77"

// stop stops the machine of a Node. The Node is no longer ready.
func (l *lab) stop(name string) {
	l.cloud.SetState(name, cloud.Stopped)
	l.SetReady(name, corev1.ConditionUnknown)
}

// run shows the instance of a Node running, with newIP.
func (l *lab) run(name string) {
	l.cloud.Change(name, func(i *cloud.Instance) { i.State, i.Addresses[1].Value = cloud.Running, newIP })
}

// start starts the machine of a Node, whose kubelet then reports.
func (l *lab) start(name string) {
	l.run(name)
	l.SetReady(name, corev1.ConditionTrue)
}

// TestAReturnedNodeGetsItsNewAddress: a Node whose machine was stopped and started soon gets the
// new address, whatever the lookups show meanwhile.
func TestAReturnedNodeGetsItsNewAddress(t *testing.T) {
	elsewhere := func(l *lab, is bool) { l.cloud.Do(func() { l.cloud.Elsewhere = is }) }
	// look triggers a lookup: another program changes the Node.
	look := func(l *lab) {
		l.ChangeNode("a", func(n *corev1.Node) { n.Status.Addresses = n.Status.Addresses[:1] })
	}
	for name, off := range map[string]func(l *lab){
		"the answer is of before the stop": func(l *lab) {
			l.cloud.Do(func() { l.cloud.Late = 10 * time.Second })
			look(l)
			l.Pass(5 * time.Second)
			l.stop("a")
			l.Pass(10 * time.Second) // the answer arrives
			l.cloud.Do(func() { l.cloud.Late = 0 })
			l.start("a")
		},
		"the credentials are of another account": func(l *lab) {
			l.stop("a")
			l.Pass(10 * time.Second)
			elsewhere(l, true)
			l.start("a")
			l.Pass(10 * time.Second)
			elsewhere(l, false)
		},
		"the credentials are of another account for long": func(l *lab) {
			l.stop("a")
			l.Pass(10 * time.Second)
			elsewhere(l, true)
			l.start("a")
			l.Pass(5 * time.Minute)
			elsewhere(l, false)
			l.Pass(5 * time.Minute)
		},
		"a term begins with another account": func(l *lab) {
			elsewhere(l, true)
			l.End()
			l.cloud.Change("a", func(i *cloud.Instance) { i.Addresses[1].Value = newIP })
			l.Begin()
			l.Pass(10 * time.Second)
			elsewhere(l, false)
		},
		"the cloud shows the stop for a while": func(l *lab) {
			l.stop("a")
			l.Pass(10 * time.Second)
			l.SetReady("a", corev1.ConditionTrue)
			l.Pass(10 * time.Second)
			l.run("a")
		},
		"the cloud shows the old address for a while": func(l *lab) {
			l.SetReady("a", corev1.ConditionUnknown)
			l.Pass(10 * time.Second)
			l.SetReady("a", corev1.ConditionTrue)
			l.Pass(20 * time.Second)
			l.run("a")
		},
		"the watch shows only another boot": func(l *lab) {
			l.run("a")
			l.ChangeNode("a", func(n *corev1.Node) { n.Status.NodeInfo.BootID = "f0e1" })
		},
		"the watch shows only another condition": func(l *lab) {
			l.run("a")
			l.ChangeNode("a", func(n *corev1.Node) { n.Status.Conditions[0].LastTransitionTime = metav1.Now() })
		},
		"the API server refuses writes for minutes": func(l *lab) {
			l.API.Do(func() {
				l.API.Refuse = func(r *http.Request) *metav1.Status {
					if r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/a") {
						return apitest.Refusal(http.StatusInternalServerError, "refused by the test")
					}
					return nil
				}
			})
			l.stop("a")
			l.Pass(10 * time.Second)
			l.start("a")
			l.Pass(5 * time.Minute)
			l.API.Do(func() { l.API.Refuse = nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			inLab(t, func(l *lab) {
				l.Begin()
				l.cloud.Launch("a")
				l.register("a", func(n *corev1.Node) {
					n.Status.Conditions[0].LastTransitionTime = metav1.Now()
					n.Status.NodeInfo.BootID = "a9b8"
				})
				l.Pass(2 * time.Minute)
				l.want("a")
				calls := len(l.cloud.Calls())
				off(l)
				l.Pass(2 * time.Minute)
				if all := l.API.Node("a").Status.Addresses; !slices.Contains(all, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: newIP}) {
					t.Errorf("the Node has the addresses %v", all)
				}
				if n := len(l.cloud.Calls()) - calls; n > 12 {
					t.Errorf("%d calls", n)
				}
				calls = len(l.cloud.Calls())
				l.Pass(30 * time.Minute)
				if n := len(l.cloud.Calls()) - calls; n > 0 {
					t.Errorf("%d calls afterwards", n)
				}
			})
		})
	}
}

// TestAStartingInstanceIsLookedUpAgain: a Node that is initialised while its instance starts gets
// the instance's later addresses, too.
func TestAStartingInstanceIsLookedUpAgain(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.cloud.Launch("a", func(i *cloud.Instance) {
			i.State, i.Addresses = cloud.Starting, slices.Delete(i.Addresses, 1, 2)
		})
		l.register("a")
		l.Pass(2 * time.Second)
		if !l.initialised("a") {
			t.Fatal("a is not initialised")
		}
		l.cloud.Change("a", func(i *cloud.Instance) {
			i.State, i.Addresses = cloud.Running, slices.Insert(i.Addresses, 1, cloud.Address{Type: cloud.ExternalIP, Value: newIP})
		})
		l.Pass(2 * time.Minute)
		l.want("a")
		if n := len(l.cloud.Calls()); n > 3 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestAReadyNodeWithoutAnInstanceIsLookedUpRarely: a ready Node without an instance costs fewer
// requests than one a minute.
func TestAReadyNodeWithoutAnInstanceIsLookedUpRarely(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("a", "b")
		l.Pass(2 * time.Minute)
		calls := len(l.cloud.Calls())
		l.cloud.Forget("a")
		l.cloud.Forget("b")
		l.Pass(10 * time.Hour)
		if n := len(l.cloud.Calls()) - calls; n < 20 || n > 40 {
			t.Errorf("%d calls in ten hours", n)
		}
	})
}

// TestAFlappingNodeIsLookedUpOnceAMinute: a Node that returns repeatedly is looked up once a
// minute.
func TestAFlappingNodeIsLookedUpOnceAMinute(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("a")
		l.Pass(2 * time.Minute)
		calls := len(l.cloud.Calls())
		for range 10 * 60 / 5 {
			l.SetReady("a", corev1.ConditionUnknown)
			l.Pass(2 * time.Second)
			l.SetReady("a", corev1.ConditionTrue)
			l.Pass(3 * time.Second)
		}
		if n := len(l.cloud.Calls()) - calls; n < 9 || n > 11 {
			t.Errorf("%d calls in ten minutes", n)
		}
	})
}
