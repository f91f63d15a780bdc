//go:build kubelet

package kubelettest

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// The Deployment's name, and the selector of its pods.
const (
	controllerName     = "tulle-controller"
	controllerSelector = "-n tulle-system -l app.kubernetes.io/name=tulle-controller"
	controllerURL      = "http://127.0.0.1:10264"
)

// controllerManifest is the path of the manifest that users apply.
const controllerManifest = "../../../dist/kubernetes/tulle-controller.yaml"

// readControllerManifest returns the manifest of tulle-controller.
func readControllerManifest(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(controllerManifest)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// awaitController waits until the Deployment is rolled out.
func (k *kubernetes) awaitController() {
	k.t.Helper()
	kerneltest.Run(k.t, k.kubectlCommand("rollout", "status", "-n", tulleNamespace, "deployment/"+controllerName, "--timeout", patience.String()))
}

// controllers returns the Deployment's pods that are not being deleted.
func (k *kubernetes) controllers() []podObject {
	k.t.Helper()
	return slices.DeleteFunc(k.pods(controllerSelector), func(p podObject) bool { return p.Metadata.DeletionTimestamp != "" })
}

// metrics returns the text that a node's replica serves at /metrics.
func (k *kubernetes) metrics(n *node) (string, error) {
	out, err := n.command(k.podProgram, "get", controllerURL+"/metrics").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", n.Name, err, out)
	}
	return string(out), nil
}

// leading reports whether a node's replica is the leader by its own metrics.
func (k *kubernetes) leading(n *node) bool {
	text, err := k.metrics(n)
	return err == nil && strings.Contains(text, "\ntulle_controller_leader 1\n")
}

// leader waits until one replica leads, and returns its node and its pod.
func (k *kubernetes) leader() (n *node, p podObject) {
	k.t.Helper()
	k.eventually(func() error {
		var leaders []*node
		for _, each := range k.nodes {
			if k.leading(each) {
				leaders = append(leaders, each)
			}
		}
		if len(leaders) != 1 {
			return fmt.Errorf("%d replicas lead", len(leaders))
		}
		n = leaders[0]
		all := k.controllers()
		i := slices.IndexFunc(all, func(p podObject) bool { return p.Spec.NodeName == n.Name })
		if i < 0 || containerID(all[i], controllerName) == "" {
			return fmt.Errorf("%s has no replica", n.Name)
		}
		p = all[i]
		return nil
	})
	return n, p
}

// leadership returns the identity in the Lease.
func (k *kubernetes) leadership() string {
	k.t.Helper()
	name, err := k.holder()
	if err != nil {
		k.t.Fatal(err)
	}
	return name
}

// holder does what leadership does, while the API server may not answer.
func (k *kubernetes) holder() (string, error) {
	var lease struct {
		Spec struct{ HolderIdentity string }
	}
	err := k.server.Try(http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tulle-controller", nil, &lease)
	return lease.Spec.HolderIdentity, err
}

// nodeObject is the part of a Node that the tests of tulle-controller read.
type nodeObject struct {
	Metadata struct {
		Name              string
		CreationTimestamp time.Time
	}
	Spec struct {
		PodCIDRs []string
		Taints   []struct{ Key, Effect string }
	}
}

// podCIDRs returns the podCIDRs of a Node.
func (k *kubernetes) podCIDRs(name string) ([]string, error) {
	var n nodeObject
	err := k.tryGet("node "+name, &n)
	return n.Spec.PodCIDRs, err
}

// awaitPodCIDRs waits until a Node has podCIDRs, and returns them.
func (k *kubernetes) awaitPodCIDRs(name string) (cidrs []string) {
	k.t.Helper()
	k.eventually(func() (err error) {
		if cidrs, err = k.podCIDRs(name); err == nil && len(cidrs) == 0 {
			err = fmt.Errorf("%s has no podCIDRs", name)
		}
		return err
	})
	return cidrs
}

// wantDistinct fails the test unless every Node has podCIDRs that no other Node has.
func (k *kubernetes) wantDistinct() {
	k.t.Helper()
	var list struct{ Items []nodeObject }
	k.get("nodes", &list)
	owners := make(map[string]string)
	for _, n := range list.Items {
		if len(n.Spec.PodCIDRs) == 0 {
			k.t.Errorf("%s has no podCIDRs", n.Metadata.Name)
		}
		for _, cidr := range n.Spec.PodCIDRs {
			if other, taken := owners[cidr]; taken {
				k.t.Errorf("%s and %s both have %s", other, n.Metadata.Name, cidr)
			}
			owners[cidr] = n.Metadata.Name
		}
	}
}

// arrivals are Nodes without kubelets, created one after another.
type arrivals struct {
	k    *kubernetes
	name string
	end  chan struct{}
	all  sync.WaitGroup

	mu     sync.Mutex
	waits  []time.Duration // how long each Node waited for podCIDRs
	errors []error
}

// pace is the interval of arrivals. The manifest's range has blocks for 256 Nodes, and
// the blocks of deleted Nodes rest for some time.
const pace = time.Second

// arrive creates Nodes until stop is called. No pod runs on them, because they have no
// labels.
func (k *kubernetes) arrive(name string) *arrivals {
	k.t.Helper()
	a := &arrivals{k: k, name: name, end: make(chan struct{})}
	a.all.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-a.end:
				return
			case <-tick.C:
				a.all.Go(func() { a.one(fmt.Sprintf("%s-%d", name, i)) })
			}
		}
	})
	return a
}

