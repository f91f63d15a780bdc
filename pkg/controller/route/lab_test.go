package route

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// lab is an API server, a cloud and a controller, in a bubble of synctest.
type lab struct {
	*testing.T
	api     *apitest.Server
	fleet   *cloudtest.Fleet
	cloud   *cloudtest.Routes
	options Options
	replica

	mu     sync.Mutex
	events []controller.Event
}

// replica is one process.
type replica struct {
	engine *controller.Engine
	c      *Controller
	stop   func()
	lead   context.CancelFunc
	led    chan bool
}

// inLab runs a test with two tables.
func inLab(t *testing.T, test func(l *lab), more ...func(*Options)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{T: t, api: apitest.InProcess(t), fleet: cloudtest.NewFleet()}
		l.api.Gives, l.api.Serves["api/v1/configmaps"] = nil, "ConfigMap"
		l.cloud = cloudtest.NewRoutes(l.fleet, "rtb-a", "rtb-b")
		client, err := kube.NewClient(kube.Options{Server: l.api.URL, Name: "test"})
		if err != nil {
			t.Fatal(err)
		}
		client.Wrap(func(http.RoundTripper) http.RoundTripper { return l.api.Transport() })
		l.options = Options{
			Cloud: l.cloud, Nodes: Cluster{client}, Ledger: ConfigMap{client, "kube-system", "tulle-controller-routes"},
			Period: time.Minute, Grace: 5 * time.Minute,
		}
		for _, f := range more {
			f(&l.options)
		}
		l.replica = l.start()
		test(l)
		l.end()
	})
}

// start runs a process.
func (l *lab) start() replica {
	ctx, cancel := context.WithCancel(context.Background())
	r := replica{led: make(chan bool, 1), lead: func() {}}
	mode := controller.WriteMode
	if l.options.DryRun {
		mode = controller.ObserveMode
	}
	r.engine = controller.New(controller.Options{Mode: mode, WriteTimeout: 5 * time.Second, Send: l.send})
	o := l.options
	o.Event = r.engine.Event
	r.c = New(r.engine, o)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.engine.Run(ctx)
	}()
	r.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
	})
	l.Cleanup(r.stop)
	return r
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
	r := l.replica
	l.lead = cancel
	go func() { r.led <- r.engine.Lead(ctx, election.Term{}) }()
	l.pass(100 * time.Millisecond)
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

// crash ends the process in the middle of everything, and starts another one.
func (l *lab) crash() {
	l.lead()
	l.stop()
	l.replica = l.start()
	l.begin()
}

// pass lets time pass.
func (l *lab) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// add adds the i-th Node, with its instance.
func (l *lab) add(i int, f ...func(*corev1.Node)) {
	name := nameOf(i)
	id := l.fleet.Launch(name, func(i *cloud.Instance) { i.Forwards = true })
	n := apitest.SmallNode(1)
	n.Name, n.UID, n.ResourceVersion = name, types.UID("uid-"+name), ""
	n.CreationTimestamp = metav1.NewTime(time.Unix(1_700_000_000+int64(i), 0))
	n.Spec.ProviderID, n.Spec.PodCIDR, n.Annotations = id, cidrOf(i), nil
	n.Spec.PodCIDRs = []string{cidrOf(i)}
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: "NetworkUnavailable", Status: "True", Reason: "NoRouteCreated"})
	for _, f := range f {
		f(n)
	}
	l.api.Do(func() { l.api.Change("ADDED", n) })
}

func nameOf(i int) string { return fmt.Sprintf("worker-%d", i) }

func cidrOf(i int) string { return fmt.Sprintf("10.4.%d.0/24", i) }

// remove deletes a Node.
func (l *lab) remove(i int) {
	n := l.api.Node(nameOf(i)).DeepCopy()
	l.api.Do(func() { l.api.Change("DELETED", n) })
}

// condition returns the status and the reason of a Node's condition.
func (l *lab) condition(i int) string {
	for _, c := range l.api.Node(nameOf(i)).Status.Conditions {
		if c.Type == "NetworkUnavailable" {
			return string(c.Status) + " " + c.Reason
		}
	}
	return ""
}

const (
	routed   = "False RouteCreated"
	unrouted = "True NoRouteCreated"
)

// wantRouted fails unless Nodes are routed in both tables, and know it.
func (l *lab) wantRouted(nodes ...int) {
	l.Helper()
	for _, i := range nodes {
		for _, id := range []string{"rtb-a", "rtb-b"} {
			if got := l.cloud.Targets(id)[cidrOf(i)]; got != "nic-"+nameOf(i) {
				l.Errorf("%s: %s leads to %q", id, cidrOf(i), got)
			}
		}
		if got := l.condition(i); got != routed {
			l.Errorf("%s: %s", nameOf(i), got)
		}
	}
}

// wantCondition fails unless a Node has a condition.
func (l *lab) wantCondition(i int, want string) {
	l.Helper()
	if got := l.condition(i); got != want {
		l.Errorf("%s: %q, want %q", nameOf(i), got, want)
	}
}

// wantEvent fails unless a Node has an event with these parts.
func (l *lab) wantEvent(i int, parts ...string) {
	l.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var text string
	for _, e := range l.events {
		if e.Object.Name == nameOf(i) && e.Reason == "FailedToCreateRoute" && e.Warning {
			text += e.Message + "\n"
		}
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			l.Errorf("%s: the events %q lack %q", nameOf(i), text, p)
		}
	}
}

// entries returns the ledger.
func (l *lab) entries() map[string]string {
	all := make(map[string]string)
	if object := l.api.Object("api/v1/namespaces/kube-system/configmaps/tulle-controller-routes"); object != nil {
		data, _ := object["data"].(map[string]any)
		for key, text := range data {
			all[key] = text.(string)
		}
	}
	return all
}

// report returns what the controller knows.
func (l *lab) report() (r Report) {
	l.Helper()
	if !l.engine.Do(l.Context(), func() { r = l.c.Report() }) {
		l.Fatal("the loop does not answer")
	}
	return r
}

// wantExplained fails if the cloud has a route to an instance that neither a Node needs
// nor the ledger has, except for those of others.
func (l *lab) wantExplained(others ...string) {
	l.Helper()
	known := l.entries()
	for _, id := range []string{"rtb-a", "rtb-b"} {
		routes := l.cloud.Targets(id)
		for _, p := range others {
			delete(routes, p)
		}
		for p, target := range maps.All(routes) {
			if text := known[strings.NewReplacer(":", "-", "/", "_").Replace(p)]; !strings.Contains(text, id+" ") || !strings.Contains(text, target) {
				l.Errorf("%s: %s leads to %s, and the ledger has %q", id, p, target, text)
			}
		}
	}
}
