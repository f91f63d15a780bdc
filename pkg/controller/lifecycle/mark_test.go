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

// outlive ends the instance of a Node. Another machine gets its name, and uses the Node for a
// while.
func (l *lab) outlive(name string) {
	l.cloud.SetState(name, cloud.Terminated)
	l.SetReady(name, corev1.ConditionUnknown)
	l.Pass(2 * time.Minute)
	l.renew(name, "of another machine")
	l.SetReady(name, corev1.ConditionTrue)
	l.Pass(2 * time.Minute)
}

// TestAnotherLeaderDeletesNoNodeOfAnotherMachine: if one leader has seen that another machine uses
// a Node, no later leader deletes the Node, even while that machine is cut off.
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
		// Without the mark, the Node is deleted. So the mark has held it.
		l.annotate("worker-3", Mark, "")
		l.Pass(10 * time.Minute)
		l.wantNodes(29)
	})
}

// TestAMarkThatIsRemovedComesBack: the leader restores a removed mark while it knows the reason.
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

// TestAForgedMarkDeletesNothing: a forged mark only prevents a deletion. It holds its Node while
// the instance is gone, and is removed if the instance runs. A mark of another instance, or
// garbage, has no effect.
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

// TestForgedMarksHideNoWrongAccount: even forged marks on all Nodes do not make a wrong account
// credible.
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

// TestPlanShowsHeldNodes: a plan shows a held Node as held back, and not as a later deletion.
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