// one creates a Node, and measures how long it waits for podCIDRs.
func (a *arrivals) one(name string) {
	object := map[string]any{"metadata": map[string]any{"name": name}}
	err := a.k.server.Try(http.MethodPost, "/api/v1/nodes", object, nil)
	begin := time.Now()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for err == nil {
		var n nodeObject
		if err = a.k.server.Try(http.MethodGet, "/api/v1/nodes/"+name, nil, &n); len(n.Spec.PodCIDRs) > 0 {
			break
		}
		if time.Since(begin) > patience {
			err = fmt.Errorf("%s has been without podCIDRs for %v", name, patience)
		}
		<-tick.C
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits = append(a.waits, time.Since(begin))
	if err != nil {
		a.errors = append(a.errors, err)
	}
}

// stop waits until all created Nodes have podCIDRs, deletes them, and returns the
// longest wait.
func (a *arrivals) stop(t testing.TB) time.Duration {
	t.Helper()
	close(a.end)
	a.all.Wait()
	a.k.wantDistinct()
	for _, err := range a.errors {
		t.Error(err)
	}
	if len(a.waits) == 0 {
		t.Fatal("no Node was created")
	}
	for i := range a.waits {
		a.k.server.Do(http.MethodDelete, fmt.Sprintf("/api/v1/nodes/%s-%d", a.name, i), nil, nil)
	}
	slices.Sort(a.waits)
	longest := a.waits[len(a.waits)-1]
	t.Logf("%d Nodes were created; their waits for podCIDRs: median %v, longest %v", len(a.waits), a.waits[len(a.waits)/2], longest)
	return longest
}

// controllerComplaints returns what replicas have logged as errors.
func (k *kubernetes) controllerComplaints() (all []string) {
	k.t.Helper()
	for _, n := range k.nodes {
		logs := strings.Fields(kerneltest.Run(k.t, n.command("sh", "-c", "ls /var/log/pods/"+tulleNamespace+"_*/"+controllerName+"/*.log 2>/dev/null || :")))
		for _, log := range logs {
			text, err := os.ReadFile(n.path(log))
			if err != nil {
				k.t.Error(err)
			}
			for _, line := range complaint.FindAll(text, -1) {
				all = append(all, n.Name+": "+string(line))
			}
		}
	}
	return all
}

// awaitReplicas waits until n replicas are ready.
func (k *kubernetes) awaitReplicas(n int) {
	k.t.Helper()
	k.eventually(func() error {
		ready := 0
		for _, p := range k.controllers() {
			if c := p.Status.ContainerStatuses; len(c) == 1 && c[0].Ready {
				ready++
			}
		}
		if ready != n {
			return fmt.Errorf("%d replicas are ready, not %d", ready, n)
		}
		return nil
	})
}

// awaitLease waits until another replica holds the Lease, and returns how long that
// took.
func (k *kubernetes) awaitLease(other string) time.Duration {
	k.t.Helper()
	begin := time.Now()
	k.eventually(func() error {
		now, err := k.holder()
		if err == nil && (now == other || now == "") {
			err = fmt.Errorf("%q holds the Lease", now)
		}
		return err
	})
	return time.Since(begin)
}

// awaitReplica waits until a container other than id is the replica on a node, and is
// ready.
func (k *kubernetes) awaitReplica(n *node, id string) {
	k.t.Helper()
	kerneltest.Eventually(k.t, 2*patience, func() error {
		for _, p := range k.controllers() {
			if p.Spec.NodeName == n.Name {
				if now := p.Status.ContainerStatuses; len(now) == 1 && now[0].Ready && containerID(p, controllerName) != id {
					return nil
				}
				return fmt.Errorf("%s: %+v", n.Name, p.Status)
			}
		}
		return fmt.Errorf("%s has no replica", n.Name)
	})
}
