package service

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// lab is an API server, a cloud and a controller.
type lab struct {
	*labtest.Lab
	fleet   *cloudtest.Fleet
	cloud   *cloudtest.Balancers
	options Options
	c       *Controller // of the last replica
}

// inLab runs a test with two Nodes.
func inLab(t *testing.T, test func(l *lab), more ...func(*Options)) {
	t.Helper()
	labtest.Run(t, func(in *labtest.Lab) {
		l := &lab{Lab: in, fleet: cloudtest.NewFleet()}
		l.API.Serves[Services] = "Service"
		l.cloud = cloudtest.NewBalancers(l.fleet, "prod")
		l.options = Options{
			Client: l.Client, Cloud: l.cloud, Period: 10 * time.Minute,
			Rules: cloudbalancer.Options{Cluster: "prod", Class: "tulle.net/nlb", Default: true, NodeRules: true},
		}
		for _, f := range more {
			f(&l.options)
		}
		l.node(1)
		l.node(2)
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
		o.Event = e.Event
		l.c = New(e, o)
	})
}

// crash ends the replica in the middle of everything, and starts another one.
func (l *lab) crash() {
	l.Kill()
	l.start()
	l.Begin()
}

func nameOf(i int) string { return fmt.Sprintf("worker-%d", i) }

// node adds the i-th Node, with its instance.
func (l *lab) node(i int, f ...func(*corev1.Node)) {
	name := nameOf(i)
	id := l.fleet.Launch(name, func(i *cloud.Instance) { i.Groups = []string{cloudtest.NodeGroup} })
	n := apitest.SmallNode(1)
	n.Name, n.UID, n.ResourceVersion, n.Spec.ProviderID = name, types.UID("uid-"+name), "", id
	l.AddNode(n, f...)
}

func path(name string) string { return "api/v1/namespaces/default/services/" + name }

func uidOf(name string) string { return "uid-0000-" + name }

// add creates a Service, changed by functions.
func (l *lab) add(name string, f ...func(document map[string]any)) {
	d := map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": name, "namespace": "default", "uid": uidOf(name), "annotations": map[string]any{cloudbalancer.TypeAnnotation: "nlb"}},
		"spec": map[string]any{
			"type": "LoadBalancer", "ports": []any{map[string]any{"name": "http", "protocol": "TCP", "port": int64(80), "nodePort": int64(30080)}},
		},
	}
	for _, change := range f {
		change(d)
	}
	l.put("ADDED", name, d)
}

// put writes a Service.
func (l *lab) put(kind, name string, d map[string]any) {
	l.API.Do(func() { l.API.ChangeObject(kind, path(name), d) })
}

// change changes a Service, as people do.
func (l *lab) change(name string, f func(document map[string]any)) {
	d := l.API.Object(path(name))
	f(d)
	l.put("MODIFIED", name, d)
}

// delete deletes a Service, as people do.
func (l *lab) delete(name string) {
	d := l.API.Object(path(name))
	meta := d["metadata"].(map[string]any)
	if all, _ := meta["finalizers"].([]any); len(all) == 0 {
		l.put("DELETED", name, d)
		return
	}
	meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
	l.put("MODIFIED", name, d)
}

// annotate returns a function that sets an annotation.
func annotate(name, value string) func(map[string]any) {
	return func(d map[string]any) {
		d["metadata"].(map[string]any)["annotations"].(map[string]any)[cloudbalancer.Prefix+name] = value
	}
}

// host returns the host names of a Service's status.
func (l *lab) host(name string) string {
	d := l.API.Object(path(name))
	status, _ := d["status"].(map[string]any)
	balancer, _ := status["loadBalancer"].(map[string]any)
	ingress, _ := balancer["ingress"].([]any)
	var all []string
	for _, i := range ingress {
		all = append(all, fmt.Sprint(i.(map[string]any)["hostname"]))
	}
	return strings.Join(all, ",")
}

// finalized reports whether a Service has our finalizer.
func (l *lab) finalized(name string) bool {
	meta, _ := l.API.Object(path(name))["metadata"].(map[string]any)
	all, _ := meta["finalizers"].([]any)
	return slices.Contains(all, any(Finalizer))
}

// wantBalanced fails unless a Service has a balancer with these Nodes as targets.
func (l *lab) wantBalanced(name string, nodes ...int) {
	l.Helper()
	balancer := cloudbalancer.BalancerName(uidOf(name))
	if host := l.host(name); !strings.HasPrefix(host, balancer) {
		l.Errorf("%s: host %q", name, host)
	}
	if !l.finalized(name) {
		l.Errorf("%s: no finalizer", name)
	}
	var want []string
	for _, i := range nodes {
		want = append(want, "i-"+nameOf(i))
	}
	if got := l.cloud.Targets(balancer, 80); !slices.Equal(got, want) {
		l.Errorf("%s: targets %v, want %v", name, got, want)
	}
}

// wantNothing fails if the cloud has anything but the security group of Nodes.
func (l *lab) wantNothing() {
	l.Helper()
	all := l.cloud.All()
	if len(all.Balancers)+len(all.Groups) > 0 || len(all.Security) != 1 || len(all.Security[0].Rules) > 0 {
		l.Errorf("left: %+v", all)
	}
}

// verbs counts the changes since an earlier number of them.
func (l *lab) verbs(since int) map[cloud.BalancerVerb]int {
	all := make(map[cloud.BalancerVerb]int)
	for _, c := range l.cloud.Changes()[since:] {
		all[c.Verb]++
	}
	return all
}
