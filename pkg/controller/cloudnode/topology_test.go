package cloudnode

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloud/cloudtest"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/labtest"
)

// top and second are the labels of the fake's layers.
const top, second = layer + "1", layer + "2"

// place launches instances that have a place in the network, and registers their Nodes.
func (l *lab) place(names ...string) {
	for _, name := range names {
		l.cloud.Launch(name, func(i *cloud.Instance) { i.Type = cloudtest.PlacedMachine })
		l.register(name)
	}
}

// wantLayers fails unless a Node is initialised with the labels of these network nodes.
func (l *lab) wantLayers(name string, want ...string) {
	l.Helper()
	labels := l.API.Node(name).Labels
	var got []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if strings.HasPrefix(key, layer) {
			got = append(got, labels[key])
		}
	}
	if !l.initialised(name) || !slices.Equal(got, want) {
		l.Errorf("%s: initialised: %t, the network nodes are %q, want %q", name, l.initialised(name), got, want)
	}
}

// callsFor returns the keys of the calls of an action.
func (l *lab) callsFor(action string) (all [][]string) {
	for _, c := range l.cloud.Calls() {
		if c.Action == action {
			all = append(all, c.Keys)
		}
	}
	return all
}

// TestNodesGetTheLabelsOfTheirPlace: one call returns the places of all new Nodes that have one,
// and initialised Nodes cost no further call.
func TestNodesGetTheLabelsOfTheirPlace(t *testing.T) {
	inLab(t, func(l *lab) {
		l.add("plain")
		all := labtest.Names(50)
		l.place(all...)
		l.Begin()
		l.Pass(2 * time.Second)
		l.want("plain")
		l.wantLayers("plain")
		for _, name := range all {
			l.wantLayers(name, "nn-"+cloudtest.Zone, "nn-i-"+name)
		}
		if calls := l.callsFor("NetworkNodes"); len(calls) != 1 || len(calls[0]) != 50 {
			t.Errorf("the calls are %q", calls)
		}
		if n := l.Patches(""); n != 102 {
			t.Errorf("%d patches", n)
		}
		l.Pass(3 * time.Hour)
		l.End()
		l.Begin()
		l.Pass(time.Hour)
		if n := len(l.callsFor("NetworkNodes")); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestOtherNodesCostNoCallMore: a cluster without instances that have a place makes no call for
// places.
func TestOtherNodesCostNoCallMore(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add(labtest.Names(50)...)
		l.Pass(time.Hour)
		if calls := l.callsFor("NetworkNodes"); len(calls) > 0 {
			t.Errorf("the calls are %q", calls)
		}
	})
}

// TestANodeWaitsForItsPlace: while the cloud does not answer about places, Nodes that have one
// wait, and others do not.
func TestANodeWaitsForItsPlace(t *testing.T) {
	inLab(t, func(l *lab) {
		l.cloud.Do(func() {
			l.cloud.Fault = func(c cloudtest.Call) ([]string, error) {
				if c.Action == "NetworkNodes" {
					return slices.DeleteFunc(slices.Clone(c.Keys), func(id string) bool { return id != "i-known" }), errors.New("try later")
				}
				return c.Keys, nil
			}
		})
		l.add("plain")
		l.place("a", "b", "known")
		l.Begin()
		l.Pass(10 * time.Minute)
		l.want("plain")
		l.wantLayers("known", "nn-"+cloudtest.Zone, "nn-i-known")
		l.wantWaiting("a", "b")
		var lines []controller.Line
		l.Do(func() { lines = l.c.Explain("a") })
		if !slices.ContainsFunc(lines, func(e controller.Line) bool { return strings.Contains(e.Text, "the place of i-a in its network") }) {
			t.Errorf("%v", lines)
		}
		if n := len(l.callsFor("NetworkNodes")); n < 8 || n > 20 {
			t.Errorf("%d calls in ten minutes", n)
		}
		l.cloud.Do(func() { l.cloud.Fault = nil })
		l.Pass(time.Minute + 2*time.Second)
		l.wantLayers("a", "nn-"+cloudtest.Zone, "nn-i-a")
		l.wantLayers("b", "nn-"+cloudtest.Zone, "nn-i-b")
	})
}

// TestAnInstanceThatTheCloudDoesNotPlace: a complete answer without network nodes initialises the
// Node without the labels, as with AWS's own controller.
func TestAnInstanceThatTheCloudDoesNotPlace(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.place("a")
		l.cloud.SetState("a", cloud.Stopped)
		l.Pass(2 * time.Second)
		l.wantLayers("a")
		l.cloud.SetState("a", cloud.Running)
		l.Pass(2 * time.Hour)
		l.wantLayers("a")
		if n := len(l.callsFor("NetworkNodes")); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestAnInstanceThatStarts: while the cloud shows the instance as one that does not run yet, an
// answer without network nodes is not final.
func TestAnInstanceThatStarts(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.place("a")
		l.cloud.SetState("a", cloud.Starting)
		l.Pass(10 * time.Second)
		l.wantWaiting("a")
		l.cloud.SetState("a", cloud.Running)
		l.Pass(time.Minute)
		l.wantLayers("a", "nn-"+cloudtest.Zone, "nn-i-a")
	})
}

