package cloudipam

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
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
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/subnet"
)

// lab is an API server, a cloud and a controller, in a bubble of synctest.
type lab struct {
	*testing.T
	api    *apitest.Server
	cloud  *cloudtest.Cloud
	engine *controller.Engine
	c      *Controller
	lead   context.CancelFunc
	led    chan bool

	mu     sync.Mutex
	events []controller.Event
}

// pool is what FromCluster gives out: eight blocks.
func pool() *ipam.Pool {
	p := ipam.Pool{Name: "cluster-cidr", Grow: "use a larger range"}
	p.Ranges[subnet.IPv4], p.Bits[subnet.IPv4] = []netip.Prefix{netip.MustParsePrefix("10.64.0.0/21")}, 24
	return &p
}

// inLab runs a test with a controller of a mode.
func inLab(t *testing.T, mode Mode, test func(l *lab), more ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, api: apitest.InProcess(t), cloud: cloudtest.New(), led: make(chan bool, 1), lead: func() {}}
		l.api.Gives = nil
		client, err := kube.NewClient(kube.Options{Server: l.api.URL, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		client.Wrap(func(http.RoundTripper) http.RoundTripper { return l.api.Transport() })
		o := Options{Client: client, Cloud: l.cloud, Mode: mode, Families: []subnet.Family{subnet.IPv4}}
		if mode == FromCluster {
			o.Pool, o.Secondary = pool(), cloudtest.Secondary
		}
		for _, f := range more {
			f(&o)
		}
		l.start(o)
		test(l)
		l.end()
	})
}

// start runs an engine with a controller.
func (l *lab) start(o Options) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l.engine = controller.New(controller.Options{Mode: controller.WriteMode, WriteTimeout: 5 * time.Second, Send: l.send})
	o.Event = l.engine.Event
	var err error
	if l.c, err = New(l.engine, o); err != nil {
		l.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		l.engine.Run(ctx)
	}()
	l.Cleanup(func() {
		cancel()
		<-ended
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

// node1 returns a Node of an instance, as a cloud's node controller registers it.
func node1(name string, cidrs ...string) *corev1.Node {
	n := apitest.SmallNode(1)
	n.Name, n.UID, n.ResourceVersion = name, types.UID("uid-"+name), ""
	n.Spec.ProviderID, n.Spec.PodCIDR, n.Spec.PodCIDRs, n.Annotations = cloudtest.ID(name), "", cidrs, nil
	if len(cidrs) > 0 {
		n.Spec.PodCIDR = cidrs[0]
	}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "True", Reason: "NoRouteCreated"})
	return n
}

// add adds a Node, changed by f.
func (l *lab) add(n *corev1.Node, f ...func(*corev1.Node)) {
	for _, f := range f {
		f(n)
	}
	l.api.Do(func() { l.api.Change("ADDED", n) })
}

// change changes a Node.
func (l *lab) change(name string, f func(*corev1.Node)) {
	n := l.api.Node(name).DeepCopy()
	f(n)
	l.api.Do(func() { l.api.Change("MODIFIED", n) })
}

// remove deletes a Node.
func (l *lab) remove(name string) {
	n := l.api.Node(name).DeepCopy()
	l.api.Do(func() { l.api.Change("DELETED", n) })
}

// condition returns the status and the reason of a Node's condition.
func (l *lab) condition(name string) string {
	for _, c := range l.api.Node(name).Status.Conditions {
		if c.Type == "NetworkUnavailable" {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

// want fails unless a Node and its instance have a range, and the Node is routed.
func (l *lab) want(name string, cidrs ...string) {
	l.Helper()
	if got := l.api.Node(name).Spec.PodCIDRs; !slices.Equal(got, cidrs) {
		l.Errorf("%s has %q, want %q", name, got, cidrs)
	}
	if got := l.condition(name); got != "False RouteCreated" {
		l.Errorf("%s: NetworkUnavailable is %s", name, got)
	}
}

// wantNone fails unless a Node has no podCIDRs and waits for its route.
func (l *lab) wantNone(name string) {
	l.Helper()
	if got := l.api.Node(name).Spec.PodCIDRs; len(got) > 0 {
		l.Errorf("%s has %q", name, got)
	}
	if got := l.condition(name); got != "True NoRouteCreated" {
		l.Errorf("%s: NetworkUnavailable is %s", name, got)
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

// report returns what the controller knows. The Nodes that wait are counted again.
func (l *lab) report() (r nodeipam.Report) {
	l.Helper()
	waiting := 0
	ok := l.engine.Do(l.Context(), func() {
		r = l.c.Report(time.Now())
		for _, n := range l.c.nodes {
			if len(n.cidrs) == 0 && !n.deleting {
				waiting++
			}
		}
	})
	if !ok {
		l.Fatal("the loop does not answer")
	}
	if r.Waiting != waiting {
		l.Errorf("%d Nodes wait, and %d are counted", waiting, r.Waiting)
	}
	return r
}

// codes returns the codes of a Node's findings.
func (l *lab) codes(name string) (codes []ipam.Code) {
	l.Helper()
	for _, f := range l.report().Findings {
		if f.Node == name {
			codes = append(codes, f.Code)
		}
	}
	return codes
}

// wantDistinct fails if two Nodes have a block, or a Node has one that its instance
// has not.
func (l *lab) wantDistinct(names ...string) {
	l.Helper()
	owners := make(map[string]string)
	for _, name := range names {
		for _, cidr := range l.api.Node(name).Spec.PodCIDRs {
			if other := owners[cidr]; other != "" {
				l.Errorf("%s and %s have %s", name, other, cidr)
			}
			owners[cidr] = name
			if !slices.Contains(l.cloud.Aliases(name), cidr) {
				l.Errorf("%s has %s, its instance %q", name, cidr, l.cloud.Aliases(name))
			}
		}
	}
}

// names returns worker-0 and so on.
func names(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("worker-%d", i))
	}
	return all
}

// refuse refuses requests of a method.
func refuse(method string, code int32) func(*http.Request) *metav1.Status {
	return func(r *http.Request) *metav1.Status {
		if r.Method != method || strings.HasPrefix(r.URL.Path, "/apis") {
			return nil
		}
		return apitest.Refusal(code, "no")
	}
}

// hold holds requests of a method until a channel is closed.
func hold(method string, until <-chan struct{}) func(*http.Request) <-chan struct{} {
	return func(r *http.Request) <-chan struct{} {
		if r.Method != method {
			return nil
		}
		return until
	}
}

// patches counts the patches of Nodes, or of one, or of its status.
func (l *lab) patches(of string) int {
	return l.api.Asked("PATCH " + l.api.URL + "/api/v1/nodes" + of)
}
