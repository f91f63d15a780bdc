//go:build kube

package kube

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
	"github.com/tulle-net/tulle/subnet/storetest"
)

func TestMain(m *testing.M) {
	etcdtest.Main()
	if os.Getenv(scaleVariable) != "" {
		os.Exit(m.Run())
	}
	goleak.VerifyTestMain(m)
}

// rules are what a daemon may do, and no more.
var rules = []kubetest.Rule{
	{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
	{APIGroups: []string{""}, Resources: []string{"nodes/status"}, Verbs: []string{"patch"}},
}

// newServerLab returns a lab with a real control plane.
func newServerLab(t *testing.T, c *kubetest.Cluster, kubeconfig string) *lab {
	l := newLab(t, c.URL, c.Client(), Options{Kubeconfig: kubeconfig})
	t.Cleanup(func() {
		c.Do(http.MethodDelete, "/api/v1/nodes", nil, nil) // deletes all of them
		c.Client().CloseIdleConnections()
	})
	return l
}

// TestServerConformance runs the suite on a real control plane. The controller
// manager gives the podCIDRs. It runs with streamed lists and without.
func TestServerConformance(t *testing.T) {
	for _, streams := range []bool{true, false} {
		t.Run(fmt.Sprintf("streaming %t", streams), func(t *testing.T) {
			c := kubetest.Start(t, kubetest.Options{
				ClusterCIDRs: []string{"10.5.0.0/24", "fd00:5::/56"}, MaskIPv4: 30,
				Flags: []string{fmt.Sprintf("--feature-gates=WatchList=%t", streams)},
			})
			kubeconfig := c.ServiceAccount("kube-system", "tulle", rules...)
			storetest.RunGiven(t, func(t *testing.T) storetest.Store { return newServerLab(t, c, kubeconfig) })
		})
	}
}

// TestServerFaults: a real control plane is killed, away for long, and edited by
// hand.
func TestServerFaults(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{ClusterCIDRs: []string{"10.5.0.0/16"}})
	l := newServerLab(t, c, c.ServiceAccount("kube-system", "tulle", rules...))
	l.SetConfig(network)
	l.create("node-1")
	own, ended := l.leased(1)
	s := l.watch("node-1")
	s.await(t, "leased", func() bool { return s.leases[own.Key()].Attrs == own.Attrs })

	// Killed and restarted: no lease disappears, and changes made meanwhile are seen.
	c.Kill()
	l.failing("node-1", "watching the Nodes", "nothing listens")
	c.Restart()
	l.create("node-2")
	other, _ := l.leased(2)
	s.await(t, "both", func() bool { return s.leases[other.Key()].Attrs == other.Attrs && len(s.leases) == 2 })
	l.failing("node-1", "watching the Nodes")
	// If the server forgot the last change, all Nodes are listed again.
	if s.least != 1 {
		t.Errorf("%d leases at the least", s.least)
	}

	// Away for longer than its history.
	c.Kill()
	c.Etcd.Compact()
	c.Restart()
	l.set("node-2", "public-ip", "garbled")
	s.await(t, "both, listed again or not", func() bool { return len(s.leases) == 2 && s.leases[other.Key()].Attrs == other.Attrs })

	// Garbled annotations are restored, and those of other people stay.
	l.set("node-1", "other", "x")
	l.set("node-1", "backend-data", "{")
	kerneltest.Eventually(t, 10*time.Second, func() error {
		n := l.node("node-1")
		if n[prefix+"/backend-data"] != own.BackendData[subnet.IPv4] || n[prefix+"/other"] != "x" {
			return fmt.Errorf("%v", n)
		}
		return nil
	})

	// Deleted and registered again: the controller manager gives another podCIDR.
	l.remove("node-1")
	l.failing("node-1", holding, "Node node-1 is gone")
	l.create("node-3") // which may get the free one
	l.create("node-1", "10.5.77.0/24")
	if err := receive(t, ended); err == nil {
		t.Error("the podCIDR is another, and Hold goes on")
	}
	again, _ := l.leased(1)
	if again.Subnets[subnet.IPv4] != netip.MustParsePrefix("10.5.77.0/24") {
		t.Errorf("acquired %s", again.Key())
	}
}

