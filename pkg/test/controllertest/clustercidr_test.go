//go:build kube

package controllertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/controller/clustercidr"
	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

const (
	poolsPath = "/apis/networking.x-k8s.io/v1/clustercidrs"
	// goneLimit is how long the deletion of an unused ClusterCIDR may take.
	goneLimit = 2 * time.Second
)

// multi are flags with which podCIDRs come from ClusterCIDRs. Nodes that no ClusterCIDR
// selects get theirs from a range in the flags.
var multi = []string{
	"--cidr-allocator-type=MultiCIDRRangeAllocator", "--cluster-cidr=10.64.0.0/12,fd00:64::/112", "--node-cidr-mask-size-ipv6=120",
	"--node-cidr-rest=0", "--leader-elect=false",
}

// definePools adds the resource to the API server. Unlike the definition for users,
// this one accepts every spec.
func (l *lab) definePools() {
	l.t.Helper()
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	l.Do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", map[string]any{
		"metadata": map[string]any{"name": "clustercidrs.networking.x-k8s.io", "annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, for a test"}},
		"spec": map[string]any{
			"group": "networking.x-k8s.io", "scope": "Cluster",
			"names":    map[string]any{"kind": "ClusterCIDR", "listKind": "ClusterCIDRList", "plural": "clustercidrs", "singular": "clustercidr"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": open}}},
		},
	}, nil)
	kerneltest.Eventually(l.t, patience, func() error { return l.Try(http.MethodGet, poolsPath, nil, nil) })
}

// pool is a ClusterCIDR. Each of its terms is the labels that a Node must have. Without
// a term it selects all Nodes.
type pool struct {
	name, ipv4, ipv6 string
	hostBits         int
	terms            [][]string
}

// addPool creates a ClusterCIDR, and waits until the controller uses it as a pool.
func (l *lab) addPool(p pool) {
	l.t.Helper()
	spec := map[string]any{"perNodeHostBits": p.hostBits}
	if p.ipv4 != "" {
		spec["ipv4"] = p.ipv4
	}
	if p.ipv6 != "" {
		spec["ipv6"] = p.ipv6
	}
	var terms []any
	for _, labels := range p.terms {
		var all []any
		for _, label := range labels {
			all = append(all, map[string]any{"key": label, "operator": "In", "values": []string{"true"}})
		}
		terms = append(terms, map[string]any{"matchExpressions": all})
	}
	if terms != nil {
		spec["nodeSelector"] = map[string]any{"nodeSelectorTerms": terms}
	}
	l.addSpec(p.name, spec)
	kerneltest.Eventually(l.t, patience, func() error {
		if finalizers, _ := l.finalizers(p.name); !slices.Contains(finalizers, clustercidr.Finalizer) {
			return fmt.Errorf("%s has the finalizers %q", p.name, finalizers)
		}
		return nil
	})
}

// addSpec creates a ClusterCIDR with any spec.
func (l *lab) addSpec(name string, spec any) {
	l.t.Helper()
	l.Do(http.MethodPost, poolsPath, map[string]any{
		"apiVersion": "networking.x-k8s.io/v1", "kind": "ClusterCIDR", "metadata": map[string]any{"name": name}, "spec": spec,
	}, nil)
}

// finalizers returns the finalizers of a ClusterCIDR, or false if it does not exist.
func (l *lab) finalizers(name string) (all []string, is bool) {
	l.t.Helper()
	text, err := l.get(poolsPath + "/" + name)
	if err != nil {
		return nil, false
	}
	var o struct{ Metadata struct{ Finalizers []string } }
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		l.t.Fatal(err)
	}
	return o.Metadata.Finalizers, true
}

// removePool deletes a ClusterCIDR.
func (l *lab) removePool(name string) {
	l.t.Helper()
	l.Do(http.MethodDelete, poolsPath+"/"+name, nil, nil)
}

