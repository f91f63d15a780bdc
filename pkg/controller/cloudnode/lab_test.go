package cloudnode

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

const (
	// latency is how long a call of the cloud takes.
	latency = 100 * time.Millisecond
	// refresh is how often all Nodes are compared.
	refresh = time.Hour
	// zoneLabel is the cloud's own label.
	zoneLabel = "topology.fake.example/zone-id"
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

// inLab runs a test with a controller.
func inLab(t *testing.T, test func(l *lab)) {
	t.Helper()
	inLabAs(t, controller.WriteMode, test)
}

func inLabAs(t *testing.T, mode controller.Mode, test func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, api: apitest.InProcess(t), cloud: cloudtest.NewFleet(), led: make(chan bool, 1), lead: func() {}}
		l.api.Gives, l.cloud.Latency = nil, latency
		client, err := kube.NewClient(kube.Options{Server: l.api.URL, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		client.Wrap(func(http.RoundTripper) http.RoundTripper { return l.api.Transport() })
		l.engine = controller.New(controller.Options{Mode: mode, WriteTimeout: 5 * time.Second, Send: l.send})
		l.c = New(l.engine, Options{Client: client, Cloud: l.cloud, Refresh: refresh, ZoneID: zoneLabel, Event: l.engine.Event})
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

// register adds a Node as a kubelet of the cloud registers it, changed by f.
func (l *lab) register(name string, f ...func(*corev1.Node)) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"kubernetes.io/hostname": name},
		CreationTimestamp: metav1.NewTime(time.Now()),
	}}
	n.Spec.Taints = []corev1.Taint{
		{Key: Taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}, {Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule},
	}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range f {
		change(n)
	}
	l.api.Do(func() { l.api.Change("ADDED", n) })
}

// add launches an instance, and registers its Node.
func (l *lab) add(names ...string) {
	for _, name := range names {
		l.cloud.Launch(name)
		l.register(name)
	}
}

// change changes a Node.
func (l *lab) change(name string, f func(*corev1.Node)) {
	n := l.api.Node(name).DeepCopy()
	f(n)
	l.api.Do(func() { l.api.Change("MODIFIED", n) })
}

// ready sets a Node's condition Ready.
func (l *lab) ready(name string, s corev1.ConditionStatus) {
	l.change(name, func(n *corev1.Node) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: s}}
	})
}

func withID(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }

func withIP(text string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{ProvidedIP: text} }
}

// initialised reports whether a Node's taint is removed.
func (l *lab) initialised(name string) bool {
	return !slices.ContainsFunc(l.api.Node(name).Spec.Taints, func(t corev1.Taint) bool { return t.Key == Taint })
}

// addresses returns a Node's addresses.
func (l *lab) addresses(name string) (all []string) {
	for _, a := range l.api.Node(name).Status.Addresses {
		all = append(all, fmt.Sprintf("%s=%s", a.Type, a.Address))
	}
	return all
}

// want fails unless a Node is initialised with everything that the cloud knows.
func (l *lab) want(name string) {
	l.Helper()
	n := l.api.Node(name)
	if !l.initialised(name) {
		l.Errorf("%s has the taint: %v", name, n.Spec.Taints)
		return
	}
	if len(n.Spec.Taints) != 1 || n.Spec.ProviderID != cloudtest.ProviderID(name) {
		l.Errorf("%s has the providerID %q and the taints %v", name, n.Spec.ProviderID, n.Spec.Taints)
	}
	for key, value := range map[string]string{
		"beta.kubernetes.io/instance-type": cloudtest.Machine, "node.kubernetes.io/instance-type": cloudtest.Machine,
		"failure-domain.beta.kubernetes.io/zone": cloudtest.Zone, "topology.kubernetes.io/zone": cloudtest.Zone,
		"failure-domain.beta.kubernetes.io/region": cloudtest.Region, "topology.kubernetes.io/region": cloudtest.Region,
		zoneLabel: cloudtest.ZoneID, "kubernetes.io/hostname": name,
	} {
		if n.Labels[key] != value {
			l.Errorf("%s: label %s is %q, want %q", name, key, n.Labels[key], value)
		}
	}
	if got := l.addresses(name); len(got) != 4 || got[3] != "Hostname="+name+".fake" {
		l.Errorf("%s has the addresses %q", name, got)
	}
}

// wantWaiting fails if a Node is initialised, or was changed.
func (l *lab) wantWaiting(names ...string) {
	l.Helper()
	for _, name := range names {
		if l.initialised(name) || len(l.addresses(name)) != 1 {
			l.Errorf("%s is initialised: %q", name, l.addresses(name))
		}
	}
}

// patches counts the patches of Nodes.
func (l *lab) patches() int { return l.api.Asked("PATCH " + l.api.URL + "/api/v1/nodes") }

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

// wantCodes fails unless these are the codes of a Node's findings.
func (l *lab) wantCodes(name string, want ...Code) {
	l.Helper()
	var codes []Code
	for _, f := range l.report().Findings {
		if f.Node == name {
			codes = append(codes, f.Code)
		}
	}
	if !slices.Equal(codes, want) {
		l.Errorf("the findings of %s are %v, want %v", name, codes, want)
	}
}

// names returns worker-0 and so on.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("worker-%03d", i))
	}
	return all
}
