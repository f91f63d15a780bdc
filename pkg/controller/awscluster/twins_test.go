package awscluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/awsnet"
	"github.com/tulle-net/tulle/pkg/awsnet/apply"
	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/capi"
)

// newController returns a Controller that does not run, and knows one Cluster.
func newController() *Controller {
	c := New(controller.New(controller.Options{}), Options{Period: time.Minute, Event: func(controller.Event) {}})
	c.clusters["default/prod"] = cluster{}
	return c
}

// claiming returns an AWSCluster with a finalizer and an annotation.
func claiming(t *testing.T, name, uid, created, network string) state {
	t.Helper()
	return stateOf(t, fmt.Sprintf(`{"metadata": {"namespace": "default", "name": %q, "uid": %q, "resourceVersion": "1", "creationTimestamp": %q, "finalizers": [%q], "annotations": {%q: %q},
		"ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "prod", "uid": "c"}]}, "spec": %s}`, name, uid, created, Finalizer, NetworkAnnotation, network, small))
}

// TestOneAWSClusterKeepsANetwork: of several that name one network, in whatever order they are
// listed, at most one is worked on: the one that the network was made for, or the oldest.
func TestOneAWSClusterKeepsANetwork(t *testing.T) {
	const network = home + "/prod/u"
	original := claiming(t, "prod", "u", "2026-02-01T00:00:00Z", network)
	older, younger := claiming(t, "a", "v", "2026-01-01T00:00:00Z", network), claiming(t, "z", "w", "2026-03-01T00:00:00Z", network)
	for _, order := range [][]state{{original, older, younger}, {younger, older, original}, {older, original, younger}, {younger, original, older}} {
		c := newController()
		check := func(when string, keeper string) {
			t.Helper()
			for key, n := range c.networks {
				if n.works() != (key == keeper) || (key != keeper) != strings.Contains(problemsText(n.problems), "is also the network of "+keeper) {
					t.Errorf("%s: %s works: %v, %v", when, key, n.works(), n.problems)
				}
			}
		}
		for _, s := range order {
			c.set(s.Key(), s)
		}
		check("all", "default/prod")
		c.remove(original.Key())
		check("without the original", "default/a")
		c.set(original.Key(), original)
		check("with the original", "default/prod")
		free := younger
		free.Annotations = nil
		c.set(free.Key(), free)
		if n := c.networks[free.Key()]; !n.works() || n.job.uid != "w" {
			t.Errorf("without the annotation: %v, %+v", n.problems, n.job.identity)
		}
		c.remove(free.Key())
		copied := original // another object of the same name
		copied.UID = "x"
		c.set(copied.Key(), copied)
		check("with another object of the name", "default/a")
		c.list(1, nil)
		if len(c.claims) > 0 || len(c.networks) > 0 {
			t.Errorf("%d claims and %d networks are left", len(c.claims), len(c.networks))
		}
	}
}

// TestReadingOfAnEarlierObjectIsDropped: its plan would be carried out for another network.
func TestReadingOfAnEarlierObjectIsDropped(t *testing.T) {
	c, s := newController(), claiming(t, "prod", "u", "", home+"/prod/u")
	c.set(s.Key(), s)
	n := c.networks[s.Key()]
	old := n.job
	old.uid, old.end, n.reading = "before", true, true
	c.take([]string{"1"}, map[string]seen{"1": {key: s.Key(), job: old, gone: true}})
	if n.seen != nil || n.reading || !c.reads.Has(s.Key()) {
		t.Errorf("seen %+v, reading %v", n.seen, n.reading)
	}
}

// TestReadingsOfOneNameDoNotMix: an object is created again before the reading of the earlier
// one has begun.
func TestReadingsOfOneNameDoNotMix(t *testing.T) {
	c, s := newController(), claiming(t, "prod", "u", "", home+"/prod/u")
	c.options.Region = func(string) (Cloud, error) { return newAccount(home), nil }
	var asked [][]string
	for _, uid := range []string{"u", "v"} {
		s.UID, s.Annotations = uid, map[string]string{NetworkAnnotation: home + "/prod/" + uid}
		c.set(s.Key(), s)
		keys, _ := c.readDue(time.Now())
		asked = append(asked, keys)
	}
	for i, uid := range []string{"u", "v"} {
		found, err := c.read(t.Context(), asked[i])
		if err != nil || found[asked[i][0]].job.uid != uid {
			t.Errorf("the reading of %s is of %q: %v", uid, found[asked[i][0]].job.uid, err)
		}
		c.take(asked[i], found)
	}
	if n := c.networks[s.Key()]; n.seen == nil && !c.reads.Has(s.Key()) || n.seen != nil && n.seen.job.uid != "v" {
		t.Errorf("seen %+v", n.seen)
	}
	if len(c.reading.taken) > 0 {
		t.Errorf("readings count as in flight: %v", c.reading.taken)
	}
}

