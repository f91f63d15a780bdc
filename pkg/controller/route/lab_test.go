package route

import (
	"cmp"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// lab is an API server, a cloud and a controller.
type lab struct {
	*labtest.Lab
	fleet   *cloudtest.Fleet
	cloud   *cloudtest.Routes
	options Options
	room    int         // of a part of the ledger; 0 is partRoom
	opened  *ConfigMaps // by the last replica
	c       *Controller // of the last replica
}

// inLab runs a test with two tables.
func inLab(t *testing.T, test func(l *lab), more ...func(*Options)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		l := &lab{Lab: in, fleet: cloudtest.NewFleet()}
		l.API.Serves["api/v1/configmaps"] = "ConfigMap"
		l.Settle = 100 * time.Millisecond
		l.cloud = cloudtest.NewRoutes(l.fleet, "rtb-a", "rtb-b")
		l.options = Options{
			Cloud: l.cloud, Nodes: Cluster{l.Client},
			Period: time.Minute, Grace: 5 * time.Minute, Forwarding: cloud.Forwarding{Setting: "the source/destination check"},
		}
		for _, f := range more {
			f(&l.options)
		}
		l.start()
		test(l)
	})
}

// start starts a replica.
func (l *lab) start() {
	var mode controller.Mode
	if l.options.DryRun {
		mode = controller.ObserveMode
	}
	l.Start(controller.Options{Mode: mode}, func(e *controller.Engine) {
		o := l.options
		l.opened = l.ledger()
		o.Event, o.Ledger = e.Event, l.opened
		l.c = New(e, o)
	})
}

// crash stops the replica at once, without its clean-up, and starts another one.
func (l *lab) crash() {
	l.Kill()
	l.start()
	l.Begin()
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
	l.AddNode(n, f...)
}

func nameOf(i int) string { return fmt.Sprintf("worker-%d", i) }

func cidrOf(i int) string { return fmt.Sprintf("10.4.%d.0/24", i) }

// remove deletes a Node.
func (l *lab) remove(i int) { l.RemoveNode(nameOf(i)) }

// wantEvent fails unless the warnings about a Node's failed routes contain all parts.
func (l *lab) wantEvent(i int, parts ...string) {
	l.Helper()
	l.WantWarning(nameOf(i), "FailedToCreateRoute", parts...)
}

const (
	routed   = "False RouteCreated"
	unrouted = "True NoRouteCreated"
)

// wantRouted fails unless Nodes are routed in both tables, and their conditions say so.
func (l *lab) wantRouted(nodes ...int) {
	l.Helper()
	for _, i := range nodes {
		for _, id := range []string{"rtb-a", "rtb-b"} {
			if got := l.cloud.Targets(id)[cidrOf(i)]; got != "nic-"+nameOf(i) {
				l.Errorf("%s: %s leads to %q", id, cidrOf(i), got)
			}
		}
		if got := l.Unavailable(nameOf(i)); got != routed {
			l.Errorf("%s: %s", nameOf(i), got)
		}
	}
}

// wantCondition fails unless a Node has a condition.
func (l *lab) wantCondition(i int, want string) {
	l.Helper()
	if got := l.Unavailable(nameOf(i)); got != want {
		l.Errorf("%s: %q, want %q", nameOf(i), got, want)
	}
}

// ledger returns the ledger of one replica.
func (l *lab) ledger() *ConfigMaps {
	of := NewConfigMaps(l.Client, "kube-system", "tulle-controller-routes")
	of.room = cmp.Or(l.room, of.room)
	return of
}

// limit sets the room of the ledger's parts. Call it before Begin.
func (l *lab) limit(room int) { l.room, l.opened.room = room, room }

// entries returns the ledger's lines, by destination and from all parts.
func (l *lab) entries() map[string]string {
	all := make(map[string]string)
	for _, part := range partsOf(l.Lab) {
		for key, text := range part {
			all[key] += text
		}
	}
	return all
}

// partsOf returns the ConfigMaps of the ledger.
func partsOf(l *labtest.Lab) (all []map[string]string) {
	name := "api/v1/namespaces/kube-system/configmaps/tulle-controller-routes"
	for i := 0; ; i++ {
		if i > 0 {
			name = fmt.Sprintf("api/v1/namespaces/kube-system/configmaps/tulle-controller-routes-%d", i)
		}
		object := l.API.Object(name)
		if object == nil {
			return all
		}
		part := make(map[string]string)
		data, _ := object["data"].(map[string]any)
		for key, text := range data {
			part[key] = text.(string)
		}
		all = append(all, part)
	}
}

// report returns the controller's Report.
func (l *lab) report() (r Report) {
	l.Helper()
	l.Do(func() { r = l.c.Report() })
	return r
}

// wantExplained fails if the cloud has a route to an instance that no Node needs and the ledger
// does not have. It ignores the routes of others.
func (l *lab) wantExplained(others ...string) {
	l.Helper()
	known := l.entries()
	for _, id := range []string{"rtb-a", "rtb-b"} {
		routes := l.cloud.Targets(id)
		for _, p := range others {
			delete(routes, p)
		}
		for p, target := range maps.All(routes) {
			if text := known[ledgerKey(p)]; !strings.Contains(text, id+" ") || !strings.Contains(text, target) {
				l.Errorf("%s: %s leads to %s, and the ledger has %q", id, p, target, text)
			}
		}
	}
}

// wantNoted fails if the ledger does not have the route that a change writes.
func (l *lab) wantNoted(c cloud.RouteChange) {
	if text := l.entries()[ledgerKey(c.Destination.String())]; !strings.Contains(text, c.Table+" ") || !strings.Contains(text, c.Interface) {
		l.Errorf("%s is being made, and the ledger has %q", c, text)
	}
}

// ledgerKey returns the key of a destination in the ledger.
func ledgerKey(destination string) string {
	return strings.NewReplacer(":", "-", "/", "_").Replace(destination)
}