// wantNoPool waits until a ClusterCIDR does not exist, for at most goneLimit.
func (l *lab) wantNoPool(name string) {
	l.t.Helper()
	kerneltest.Eventually(l.t, goneLimit, func() error {
		if finalizers, is := l.finalizers(name); is {
			return fmt.Errorf("%s exists, with the finalizers %q", name, finalizers)
		}
		return nil
	})
}

// labelled returns a Node with labels, which waits for podCIDRs.
func labelled(name string, labels ...string) *corev1.Node {
	n := smallNode(name)
	n.Labels = make(map[string]string)
	for _, label := range labels {
		n.Labels[label] = "true"
	}
	return n
}

// wantCIDRs waits until a Node has podCIDRs, and compares them with the wanted ones.
func (l *lab) wantCIDRs(name string, want ...string) {
	l.t.Helper()
	l.served(patience, name)
	if got := l.view.all()[name].cidrs; fmt.Sprint(got) != fmt.Sprint(want) {
		l.t.Errorf("%s has %v, want %v", name, got, want)
	}
}

// TestPoolsOfClusterCIDRs creates ClusterCIDRs and a Node with the labels a to d. It
// tests each rule that chooses the Node's pool, with ClusterCIDRs that the earlier
// rules rank equally.
func TestPoolsOfClusterCIDRs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.definePools()
	controller := l.tulle(multi...)
	one := [][]string{{"a"}}
	for _, c := range []struct {
		rule  string
		pools []pool
		want  []string
	}{
		{"no ClusterCIDR selects the Node", []pool{{"other", "10.1.0.0/16", "", 8, [][]string{{"none"}}}}, []string{"10.64.0.0/24", "fd00:64::/120"}},
		{"IPv4 alone", []pool{{"v4", "10.1.0.0/16", "", 8, one}}, []string{"10.1.0.0/24"}},
		{"IPv6 alone", []pool{{"v6", "", "fd00:1::/112", 8, one}}, []string{"fd00:1::/120"}},
		{"both families", []pool{{"both", "10.1.0.0/16", "fd00:1::/112", 8, one}}, []string{"10.1.0.0/24", "fd00:1::/120"}},
		{"one of the terms", []pool{{"or", "10.1.0.0/16", "", 8, [][]string{{"none"}, {"a"}}}}, []string{"10.1.0.0/24"}},
		{"most requirements, in one term", []pool{{"1", "10.1.0.0/23", "", 8, one}, {"2", "10.2.0.0/16", "", 8, [][]string{{"a", "b"}}}}, []string{"10.2.0.0/24"}},
		{"most requirements, in two terms", []pool{{"1", "10.1.0.0/23", "", 8, one}, {"2", "10.2.0.0/16", "", 8, [][]string{{"a"}, {"b"}}}}, []string{"10.2.0.0/24"}},
		{"fewest blocks", []pool{{"many", "10.1.0.0/16", "", 8, one}, {"few", "10.2.0.0/23", "", 8, one}}, []string{"10.2.0.0/24"}},
		{"fewest blocks of a family", []pool{{"many", "10.1.0.0/22", "", 8, one}, {"few", "10.2.0.0/16", "fd00:2::/119", 8, one}}, []string{"10.2.0.0/24", "fd00:2::/120"}},
		{"smallest blocks", []pool{{"large", "10.1.0.0/23", "", 8, one}, {"small", "10.2.0.0/24", "", 7, one}}, []string{"10.2.0.0/25"}},
		{"text of the selectors", []pool{{"1", "10.1.0.0/23", "", 8, [][]string{{"b"}}}, {"2", "10.2.0.0/23", "", 8, one}}, []string{"10.2.0.0/24"}},
		{"text of the ranges", []pool{{"1", "10.2.0.0/23", "", 8, one}, {"2", "10.1.0.0/23", "", 8, one}}, []string{"10.1.0.0/24"}},
		{"no selector comes last", []pool{{"all", "10.1.0.0/24", "", 8, nil}, {"some", "10.2.0.0/16", "", 8, one}}, []string{"10.2.0.0/24"}},
	} {
		for _, p := range c.pools {
			l.addPool(p)
		}
		l.Register(nil, labelled("n", "a", "b", "c", "d"))
		t.Log(c.rule)
		l.wantCIDRs("n", c.want...)
		l.remove("n")
		for _, p := range c.pools {
			l.removePool(p.name)
			l.wantNoPool(p.name)
		}
	}
	stop(t, controller)
}