// TestRunThatEndsInAPlanIsReadAgain: the Engine must come back, because it has looked up already.
func TestRunThatEndsInAPlanIsReadAgain(t *testing.T) {
	c, s := newController(), claiming(t, "prod", "u", "", home+"/prod/u")
	c.set(s.Key(), s)
	n, now := c.networks[s.Key()], time.Now()
	n.seen, n.run = &seen{job: n.job}, apply.New(awsnet.Plan{})
	if writes, again := c.PlanCloud(now, 10); len(writes) > 0 || again != now || n.run != nil || !c.reads.Has(s.Key()) {
		t.Errorf("%d writes, again %s, run %v", len(writes), again, n.run)
	}
}

// TestDroppedFieldIsNoHotLoop: a server that keeps nothing of a write is asked less and less.
func TestDroppedFieldIsNoHotLoop(t *testing.T) {
	c, s := newController(), claiming(t, "prod", "u", "", home+"/prod/u")
	var events []string
	c.options.Event = func(e controller.Event) { events = append(events, e.Reason) }
	c.set(s.Key(), s)
	n := c.networks[s.Key()]
	w := c.merge(n, "status", kube.Merge{If: n.Version}, "set the status: provisioned", func() {})
	for i := range 3 {
		n.writing = true
		c.answers.Store(n.UID, answered{n.Version, func() {}, true})
		before := time.Now()
		c.Done(w, nil)
		if n.retry.Before(before.Add(backoff.First/2)) || n.fails != i+1 || n.writing {
			t.Errorf("try %d: again in %s, failures %d", i, n.retry.Sub(before), n.fails)
		}
	}
	if !slices.Contains(events, "NotKept") {
		t.Errorf("the events are %v", events)
	}
}

// TestStatusWaitsNoLongerThanForTheWatch: the next write follows once the watch shows the last one,
// whether it does so before or after the answer.
func TestStatusWaitsNoLongerThanForTheWatch(t *testing.T) {
	for _, early := range []bool{false, true} {
		c, s := newController(), claiming(t, "prod", "u", "", home+"/prod/u")
		s.Version.ResourceVersion, s.revision = "7", 7
		c.set(s.Key(), s)
		n := c.networks[s.Key()]
		w := c.merge(n, "status", kube.Merge{If: n.Version}, "set the status: provisioned", func() {})
		shown := s
		shown.Version.ResourceVersion, shown.revision = "8", 8
		c.answers.Store(n.UID, answered{version: shown.Version, made: func() {}})
		if early {
			c.set(s.Key(), shown)
		}
		c.Done(w, nil)
		if !early {
			if n.retry.IsZero() {
				t.Error("it does not wait for the watch")
			}
			c.set(s.Key(), s) // older
			if n.retry.IsZero() {
				t.Error("an older state ends the wait")
			}
			c.set(s.Key(), shown)
		}
		if !n.retry.IsZero() {
			t.Errorf("early %t: it still waits", early)
		}
	}
}

// TestFailureOutlastsTheWatch: a state from the watch does not end a back-off.
func TestFailureOutlastsTheWatch(t *testing.T) {
	c, s := newController(), claiming(t, "prod", "u", "", home+"/prod/u")
	c.set(s.Key(), s)
	n := c.networks[s.Key()]
	c.Done(c.merge(n, "status", kube.Merge{If: n.Version}, "set the status: provisioned", func() {}), errors.New("broken"))
	if c.set(s.Key(), s); n.retry.IsZero() {
		t.Error("it no longer waits")
	}
}

// TestZonesThatGoLeaveTheStatus: a merge patch keeps the members of a map that it does not name.
func TestZonesThatGoLeaveTheStatus(t *testing.T) {
	w := wantedStatus{domains: []domain{{"a", true}}}
	patch, is := w.patch(capi.Beta1, status{Domains: []byte(`{"a":{"controlPlane":true},"b":{"controlPlane":true}}`)})["failureDomains"].(map[string]any)
	if gone, named := patch["b"]; !is || !named || gone != nil || patch["a"] == nil {
		t.Errorf("the patch is %v", patch)
	}
}

// TestRegionsShareWhatThereIs: one gets half at most, and the next ones get some of the rest.
func TestRegionsShareWhatThereIs(t *testing.T) {
	s := newShares(16, 6)
	var got []int
	for _, region := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		n := 0
		for s.left(region) > 0 {
			s.take(region)
			n++
		}
		got = append(got, n)
	}
	if !slices.Equal(got, []int{6, 5, 2, 1, 1, 1, 0}) {
		t.Errorf("the shares are %v", got)
	}
	s.give("a")
	if s.left("g") != 1 || s.left("b") != 0 {
		t.Errorf("after one has ended: %d and %d", s.left("g"), s.left("b"))
	}
	for range 5 {
		s.give("a")
	}
	if _, has := s.taken["a"]; has {
		t.Error("a region without anything in flight is kept")
	}
}
