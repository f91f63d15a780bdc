package lifecycle

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
)

// machine sets the ID of the machine whose kubelet uses a Node.
func (l *lab) machine(name, id string) {
	l.ChangeNode(name, func(n *corev1.Node) { n.Status.NodeInfo.SystemUUID = id })
}

// reuse ends the instance of a Node. Another machine gets its name, uses the ready Node for ten
// seconds, and is cut off.
func (l *lab) reuse(name string) {
	l.cloud.SetState(name, cloud.Terminated)
	l.machine(name, "of another machine")
	l.renew(name, "of another machine")
	l.Pass(10 * time.Second)
	l.SetReady(name, corev1.ConditionUnknown)
}

// TestAReusedNameIsSeenAtOnce: if another machine uses a Node between two audits, its ID tells, so
// the Node is not deleted when that machine is cut off. Without IDs, the Node is deleted.
func TestAReusedNameIsSeenAtOnce(t *testing.T) {
	for _, id := range []string{"of the first machine", ""} {
		inLab(t, func(l *lab) {
			l.workers(30)
			l.machine("worker-3", id)
			l.Begin()
			l.Pass(10 * time.Minute)
			l.reuse("worker-3")
			l.Pass(5 * time.Second)
			if id == "" {
				l.Pass(time.Hour)
				l.wantNodes(29)
				return
			}
			if got := l.API.Node("worker-3").Annotations[Mark]; got != cloudtest.ProviderID("worker-3") {
				t.Errorf("the Node has the mark %q", got)
			}
			l.WantWarning("worker-3", "NodeDeletionHeldBack", "another machine")
			l.restart()
			l.Begin()
			l.Pass(10 * time.Hour)
			l.wantNodes(30)
		})
	}
}

// TestAReusedNameIsSeenByAStandby: a process that does not lead sees the other machine, too, and
// looks the instance up as soon as it leads.
func TestAReusedNameIsSeenByAStandby(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.machine("worker-3", "of the first machine")
		l.Begin()
		l.Pass(time.Minute)
		l.End()
		l.reuse("worker-3")
		l.Pass(time.Minute)
		l.Begin()
		l.Pass(3 * time.Hour)
		l.wantNodes(30)
	})
}

// TestAReusedNameWhileTheCloudFails: until the cloud answers, the Node counts neither as reused nor
// as gone.
func TestAReusedNameWhileTheCloudFails(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.machine("worker-3", "of the first machine")
		l.Begin()
		l.Pass(time.Minute)
		l.cloud.Do(func() { l.cloud.Revoked = true })
		l.reuse("worker-3")
		l.Pass(time.Hour)
		if l.API.Node("worker-3").Annotations[Mark] != "" {
			t.Error("the Node is marked without an answer")
		}
		l.cloud.Do(func() { l.cloud.Revoked = false })
		l.Pass(3 * time.Hour)
		l.wantNodes(30)
		if l.API.Node("worker-3").Annotations[Mark] == "" {
			t.Error("the Node is not marked")
		}
	})
}

// TestAnotherIDOfARunningInstance: if the instance runs, another ID has no effect. After two
// answers, the instance is no longer looked up, and a later end of it deletes the Node.
func TestAnotherIDOfARunningInstance(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.machine("worker-3", "one")
		l.Begin()
		l.Pass(10 * time.Second)
		patches := l.Patches("")
		l.machine("worker-3", "two")
		l.Pass(time.Minute + 30*time.Second)
		calls := len(l.cloud.Calls())
		l.Pass(15 * time.Minute)
		if n := len(l.cloud.Calls()) - calls; n > 0 {
			t.Errorf("%d lookups", n)
		}
		if n := l.Patches("") - patches; n > 0 {
			t.Errorf("%d patches", n)
		}
		if text := l.Event("worker-3", "NodeDeletionHeldBack"); text != "" {
			t.Error(text)
		}
		l.cloud.SetState("worker-3", cloud.Terminated)
		l.SetReady("worker-3", corev1.ConditionUnknown)
		l.Pass(10 * time.Minute)
		l.wantNodes(29)
	})
}

// TestAMissingIDIsNoOtherMachine: a kubelet that reports no ID for a while is no other machine.
func TestAMissingIDIsNoOtherMachine(t *testing.T) {
	inLab(t, func(l *lab) {
		l.workers(30)
		l.machine("worker-3", "one")
		l.Begin()
		l.Pass(time.Minute)
		l.machine("worker-3", "")
		l.Pass(time.Minute)
		l.machine("worker-3", "one")
		l.cloud.SetState("worker-3", cloud.Terminated)
		l.SetReady("worker-3", corev1.ConditionUnknown)
		l.Pass(10 * time.Minute)
		l.wantNodes(29)
	})
}
