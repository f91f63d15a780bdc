package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/controller/clustercidr"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
)

// multi are flags with which podCIDRs come from ClusterCIDRs, and those of other Nodes
// from a range of the flags.
var multi = []string{"--cidr-allocator-type=MultiCIDRRangeAllocator", "--leader-elect=false", "--node-cidr-rest=0"}

// newClusterCIDRs returns an API server with the resource.
func newClusterCIDRs(t testing.TB) cluster {
	c := newCluster(t)
	c.Serves[kube.ClusterCIDRs] = "ClusterCIDR"
	return c
}

// pool creates a ClusterCIDR of /24s for the Nodes that have a label; "" is all Nodes.
func (c cluster) pool(name, ipv4, label string) {
	c.t.Helper()
	o := kube.ClusterCIDR{Metadata: kube.Meta{Name: name}, Spec: kube.ClusterCIDRSpec{PerNodeHostBits: 8, IPv4: ipv4}}
	if label != "" {
		o.Spec.NodeSelector = &kube.NodeSelector{Terms: []kube.NodeSelectorTerm{{Labels: []kube.Requirement{{Key: label, Operator: "Exists"}}}}}
	}
	if err := kube.Create(c.t.Context(), c.client(), kube.ClusterCIDRs, kube.ClusterCIDRFormat, &o); err != nil {
		c.t.Fatal(err)
	}
}

// client returns a client of the cluster, as an admin has it.
func (c cluster) client() *kube.Client {
	c.t.Helper()
	client, err := kube.NewClient(kube.Options{Server: c.URL})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return client
}

// remove deletes an object.
func (c cluster) remove(resource, name string) {
	c.t.Helper()
	if err := c.client().Delete(c.t.Context(), kube.Path(resource, name), kube.Version{}); err != nil {
		c.t.Fatal(err)
	}
}

// node creates a Node with labels.
func (c cluster) node(name string, labels ...string) {
	c.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: make(map[string]string)}}
	for _, label := range labels {
		n.Labels[label] = "true"
	}
	client := c.Client()
	defer client.CloseIdleConnections()
	c.post(client, n)
}

// wantCIDR waits until a Node has a podCIDR.
func (c cluster) wantCIDR(name, cidr string) {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() error {
		if has := c.Node(name).Spec.PodCIDRs; !slices.Equal(has, []string{cidr}) {
			return fmt.Errorf("%s has %q, want %s", name, has, cidr)
		}
		return nil
	})
}

// finalizers returns those of a ClusterCIDR. is reports whether it exists.
func (c cluster) finalizers(name string) (all []any, is bool) {
	o := c.Object(kube.Path(kube.ClusterCIDRs, name))
	if o == nil {
		return nil, false
	}
	all, _ = o["metadata"].(map[string]any)["finalizers"].([]any)
	return all, true
}

func (c cluster) wantFinalizer(name string) {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() error {
		if all, _ := c.finalizers(name); !slices.Contains(all, any(clustercidr.Finalizer)) {
			return fmt.Errorf("%s has the finalizers %q", name, all)
		}
		return nil
	})
}

// wantGone waits until a ClusterCIDR does not exist.
func (c cluster) wantGone(name string) {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() error {
		if all, is := c.finalizers(name); is {
			return fmt.Errorf("%s has the finalizers %q", name, all)
		}
		return nil
	})
}

// A Node gets podCIDRs of the ClusterCIDR that selects it, whichever is created first.
// If none does, it gets them from the range of the flags.
func TestPodCIDRsComeFromClusterCIDRs(t *testing.T) {
	c := newClusterCIDRs(t)
	c.pool("early", "10.1.0.0/16", "early")
	c.node("a", "early")
	c.start(multi...)
	c.wantCIDR("a", "10.1.0.0/24")
	c.wantFinalizer("early")
	c.node("b")
	c.wantCIDR("b", "10.64.0.0/24")
	c.pool("late", "10.2.0.0/16", "late")
	c.wantFinalizer("late")
	c.node("c", "late")
	c.wantCIDR("c", "10.2.0.0/24")
}

