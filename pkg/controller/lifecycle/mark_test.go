package lifecycle

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
)

// annotate sets an annotation of a Node; "" removes it.
func (l *lab) annotate(name, key, value string) {
	l.ChangeNode(name, func(n *corev1.Node) {
		delete(n.Annotations, key)
		if value != "" {
			n.Annotations = map[string]string{key: value}
		}
	})
}

// outlive ends the instance of a Node, whose name goes to a machine that works for a while.
func (l *lab) outlive(name string) {
	l.cloud.SetState(name, cloud.Terminated)
	l.SetReady(name, corev1.ConditionUnknown)
	l.Pass(2 * time.Minute)
	l.renew(name, "of another machine")
	l.SetReady(name, corev1.ConditionTrue)
	l.Pass(2 * time.Minute)
}

// What one leader has seen of a machine that got the name of another one holds the Node
// for all later leaders, also while that machine is cut off.
func TestAnotherLeaderDeletesNoNodeOfAnotherMachine(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.Begin()
		l.outlive("worker-3")
		if got := l.API.Node("worker-3").Annotations[Mark]; got != cloudtest.ProviderID("worker-3") {
			t.Fatalf("the Node has the mark %q", got)
		}
		l.SetReady("worker-3", corev1.ConditionUnknown) // cut off, for days
		for range 3 {
			l.restart()
			l.Begin()
			l.Pass(10 * time.Hour)
			l.wantNodes(30)
			if r := l.report(); len(r.Gone) != 1 || r.Gone[0].Why != Outlived || !strings.Contains(r.Gone[0].Text, Mark) || r.Held() != 1 {
				t.Errorf("%+v", r)
			}
		}
		// Without the mark, the Node is deleted: so it is the mark that held it.
		l.annotate("worker-3", Mark, "")
		l.Pass(10 * time.Minute)
		l.wantNodes(29)
	})
}

// The mark is written again if it is lost while the leader knows why.
func TestAMarkThatIsRemovedComesBack(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.Begin()
		l.outlive("worker-3")
		l.annotate("worker-3", Mark, "")
		l.Pass(2 * time.Second)
		if l.API.Node("worker-3").Annotations[Mark] == "" {
			t.Error("the mark is lost")
		}
	})
}

// A forged mark only ever prevents a deletion: it holds its Node while the instance is
// gone, and goes if the instance runs. One of another instance, and garbage, do nothing.
func TestAForgedMarkDeletesNothing(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.cloud.SetState("worker-1", cloud.Terminated)
		for i, mark := range []string{cloudtest.ProviderID("worker-0"), cloudtest.ProviderID("worker-1"), cloudtest.ProviderID("worker-9"), strings.Repeat("x", 100_000)} {
			name := fmt.Sprint("worker-", i)
			l.annotate(name, Mark, mark)
		}
		l.SetReady("worker-1", corev1.ConditionUnknown)
		l.Begin()
		l.Pass(3 * time.Minute)
		if l.API.Node("worker-0").Annotations[Mark] == "" {
			t.Error("a few answers remove a mark")
		}
		l.Pass(time.Hour)
		l.wantNodes(30)
		if l.API.Node("worker-0").Annotations[Mark] != "" {
			t.Error("the mark stays on a Node whose instance runs")
		}
		if l.API.Node("worker-2").Annotations[Mark] == "" || l.API.Node("worker-3").Annotations[Mark] == "" {
			t.Error("an annotation with another value is written")
		}
		if r := l.report(); len(r.Gone) != 1 || r.Gone[0].Node != "worker-1" {
			t.Errorf("%+v", r)
		}
		l.cloud.SetState("worker-2", cloud.Terminated)
		l.SetReady("worker-2", corev1.ConditionUnknown)
		l.Pass(10 * time.Minute)
		l.wantNodes(29)
	})
}

// Forged marks on all Nodes do not make a wrong account credible.
func TestForgedMarksHideNoWrongAccount(t *testing.T) {
	c := newCourt(t, 6, 4)
	for i := range 5 {
		name := fmt.Sprint("w", i)
		c.set(subject{name: name, uid: "uid-" + name, version: "2", id: "id-" + name, ready: true, marked: true})
		c.states[name] = cloud.Terminated
	}
	c.minutes(60)
	if c.doubt == "" {
		t.Error("the answers are credible, though they deny five of six ready Nodes")
	}
	if why, text := c.why("d0"); why == Due {
		t.Errorf("d0 is due: %s", text)
	}
}

// A plan shows that a Node is held, and never as a deletion to come.
func TestPlanShowsHeldNodes(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.Begin()
		l.outlive("worker-3")
		l.restart(func(e *controller.Options, o *Options) { e.Mode, o.Preview = controller.ObserveMode, true })
		l.Engine.Follow()
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil || len(writes) != 1 || !strings.HasPrefix(writes[0].Summary, "held back: a kubelet worked under this Node") || !writes[0].Held {
			t.Errorf("%v, %v", writes, err)
		}
	})
}
