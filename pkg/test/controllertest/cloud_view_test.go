//go:build kube

package controllertest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/controller/cloudnode"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
)

// initialisation is what a Node lacks that is not initialised.
const initialisation = " initialisation"

// cloudView follows all Nodes of a cloud. It does not support deletions.
type cloudView struct {
	unrouted bool // the program writes no routes

	mu    sync.Mutex
	nodes map[string]string // what each Node lacks, or ""
	open  int               // the number of incomplete Nodes
	last  time.Time         // when the last Node became complete
	// uninitialised is the number of Nodes that are not initialised. initialised is when
	// the last one became initialised.
	uninitialised int
	initialised   time.Time
	appeared      map[string]time.Time // of each Node that is not initialised
	waits         []time.Duration      // of each that was, until it is initialised
}

// watchCloud makes a view follow the Nodes until the test ends, and returns it.
func (l *lab) watchCloud(v *cloudView) *cloudView {
	l.t.Helper()
	v.nodes, v.appeared = make(map[string]string), make(map[string]time.Time)
	l.follow(v)
	return v
}

// Set implements kube.Sink. A Node is complete when it is initialised and routed.
func (v *cloudView) Set(n *kube.Node) {
	lacks := ""
	for _, t := range n.Taints() {
		if string(t.Key) == cloudnode.Taint {
			lacks = initialisation
		}
	}
	if len(n.ProviderID) == 0 {
		lacks = initialisation
	}
	if string(n.Unavailable.Status) != "False" && !v.unrouted {
		lacks += " routes"
	}
	waits := strings.HasPrefix(lacks, initialisation)
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	was, known := v.nodes[string(n.Name)]
	if was != "" {
		v.open--
	}
	if waited := strings.HasPrefix(was, initialisation); waited && !waits {
		v.uninitialised--
		v.initialised, v.waits = now, append(v.waits, now.Sub(v.appeared[string(n.Name)]))
	} else if waits && !waited {
		v.uninitialised++
		v.appeared[string(n.Name)] = now
	}
	if v.nodes[string(n.Name)] = lacks; lacks != "" {
		v.open++
	} else if was != "" || !known {
		v.last = now
	}
}

// Delete implements kube.Sink.
func (v *cloudView) Delete(*kube.Node) {}

// List implements kube.Sink.
func (v *cloudView) List() kube.List[kube.Node] { return &cloudList{v, make(map[string]bool)} }

// cloudList is a full list while it arrives. It passes each Node on at once.
type cloudList struct {
	*cloudView
	has map[string]bool
}

// Add implements kube.List.
func (l *cloudList) Add(n *kube.Node) bool {
	isNew := !l.has[string(n.Name)]
	l.has[string(n.Name)] = true
	l.Set(n)
	return isNew
}

// Delete implements kube.List.
func (l *cloudList) Delete(n *kube.Node) { delete(l.has, string(n.Name)) }

// Done implements kube.List.
func (l *cloudList) Done() bool { return true }

// registerHomes creates the Nodes of instances as kubelets do, with consecutive
// podCIDRs. It returns the podCIDRs in the order of the instances.
func (l *lab) registerHomes(from int, homes ...home) (cidrs []string) {
	l.t.Helper()
	var nodes []*corev1.Node
	for i, at := range homes {
		i += from
		n := benchNode(i)
		n.Name, n.Spec.ProviderID, n.Labels = at.name, "", map[string]string{"kubernetes.io/hostname": at.name}
		n.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255)
		n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
		n.Spec.Taints = []corev1.Taint{{Key: cloudnode.Taint, Value: "true", Effect: corev1.TaintEffectNoSchedule}}
		n.Status.Conditions = []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionTrue, Reason: "NoRouteCreated"},
		}
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: at.name}}
		nodes, cidrs = append(nodes, n), append(cidrs, n.Spec.PodCIDR)
	}
	l.Register(nil, nodes...)
	return cidrs
}

// known waits until the watch has shown n Nodes.
func (l *lab) known(v *cloudView, n int) {
	l.t.Helper()
	kerneltest.Eventually(l.t, patience, func() error {
		v.mu.Lock()
		defer v.mu.Unlock()
		if len(v.nodes) != n {
			return fmt.Errorf("the watch shows %d Nodes", len(v.nodes))
		}
		return nil
	})
}

// complete waits until n Nodes are initialised and routed, and returns when the last
// one was. It fails the test if the program ends; p is nil without one.
func (l *lab) complete(v *cloudView, n int, p *kerneltest.Process, limit time.Duration) (at time.Time) {
	l.t.Helper()
	kerneltest.Eventually(l.t, limit, func() error {
		if p != nil && p.Over() {
			l.t.Fatalf("the program ended:\n%.20000s", p.Said())
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if at = v.last; len(v.nodes) != n || v.open > 0 {
			for name, lacks := range v.nodes {
				if lacks != "" {
					return fmt.Errorf("%d of %d Nodes are not complete; %s lacks%s", v.open, len(v.nodes), name, lacks)
				}
			}
			return fmt.Errorf("the watch shows %d of %d Nodes", len(v.nodes), n)
		}
		return nil
	})
	return at
}

// agree checks that the table routes each podCIDR to its instance.
func (l *lab) agree(a *cloudAccount, cidrs []string) {
	l.t.Helper()
	routes, err := a.routes()
	if err != nil {
		l.t.Fatal(err)
	}
	for i, cidr := range cidrs {
		if at := a.homes[i]; routes[cidr] != at.id {
			l.t.Errorf("%s of %s leads to %q, not to %s", cidr, at.name, routes[cidr], at.id)
		}
	}
}
