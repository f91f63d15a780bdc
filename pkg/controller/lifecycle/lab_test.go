package lifecycle

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// lab is an API server, a cloud and a controller, in a bubble of synctest.
type lab struct {
	*testing.T
	api    *apitest.Server
	cloud  *cloudtest.Fleet
	engine *controller.Engine
	c      *Controller
	lead   context.CancelFunc
	led    chan bool

	mu     sync.Mutex
	events []controller.Event
}

// inLab runs a test with a controller, whose options f changes.
func inLab(t *testing.T, test func(l *lab), f ...func(*controller.Options, *Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, api: apitest.InProcess(t), cloud: cloudtest.NewFleet(), led: make(chan bool, 1), lead: func() {}}
		l.api.Gives, l.cloud.Latency = nil, 100*time.Millisecond
		client, err := kube.NewClient(kube.Options{Server: l.api.URL, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		client.Wrap(func(http.RoundTripper) http.RoundTripper { return l.api.Transport() })
		e := controller.Options{Mode: controller.WriteMode, WriteTimeout: 5 * time.Second, Send: l.send}
		o := Options{Client: client, Cloud: l.cloud, Rules: Rules{Limit: 5, Remembers: time.Hour}, Period: time.Minute}
		for _, change := range f {
			change(&e, &o)
		}
		l.engine = controller.New(e)
		o.Event = l.engine.Event
		l.c = New(l.engine, o)
		l.c.judge.follows = time.Now().Add(-fullHour) // one that begins deletes no Node
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			l.engine.Run(ctx)
		}()
		l.Cleanup(func() {
			cancel()
			<-ended
		})
		test(l)
		l.end()
	})
}

func (l *lab) send(_ context.Context, e controller.Event) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	return nil
}

// begin begins a term.
func (l *lab) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	l.lead = cancel
	go func() { l.led <- l.engine.Lead(ctx, election.Term{}) }()
	l.pass(time.Second)
}

// end ends the term, and waits for that.
func (l *lab) end() {
	l.lead()
	l.lead = func() {}
	synctest.Wait()
	select {
	case <-l.led:
	case <-time.After(time.Minute):
	}
}

// pass lets time pass.
func (l *lab) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// add adds ready Nodes, with instances that run.
func (l *lab) add(names ...string) {
	for _, name := range names {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
		n.Spec.ProviderID = l.cloud.Launch(name)
		n.Spec.Taints = []corev1.Taint{{Key: "example.org/dedicated", Effect: corev1.TaintEffectNoSchedule}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		l.api.Do(func() { l.api.Change("ADDED", n) })
		l.renew(name, "2026-01-02T03:04:05.000006Z")
	}
}

// workers adds n ready Nodes worker-0 and so on.
func (l *lab) workers(n int) {
	for i := range n {
		l.add(fmt.Sprint("worker-", i))
	}
}

// renew sets the Lease of a Node's kubelet.
func (l *lab) renew(name, at string) {
	l.api.Do(func() {
		l.api.ChangeObject("ADDED", kube.Path(kube.Leases(leaseNamespace), name), map[string]any{"spec": map[string]any{"holderIdentity": name, "renewTime": at}})
	})
}

// set sets a Node's condition Ready.
func (l *lab) set(name string, s corev1.ConditionStatus) {
	n := l.api.Node(name).DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}
	l.api.Do(func() { l.api.Change("MODIFIED", n) })
}

// taints returns the keys of a Node's taints.
func (l *lab) taints(name string) (all []string) {
	for _, t := range l.api.Node(name).Spec.Taints {
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

// wantNodes fails unless so many Nodes are left.
func (l *lab) wantNodes(want int) {
	l.Helper()
	n := 0
	l.api.Do(func() { n = len(l.api.Nodes) })
	if n != want {
		l.Errorf("%d Nodes are left, want %d: %+v", n, want, l.report())
	}
}

// event returns the texts of a Node's events for a reason.
func (l *lab) event(name, reason string) (texts string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Object.Name == name && e.Reason == reason {
			texts += e.Message + "\n"
		}
	}
	return texts
}

// wantEvent fails unless a Node has an event with these parts.
func (l *lab) wantEvent(name, reason string, parts ...string) {
	l.Helper()
	text := l.event(name, reason)
	for _, p := range parts {
		if !strings.Contains(text, p) {
			l.Errorf("%s: %s is %q and lacks %q", name, reason, text, p)
		}
	}
}

// report returns what the controller knows.
func (l *lab) report() (r Report) {
	l.Helper()
	if !l.engine.Do(l.Context(), func() { r = l.c.Report(time.Now()) }) {
		l.Fatal("the loop does not answer")
	}
	return r
}
