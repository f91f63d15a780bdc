package clustercidr

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/controller"
	"github.com/tulle-net/tulle/pkg/controller/nodeipam"
	"github.com/tulle-net/tulle/pkg/election"
	"github.com/tulle-net/tulle/pkg/ipam"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// pools is what the controller hands over, and which of it is in use.
type pools struct {
	sets     int // calls of SetPools
	all      []ipam.Pool
	problems []nodeipam.Problem

	held, known int64 // revisions
	used        map[string]bool
}

func (p *pools) SetPools(_ string, all []ipam.Pool, problems ...nodeipam.Problem) error {
	p.all, p.problems, p.sets = all, problems, p.sets+1
	return nil
}

func (p *pools) InUse(pool string) bool { return p.used[pool] }

func (p *pools) Held() int64 {
	if p.held > p.known {
		return p.held
	}
	return 0
}

func (p *pools) Known(revision int64) { p.known = max(p.known, revision) }

// newLab returns a Controller without a server, and what it hands its pools to.
func newLab() (*Controller, *pools) {
	to := &pools{used: make(map[string]bool)}
	return New(controller.New(controller.Options{}), nil, to), to
}

// show hands a ClusterCIDR over as the watch does.
func show(c *Controller, name, version, deleted string, finalizers ...string) {
	o := &kube.ClusterCIDR{Spec: kube.ClusterCIDRSpec{PerNodeHostBits: 8, IPv4: "10.1.0.0/16"}}
	o.Metadata = kube.Meta{Name: name, Version: kube.Version{UID: "uid-" + name, ResourceVersion: version}, DeletionTimestamp: deleted, Finalizers: finalizers}
	name, kept := keep(o)
	c.set(name, kept)
	c.flush()
}