// TestAPlaceThatTheNodeHas: if a Node has the label of the top layer, its labels stay, and the
// cloud is not called.
func TestAPlaceThatTheNodeHas(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.cloud.Launch("a", func(i *cloud.Instance) { i.Type = cloudtest.PlacedMachine })
		l.register("a", func(n *corev1.Node) { n.Labels[top] = "mine" })
		l.Pass(2 * time.Second)
		l.wantLayers("a", "mine")
		if calls := l.callsFor("NetworkNodes"); len(calls) > 0 {
			t.Errorf("the calls are %q", calls)
		}
	})
}

// TestAPlaceIsOfOneInstance: if a waiting Node gets another instance, the place of the first one
// is not used.
func TestAPlaceIsOfOneInstance(t *testing.T) {
	c := &Controller{options: Options{Topology: cloudtest.NewFleet(), Layer: layer}}
	n := &node{tainted: true, instance: &cloud.Instance{ID: "i-2", State: cloud.Running, Type: cloudtest.PlacedMachine}, place: place{instance: "i-1", nodes: []string{"nn-1"}}}
	if !c.needsPlace(n) || len(c.layersOf(n, n.instance)) > 0 {
		t.Error("the place of another instance is used")
	}
	n.place = place{instance: "i-2", nodes: []string{"nn-1", "", "nn-3"}}
	if want := map[string]string{top: "nn-1", layer + "3": "nn-3"}; c.needsPlace(n) || !maps.Equal(c.layersOf(n, n.instance), want) {
		t.Errorf("%v, want %v", c.layersOf(n, n.instance), want)
	}
	for what, change := range map[string]func(*node){
		"initialised": func(n *node) { n.tainted = false }, "deleted": func(n *node) { n.deleting = true },
		"of another type": func(n *node) { n.instance.Type = cloudtest.Machine }, "labelled": func(n *node) { n.labels = map[string]string{top: "x"} },
		"gone": func(n *node) { n.instance.State = cloud.Absent },
	} {
		n := &node{tainted: true, instance: &cloud.Instance{ID: "i-1", State: cloud.Running, Type: cloudtest.PlacedMachine}}
		if change(n); c.needsPlace(n) {
			t.Errorf("a Node that is %s needs a place", what)
		}
	}
	if (&Controller{}).needsPlace(&node{tainted: true, instance: n.instance}) {
		t.Error("a cloud without places needs one")
	}
}

// TestThePlanHasThePlaces: a preview waits for the places, too.
func TestThePlanHasThePlaces(t *testing.T) {
	inLabAs(t, controller.ObserveMode, func(l *lab) {
		l.place("a")
		l.Engine.Follow()
		writes, err := l.Engine.PlanAll(l.Context())
		if err != nil || len(writes) != 1 || !strings.Contains(writes[0].Summary, second+"=nn-i-a") {
			t.Errorf("the plan is %v, %v", writes, err)
		}
	})
}