// Without a range in the flags, a Node waits until a ClusterCIDR selects it, or until
// its labels change.
func TestNodesWaitForAClusterCIDR(t *testing.T) {
	c := newClusterCIDRs(t)
	p, err := settingsOf(t, append([]string{"--master=" + c.URL, "--allocate-node-cidrs", "--healthz-port=0"}, multi...)...).connect()
	if err != nil {
		t.Fatal(err)
	}
	c.run(p)
	c.node("a", "x")
	c.node("b", "y")
	if text := c.wantEvent("a", "CIDRNotAvailable"); !strings.Contains(text, "no pool selects the Node") {
		t.Error(text)
	}
	c.pool("x", "10.1.0.0/16", "x")
	c.wantCIDR("a", "10.1.0.0/24")
	c.Do(func() {
		b := c.Nodes["b"].DeepCopy()
		b.Labels["x"] = "true"
		c.Change("MODIFIED", b)
	})
	c.wantCIDR("b", "10.1.1.0/24")
}

// A ClusterCIDR that is deleted gives nothing, and exists as long as a Node uses it,
// also one that a finalizer keeps. Nodes that it selects fall to the next.
func TestDeletedClusterCIDRStaysForItsNodes(t *testing.T) {
	c := newClusterCIDRs(t)
	c.pool("old", "10.1.0.0/16", "x")
	r := c.start(multi...)
	c.node("a", "x")
	c.wantCIDR("a", "10.1.0.0/24")
	c.wantFinalizer("old")
	c.remove(kube.ClusterCIDRs, "old")
	kerneltest.Eventually(t, patience, func() error {
		for _, u := range r.read(t.Context()).ipam.Pools {
			if u.Pool == "clustercidr/old" && u.Draining > 0 {
				return nil
			}
		}
		return errors.New("the deletion is not known")
	})
	c.node("b", "x")
	c.wantCIDR("b", "10.64.0.0/24")
	c.Do(func() {
		a := c.Nodes["a"].DeepCopy()
		a.Finalizers = []string{"example.org/kept"}
		c.Change("MODIFIED", a)
	})
	c.remove(kube.Nodes, "a")
	c.node("c", "x")
	c.wantCIDR("c", "10.64.1.0/24") // what happened before is known by now
	if _, is := c.finalizers("old"); !is {
		t.Fatal("it is gone, and a Node uses it")
	}
	c.Do(func() {
		a := c.Nodes["a"].DeepCopy()
		a.Finalizers = nil
		c.Change("DELETED", a)
	})
	c.wantGone("old")
}

// A ClusterCIDR that no Node uses is gone at once.
func TestUnusedClusterCIDRIsGoneAtOnce(t *testing.T) {
	c := newClusterCIDRs(t)
	c.pool("a", "10.1.0.0/16", "")
	c.start(multi...)
	c.wantFinalizer("a")
	c.remove(kube.ClusterCIDRs, "a")
	c.wantGone("a")
}

// A bad ClusterCIDR ends nothing and takes nothing from others. It gets an event, and a
// line in what people read.
func TestBadClusterCIDREndsNothing(t *testing.T) {
	c := newClusterCIDRs(t)
	for name, spec := range map[string]any{
		"wide": map[string]any{"perNodeHostBits": 20, "ipv4": "10.1.0.0/16"}, "garbage": map[string]any{"perNodeHostBits": "8"}, "list": []any{},
	} {
		c.Do(func() {
			c.ChangeObject("ADDED", kube.Path(kube.ClusterCIDRs, name), map[string]any{"metadata": map[string]any{"name": name}, "spec": spec})
		})
	}
	c.pool("good", "10.2.0.0/16", "")
	c.start(multi...)
	c.node("a")
	c.wantCIDR("a", "10.2.0.0/24") // the smaller pool of the two for all Nodes
	for name, part := range map[string]string{"wide": "perNodeHostBits 20: out of the bounds for 10.1.0.0/16; use 4 to 16", "garbage": "spec cannot be read", "list": "spec cannot be read"} {
		if text := c.wantEvent(name, "PoolInvalid"); !strings.Contains(text, part) {
			t.Errorf("%s: %s", name, text)
		}
		if all, _ := c.finalizers(name); len(all) > 0 {
			t.Errorf("%s has the finalizers %q", name, all)
		}
	}
	var out bytes.Buffer
	if err := settingsOf(t, append([]string{"ipam"}, c.flags(multi...)...)...).ipam(&out); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"clustercidr/good", "ClusterCIDR wide: perNodeHostBits 20", "ClusterCIDR garbage: spec cannot be read"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, out.String())
		}
	}
}

// A server without the resource is no error: the range of the flags works.
func TestServerWithoutClusterCIDRs(t *testing.T) {
	c := newCluster(t)
	r := c.start(multi...)
	c.node("a")
	c.wantCIDR("a", "10.64.0.0/24")
	if p := r.read(t.Context()).ipam.Problems; len(p) != 1 || !strings.Contains(p[0].Text, "CustomResourceDefinition") {
		t.Errorf("%+v", p)
	}
}