// planned returns the writes that are due.
func planned(c *Controller, n int) (writes []controller.Write, texts []string) {
	writes, _ = c.Plan(time.Now(), n)
	for _, w := range writes {
		texts = append(texts, w.Object.Name+": "+w.Summary)
	}
	return writes, texts
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

const (
	add    = "a: add the finalizer"
	remove = "a: remove the finalizer; no Node uses it"
	day    = "2026-01-02T03:04:05Z"
)

func TestFinalizerStaysWhileThePoolIsInUse(t *testing.T) {
	c, to := newLab()
	show(c, "a", "1", "", "other")
	writes, texts := planned(c, 9)
	expect(t, texts, add)
	_, texts = planned(c, 9) // the write is in flight
	expect(t, texts)
	c.Done(writes[0], nil)
	show(c, "a", "2", "", "other", Finalizer)
	_, texts = planned(c, 9)
	expect(t, texts)

	to.used["clustercidr/a"] = true
	show(c, "a", "3", day, "other", Finalizer)
	_, texts = planned(c, 9)
	expect(t, texts)
	if p := to.all[0]; len(p.Draining) != 1 {
		t.Errorf("while it is deleted, the pool gives blocks: %+v", p)
	}
	to.used["clustercidr/a"] = false
	writes, texts = planned(c, 9)
	expect(t, texts, remove)
	c.Done(writes[0], nil)
	show(c, "a", "4", day, "other")
	_, texts = planned(c, 9)
	expect(t, texts)
	c.delete("a")
	c.flush()
	if len(to.all)+len(c.open)+len(c.attempts)+len(c.objects) > 0 {
		t.Errorf("%+v and %+v are left", to, c)
	}
}

// What is deleted before it has the finalizer needs no write.
func TestDeletedClusterCIDRGetsNoFinalizer(t *testing.T) {
	c, _ := newLab()
	show(c, "a", "1", day, "other")
	_, texts := planned(c, 9)
	expect(t, texts)
}

// A bad ClusterCIDR is reported, and is no pool. No Node can use it, so its finalizer
// may go at once.
func TestBadClusterCIDRIsReported(t *testing.T) {
	c, to := newLab()
	show(c, "good", "1", "", Finalizer)
	o := decode(t, `{"perNodeHostBits":40,"ipv4":"10.1.0.0/16"}`)
	name, kept := keep(o)
	c.set(name, kept)
	c.flush()
	_, texts := planned(c, 9)
	expect(t, texts)
	want := nodeipam.Problem{
		Source: "clustercidrs", Object: controller.Ref{APIVersion: "networking.x-k8s.io/v1", Kind: "ClusterCIDR", Name: "a", UID: "u"},
		Text: "perNodeHostBits 40: out of the bounds for 10.1.0.0/16; use 4 to 16",
	}
	if len(to.all) != 1 || to.all[0].Name != "clustercidr/good" || len(to.problems) != 1 || to.problems[0] != want {
		t.Errorf("%+v", to)
	}
	o.Metadata.DeletionTimestamp, o.Metadata.Finalizers = day, []string{Finalizer}
	name, kept = keep(o)
	c.set(name, kept)
	_, texts = planned(c, 9)
	expect(t, texts, remove)
}

// Everything that the loop takes at once is handed over once, and what changes no pool is
// not.
func TestChangesTakenAtOnceAreHandedOverOnce(t *testing.T) {
	c, to := newLab()
	for i := range 100 {
		name, kept := keep(decode(t, fmt.Sprintf(`{"perNodeHostBits":8,"ipv4":"10.%d.0.0/16"}`, i)))
		c.set(fmt.Sprint(name, i), kept)
	}
	c.delete("a0")
	c.flush()
	if len(to.all) != 99 || to.sets != 1 {
		t.Errorf("%d pools, handed over %d times", len(to.all), to.sets)
	}
	same := maps.Clone(c.objects)
	c.list(same)
	c.flush()
	c.list(nil)
	c.flush()
	c.list(nil) // as every minute without the resource
	c.flush()
	if len(to.all) > 0 || to.sets != 2 {
		t.Errorf("%d pools, handed over %d times", len(to.all), to.sets)
	}
}

// A server without the resource is a problem, not an error: pools of other sources
// work.
func TestServerWithoutClusterCIDRsIsReported(t *testing.T) {
	c, to := newLab()
	show(c, "a", "1", "")
	c.list(nil)
	c.flush()
	if len(to.all) > 0 || len(to.problems) != 1 || len(c.open) > 0 {
		t.Errorf("%+v, %+v", to, c)
	}
	c.list(map[string]object{})
	c.flush()
	if len(to.problems) > 0 {
		t.Errorf("%+v", to)
	}
}

func TestPlanKeepsToTheLimit(t *testing.T) {
	c, _ := newLab()
	for i := range 5 {
		show(c, fmt.Sprint("c", i), "1", "")
	}
	_, first := planned(c, 3)
	_, second := planned(c, 3)
	expect(t, append(first, second...), "c0: add the finalizer", "c1: add the finalizer", "c2: add the finalizer", "c3: add the finalizer", "c4: add the finalizer")
}

// A write that fails is made again after a back-off, at once if the ClusterCIDR has
// changed since.
func TestFailedWritesBackOff(t *testing.T) {
	for name, err := range map[string]error{
		"refused":       &kube.Error{Code: http.StatusForbidden},
		"moved":         &kube.Error{Code: http.StatusConflict},
		"no answer":     errors.New("cut"),
		"not shown yet": nil,
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				c, _ := newLab()
				show(c, "a", "1", "")
				writes, _ := planned(c, 9)
				c.Done(writes[0], err)
				_, texts := planned(c, 9)
				expect(t, texts)
				_, again := c.Plan(time.Now(), 9)
				if wait := time.Until(again); wait <= 0 || wait > 2*time.Second {
					t.Fatalf("again in %v", wait)
				}
				<-time.After(time.Until(again))
				writes, texts = planned(c, 9)
				expect(t, texts, add)
				c.Done(writes[0], err)
				show(c, "a", "2", "")
				_, texts = planned(c, 9)
				expect(t, texts, add)
			})
		})
	}
}

// A dry run changes nothing, and a new term knows nothing of the last one's writes.
func TestPlanCanBeRepeated(t *testing.T) {
	c, _ := newLab()
	show(c, "a", "1", "")
	for range 2 {
		writes, texts := planned(c, 9)
		expect(t, texts, add)
		c.Done(writes[0], controller.ErrNotMade)
	}
	_, _ = planned(c, 9)
	c.Lead(election.Term{Number: 2})
	_, texts := planned(c, 9)
	expect(t, texts, add)
	if !c.Clean() {
		t.Error("late writes do harm")
	}
}

// The deletion is shown while a write is in flight, and an object of the same name
// comes.
func TestWritesOutliveTheirClusterCIDR(t *testing.T) {
	c, _ := newLab()
	show(c, "a", "1", "")
	writes, _ := planned(c, 9)
	c.delete("a")
	show(c, "a", "5", "")
	_, texts := planned(c, 9)
	expect(t, texts)
	c.Done(writes[0], &kube.Error{Code: http.StatusConflict})
	_, texts = planned(c, 9)
	expect(t, texts, add)
	c.delete("a")
	c.Done(controller.Write{Object: controller.Ref{Name: "a"}}, nil)
	if len(c.attempts) > 0 {
		t.Errorf("%+v is left", c.attempts)
	}
}
