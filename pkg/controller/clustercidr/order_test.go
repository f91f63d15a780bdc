package clustercidr

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// due returns the revision as of which a read is due, or "".
func due(c *Controller) string {
	keys, _ := c.dueOrder(time.Now())
	if len(keys) == 0 {
		return ""
	}
	return keys[0]
}

// found passes an answer to the Controller.
func found(c *Controller, key string, p present) {
	c.takeOrder([]string{key}, map[string]present{key: p})
}

// A Node that is read before a ClusterCIDR that is older waits until the watch has shown
// the ClusterCIDR.
func TestANodeWaitsForOlderClusterCIDRs(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		c, to := newLab()
		if due(c) != "" {
			t.Error("reads without a Node that waits")
		}
		show(c, "old", "5", "", Finalizer)
		to.held = 11
		if key := due(c); key != "11" {
			t.Fatalf("reads as of %q", key)
		}
		found(c, "11", present{revision: 12, newest: 10})
		if to.known != 0 || due(c) != "" {
			t.Error("the Node does not wait for the ClusterCIDR of revision 10")
		}
		show(c, "new", "10", "")
		if to.known != 12 || len(to.all) != 2 {
			t.Errorf("known as of %d, with %d pools", to.known, len(to.all))
		}
		// What is known already needs no wait.
		to.held = 20
		found(c, due(c), present{revision: 21, newest: 10})
		if to.known != 21 {
			t.Errorf("known as of %d", to.known)
		}
		// A deletion that was shown counts, as does a list.
		c.delete("new")
		c.flush()
		to.held = 30
		found(c, due(c), present{revision: 31, newest: 5})
		if to.known != 31 {
			t.Errorf("known as of %d", to.known)
		}
		to.held = 40
		found(c, due(c), present{revision: 41, newest: 35})
		c.list(map[string]object{})
		c.flush()
		if to.known != 31 {
			t.Errorf("an older list was enough: known as of %d", to.known)
		}
	})
}

// A read that fails is tried again, and a watch that stands still keeps Nodes waiting no
// longer than the limit.
func TestNodesWaitNoLongerThanTheLimit(t *testing.T) {
	for name, answer := range map[string]func(c *Controller, key string){
		"reads fail":  func(c *Controller, key string) { c.takeOrder([]string{key}, nil) },
		"watch hangs": func(c *Controller, key string) { found(c, key, present{revision: 12, newest: 10}) },
	} {
		bubbletest.Test(t, func(t *testing.T) {
			c, to := newLab()
			to.held = 11
			began, reads := time.Now(), 0
			for to.known == 0 && time.Since(began) < time.Minute {
				if key := due(c); key != "" {
					reads++
					answer(c, key)
				}
				_, again := c.dueOrder(time.Now())
				<-time.After(time.Until(again))
			}
			if took := time.Since(began); took != orderLimit || reads < 1 || reads > int(orderLimit/orderRetry)+1 {
				t.Errorf("%s: waited %s for %d reads", name, took, reads)
			}
		})
	}
}

// The newest revision is that of the server's list.
func TestReadsTheNewestRevision(t *testing.T) {
	f := apitest.New(t)
	client, err := kube.NewClient(kube.Options{Server: f.URL, Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	c := &Controller{client: client}
	read := func(held int64) (present, error) {
		key := strconv.FormatInt(held, 10)
		all, err := c.readOrder(t.Context(), []string{key})
		return all[key], err
	}
	if p, err := read(7); p != (present{revision: 7}) || err != nil {
		t.Errorf("without the resource: %+v, %v", p, err)
	}
	f.Serves[kube.ClusterCIDRs] = "ClusterCIDR"
	var newest int64
	for _, name := range []string{"b", "a"} {
		o := kube.ClusterCIDR{Metadata: kube.Meta{Name: name}, Spec: kube.ClusterCIDRSpec{PerNodeHostBits: 8, IPv4: "10.1.0.0/16"}}
		if err := kube.Create(t.Context(), client, kube.ClusterCIDRs, kube.ClusterCIDRFormat, &o); err != nil {
			t.Fatal(err)
		}
		newest = kube.Revision(o.Metadata.ResourceVersion)
	}
	f.Do(func() { f.Change("ADDED", apitest.SmallNode(1)) })
	if p, err := read(7); p.newest != newest || p.revision <= newest || err != nil {
		t.Errorf("%+v, %v, want a newest one of %d", p, err, newest)
	}
	f.Do(func() {
		f.Refuse = func(*http.Request) *metav1.Status { return apitest.Refusal(http.StatusForbidden, "no") }
	})
	if _, err := read(7); kube.Code(err) != http.StatusForbidden {
		t.Errorf("a refused read: %v", err)
	}
}