// A dry run shows the finalizers, and makes no write.
func TestPlanShowsFinalizers(t *testing.T) {
	c := newClusterCIDRs(t)
	c.pool("a", "10.1.0.0/16", "x")
	c.node("n", "x")
	var out bytes.Buffer
	if err := settingsOf(t, append([]string{"plan"}, c.flags(multi...)...)...).plan(&out); !errors.Is(err, errPending) {
		t.Fatal(err)
	}
	for _, part := range []string{"ClusterCIDR a  add the finalizer", "Node n         set podCIDRs 10.1.0.0/24"} {
		if !strings.Contains(out.String(), part) {
			t.Errorf("%q is not in\n%s", part, out.String())
		}
	}
	if n := c.Asked(http.MethodPatch); n > 0 {
		t.Errorf("%d patches", n)
	}
}

// On a settled cluster of node-ipam-controller there is nothing to write: the
// ClusterCIDRs have their finalizer, and the Nodes their podCIDRs.
func TestMoveFromNodeIPAMControllerWritesNothing(t *testing.T) {
	c := newClusterCIDRs(t)
	c.Do(func() {
		c.ChangeObject("ADDED", kube.Path(kube.ClusterCIDRs, "a"), map[string]any{
			"metadata": map[string]any{"name": "a", "finalizers": []any{clustercidr.Finalizer}},
			"spec":     map[string]any{"perNodeHostBits": 8, "ipv4": "10.1.0.0/16"},
		})
		for i, cidr := range []string{"10.1.0.0/24", "10.1.7.0/24", "10.9.0.0/24"} {
			n := large(i)
			n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
			c.Change("ADDED", n)
		}
	})
	var out bytes.Buffer
	if err := settingsOf(t, append([]string{"plan"}, c.flags(multi...)...)...).plan(&out); err != nil || out.String() != "nothing to write\n" {
		t.Errorf("%v: %s", err, out.String())
	}
}

// The program starts with a dual-stack Node in a range of IPv4 alone, which ends
// node-ipam-controller. Ranges of services go to no Node, and the block of a Node whose
// labels change is free when it has gone.
func TestDualStackNodeOfAnIPv4PoolEndsNothing(t *testing.T) {
	c := newClusterCIDRs(t)
	c.pool("a", "10.1.0.0/22", "x")
	c.Do(func() {
		n := large(0)
		n.Name, n.Spec.PodCIDR, n.Spec.PodCIDRs = "dual", "10.1.1.0/24", []string{"10.1.1.0/24", "fd00::/64"}
		c.Change("ADDED", n)
	})
	c.start(append([]string{"--service-cluster-ip-range=10.1.0.0/24"}, multi...)...)
	if text := c.wantEvent("dual", "CIDRInvalid"); !strings.Contains(text, "fd00::/64: outside every pool") {
		t.Error(text)
	}
	c.node("n", "x")
	c.wantCIDR("n", "10.1.2.0/24")
	c.Do(func() {
		n := c.Nodes["n"].DeepCopy()
		n.Labels = nil
		c.Change("MODIFIED", n)
		c.Change("DELETED", n)
	})
	// Of the four blocks, services have one and the dual-stack Node another.
	c.node("o", "x")
	c.wantCIDR("o", "10.1.2.0/24")
	c.node("p", "x")
	c.wantCIDR("p", "10.1.3.0/24")
}

// A Node that was created after a ClusterCIDR gets blocks of it, even if the program reads
// the Node first.
func TestANodeCanUseAnOlderClusterCIDR(t *testing.T) {
	c := newClusterCIDRs(t)
	c.pool("first", "10.1.0.0/16", "a")
	r := c.start(append([]string{"--cluster-cidr=10.64.0.0/16"}, multi...)...)
	r.await("every Node has its podCIDRs")
	late := make(chan struct{})
	c.Do(func() {
		c.Hold = func(r *http.Request) <-chan struct{} {
			if strings.Contains(r.URL.Path, kube.ClusterCIDRs) && r.URL.Query().Get("watch") != "" {
				return late
			}
			return nil
		}
	})
	c.Cut()
	c.pool("second", "10.2.0.0/16", "b")
	c.node("n", "b")
	c.node("other")
	time.AfterFunc(300*time.Millisecond, func() { close(late) })
	c.wantCIDR("n", "10.2.0.0/24")
	c.wantCIDR("other", "10.64.0.0/24")
}