// TestServerRestoredFromBackup: after etcd is restored from a backup, all Nodes are
// listed again. A watch would get nothing of its revisions, which are in the past.
func TestServerRestoredFromBackup(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	l := newServerLab(t, c, c.ServiceAccount("kube-system", "tulle", rules...))
	l.SetConfig(network)
	l.create("node-1", "10.5.1.0/24")
	own, _ := l.leased(1)
	s := l.watch("node-1")
	s.await(t, "leased", func() bool { return s.leases[own.Key()].Attrs == own.Attrs })
	c.Kill()
	backup := c.Etcd.Snapshot()
	c.Restart()
	l.create("node-2", "10.5.2.0/24")
	for i := range 500 { // more than a starting server writes
		l.set("node-2", "other", fmt.Sprint(i))
	}
	other, _ := l.leased(2)
	s.await(t, "both", func() bool { return len(s.leases) == 2 })

	c.Kill()
	c.Etcd.Restore(backup)
	c.Restart()
	l.failing("node-2", holding, "Node node-2 is gone")
	s.await(t, "one gone", func() bool { return len(s.leases) == 1 && s.leases[own.Key()].Attrs == own.Attrs })
	l.create("node-2", "10.5.2.0/24")
	s.await(t, "both", func() bool { return s.leases[other.Key()].Attrs == other.Attrs })
	l.set("node-1", "backend-data", "{")
	kerneltest.Eventually(t, 10*time.Second, func() error {
		if n := l.node("node-1"); n[prefix+"/backend-data"] != own.BackendData[subnet.IPv4] {
			return fmt.Errorf("%v", n)
		}
		return nil
	})
}

// TestServerRefusedWritesAreReported: a role that may not write is reported as the cause. A later role
// suffices.
func TestServerRefusedWritesAreReported(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{ClusterCIDRs: []string{"10.5.0.0/16"}})
	l := newServerLab(t, c, c.ServiceAccount("kube-system", "tulle", rules[0]))
	l.SetConfig(network)
	l.create("node-1")
	got := l.acquire(claim(1))
	l.failing("node-1", "patching Node node-1", "does not allow it", "nodes/status")
	c.Do(http.MethodPatch, "/apis/rbac.authorization.k8s.io/v1/clusterroles/tulle", map[string]any{"rules": rules}, nil)
	if a := receive(t, got); a.err != nil {
		t.Error(a.err)
	}
	if _, err := l.store("node-1").patch(t.Context(), "node-1", kube.MergePatch, []byte(`{"metadata":{"uid":"another","annotations":{"x":"y"}}}`)); !kube.Moved(err) {
		t.Errorf("a patch of another Node of the same name: %v", err)
	}
}

// node returns a Node's annotations.
func (l *lab) node(name string) map[string]string {
	l.t.Helper()
	_, text := l.call(http.MethodGet, "/"+name, "application/json", nil)
	var n struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(text, &n); err != nil {
		l.t.Error(err)
	}
	return n.Metadata.Annotations
}

// TestServerConditionAndEvents writes and reads a Node's condition and events.
func TestServerConditionAndEvents(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{})
	l := newServerLab(t, c, c.ServiceAccount("kube-system", "tulle", append(rules,
		kubetest.Rule{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}})...))
	l.create("node-1")
	s := l.store("node-1")
	for _, want := range []Condition{Up, {Unavailable: true, Reason: "NoLease", Message: "no subnet"}, Up} {
		var revisions []string
		for range 2 {
			if err := s.SetNetworkUnavailable(t.Context(), want); err != nil {
				t.Fatal(err)
			}
			var n corev1.Node
			c.Do(http.MethodGet, "/api/v1/nodes/node-1", nil, &n)
			if len(n.Status.Conditions) != 1 || string(n.Status.Conditions[0].Type) != kube.NetworkUnavailable ||
				(n.Status.Conditions[0].Status == corev1.ConditionTrue) != want.Unavailable || n.Status.Conditions[0].Reason != want.Reason {
				t.Errorf("%+v", n.Status.Conditions)
			}
			revisions = append(revisions, n.ResourceVersion)
		}
		if revisions[0] != revisions[1] {
			t.Error("what stood there already was written")
		}
	}
	if err := s.Event(t.Context(), true, "SubnetLost", "another has it"); err != nil {
		t.Fatal(err)
	}
	var events corev1.EventList
	c.Do(http.MethodGet, "/api/v1/namespaces/default/events", nil, &events)
	if len(events.Items) != 1 || events.Items[0].Reason != "SubnetLost" || events.Items[0].Type != corev1.EventTypeWarning || events.Items[0].InvolvedObject.Name != "node-1" {
		t.Errorf("%+v", events.Items)
	}
}