// TestClusterCIDRLivesAsLongAsItsNodes follows a ClusterCIDR from its first Node to its
// deletion: it is exhausted, a block becomes free, it is deleted, and a Node that a
// finalizer keeps still holds it. An invalid ClusterCIDR beside it changes nothing.
func TestClusterCIDRLivesAsLongAsItsNodes(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.definePools()
	l.addSpec("bad", map[string]any{"perNodeHostBits": "eight", "ipv4": []any{}})
	controller := l.tulle(multi...)
	l.addPool(pool{"few", "10.1.0.0/23", "fd00:1::/119", 8, [][]string{{"a"}, {"b"}}})
	l.addPool(pool{"next", "10.2.0.0/23", "fd00:2::/119", 8, [][]string{{"a"}}})
	kept := labelled("n1", "a", "b")
	kept.Finalizers = []string{"example.org/kept"}
	l.Register(nil, kept)
	l.wantCIDRs("n1", "10.1.0.0/24", "fd00:1::/120")
	l.Register(nil, labelled("n2", "a", "b"))
	l.wantCIDRs("n2", "10.1.1.0/24", "fd00:1::100/120")
	l.Register(nil, labelled("n3", "a", "b"))
	l.wantCIDRs("n3", "10.2.0.0/24", "fd00:2::/120") // no block of few is free
	l.remove("n2")
	l.Register(nil, labelled("n4", "a", "b"))
	l.wantCIDRs("n4", "10.1.1.0/24", "fd00:1::100/120")

	l.remove("n4")
	l.removePool("few")
	l.Register(nil, labelled("n5", "a", "b"))
	l.wantCIDRs("n5", "10.2.1.0/24", "fd00:2::100/120")
	l.remove("n1")
	l.remove("n3")
	l.Register(nil, labelled("n6", "a", "b"))
	l.wantCIDRs("n6", "10.2.0.0/24", "fd00:2::/120") // the controller has handled all earlier events
	if _, is := l.finalizers("few"); !is {
		t.Error("the ClusterCIDR few is gone, and n1 uses it")
	}
	l.Do(http.MethodPatch, nodesPath+"/n1", map[string]any{"metadata": map[string]any{"finalizers": nil}}, nil)
	l.wantNoPool("few")
	t.Logf("the event of tulle-controller is %q", l.says("bad", "PoolInvalid", "spec cannot be read"))
	stop(t, controller)
}

// TestANodeCanUseAClusterCIDRThatWasJustCreated creates a ClusterCIDR and at once a
// Node, repeatedly. Two watches show them, but the controller must act as if it had
// seen them in their order.
func TestANodeCanUseAClusterCIDRThatWasJustCreated(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.definePools()
	controller := l.tulle(multi...)
	l.add("first")
	l.wantCIDRs("first", "10.64.0.0/24", "fd00:64::/120")
	var took []time.Duration
	for i := range 50 {
		label := fmt.Sprint("label-", i)
		requirement := map[string]any{"key": label, "operator": "Exists"}
		l.addSpec(label, map[string]any{
			"perNodeHostBits": 8, "ipv4": fmt.Sprintf("10.%d.0.0/16", 100+i),
			"nodeSelector": map[string]any{"nodeSelectorTerms": []any{map[string]any{"matchExpressions": []any{requirement}}}},
		})
		began := time.Now()
		l.Register(nil, labelled(fmt.Sprint("n", i), label))
		l.wantCIDRs(fmt.Sprint("n", i), fmt.Sprintf("10.%d.0.0/24", 100+i))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("a Node waited %s, at most %s", took[len(took)/2], took[len(took)-1])
	stop(t, controller)
}
