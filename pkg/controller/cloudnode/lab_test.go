package cloudnode

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
)

const (
	// latency is the duration of a request to the cloud.
	latency = 100 * time.Millisecond
	// refresh is the time between two comparisons of all Nodes.
	refresh = time.Hour
	// zoneLabel is the cloud's own label.
	zoneLabel = "topology.fake.example/zone-id"
	// layer is what the cloud's labels of network nodes begin with.
	layer = "topology.fake.example/network-node-layer-"
)

// lab is an API server, a cloud and a controller.
type lab struct {
	*labtest.Lab
	cloud *cloudtest.Fleet
	c     *Controller
}

// inLab runs a test with a controller.
func inLab(t *testing.T, test func(l *lab)) {
	t.Helper()
	inLabAs(t, controller.WriteMode, test)
}

func inLabAs(t *testing.T, mode controller.Mode, test func(l *lab)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		l := &lab{Lab: in, cloud: cloudtest.NewFleet()}
		l.cloud.Latency = latency
		l.Start(controller.Options{Mode: mode}, func(e *controller.Engine) {
			l.c = New(e, Options{Client: l.Client, Cloud: l.cloud, Refresh: refresh, ZoneID: zoneLabel, Topology: l.cloud, Layer: layer, Event: e.Event})
		})
		test(l)
	})
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
	l.AddNode(n, f...)
}

// add launches an instance, and registers its Node.
func (l *lab) add(names ...string) {
	for _, name := range names {
		l.cloud.Launch(name)
		l.register(name)
	}
}

func withID(id string) func(*corev1.Node) { return func(n *corev1.Node) { n.Spec.ProviderID = id } }

func withIP(text string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Annotations = map[string]string{ProvidedIP: text} }
}

// initialised reports whether a Node's taint is removed.
func (l *lab) initialised(name string) bool {
	return !slices.ContainsFunc(l.API.Node(name).Spec.Taints, func(t corev1.Taint) bool { return t.Key == Taint })
}

// addresses returns a Node's addresses.
func (l *lab) addresses(name string) (all []string) {
	for _, a := range l.API.Node(name).Status.Addresses {
		all = append(all, fmt.Sprintf("%s=%s", a.Type, a.Address))
	}
	return all
}

// want fails unless a Node is initialised with all facts of its instance.
func (l *lab) want(name string) {
	l.Helper()
	n := l.API.Node(name)
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

// report returns the controller's Report.
func (l *lab) report() (r Report) {
	l.Helper()
	l.Do(func() { r = l.c.Report(time.Now()) })
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
