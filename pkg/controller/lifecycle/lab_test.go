package lifecycle

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube"
)

// lab is an API server, a cloud and a controller.
type lab struct {
	*labtest.Lab
	cloud *cloudtest.Fleet
	c     *Controller
}

// inLab runs a test with a controller, whose options f changes.
func inLab(t *testing.T, test func(l *lab), f ...func(*controller.Options, *Options)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		l := &lab{Lab: in, cloud: cloudtest.NewFleet()}
		l.cloud.Latency = 100 * time.Millisecond
		l.start(f...)
		test(l)
	})
}

// start starts a process, whose options f changes. It does not lead.
func (l *lab) start(f ...func(*controller.Options, *Options)) {
	var engine controller.Options
	o := Options{Client: l.Client, Cloud: l.cloud, Rules: Rules{Limit: 5, LimitName: "--node-deletion-limit", Remembers: time.Hour}, Period: time.Minute}
	for _, change := range f {
		change(&engine, &o)
	}
	l.Start(engine, func(e *controller.Engine) {
		o.Event = e.Event
		l.c = New(e, o)
	})
	l.c.judge.watching = time.Now().Add(-Usual.Hour) // a new process would delete no Node
}

// restart ends the process, and starts another one.
func (l *lab) restart(f ...func(*controller.Options, *Options)) {
	l.End()
	l.Kill()
	l.start(f...)
}

// add adds ready Nodes, with instances that run.
func (l *lab) add(names ...string) {
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		n.Spec.ProviderID = l.cloud.Launch(name)
		n.Spec.Taints = []corev1.Taint{{Key: "example.org/dedicated", Effect: corev1.TaintEffectNoSchedule}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		l.AddNode(n)
		l.renew(name, "2026-01-02T03:04:05.000006Z")
	}
}

// workers adds n ready Nodes worker-0 and so on.
func (l *lab) workers(n int) { l.add(labtest.Names(n)...) }

// renew sets the Lease of a Node's kubelet.
func (l *lab) renew(name, at string) {
	l.API.Do(func() {
		l.API.ChangeObject("ADDED", kube.Path(kube.Leases(leaseNamespace), name), map[string]any{"spec": map[string]any{"holderIdentity": name, "renewTime": at}})
	})
}

// taints returns the keys of a Node's taints.
func (l *lab) taints(name string) (all []string) {
	for _, t := range l.API.Node(name).Spec.Taints {
		all = append(all, t.Key)
	}
	return all
}

// wantTaints fails unless these are the keys of a Node's taints.
func (l *lab) wantTaints(name string, want ...string) {
	l.Helper()
	if got := l.taints(name); !slices.Equal(got, want) {
		l.Errorf("%s has the taints %q, want %q", name, got, want)
	}
}

// wantNodes fails unless this number of Nodes is left.
func (l *lab) wantNodes(want int) {
	l.Helper()
	n := 0
	l.API.Do(func() { n = len(l.API.Nodes) })
	if n != want {
		l.Errorf("%d Nodes are left, want %d: %+v", n, want, l.report())
	}
}

// report returns the controller's Report.
func (l *lab) report() (r Report) {
	l.Helper()
	l.Do(func() { r = l.c.Report(time.Now()) })
	return r
}
