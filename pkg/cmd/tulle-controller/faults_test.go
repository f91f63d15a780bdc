package main

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
)

// isNodeWrite reports whether a request writes a Node.
func isNodeWrite(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/")
}

// often reports true every other time, at random, for at most so many writes of Nodes.
func often(most int) func(r *http.Request) bool {
	var mu sync.Mutex
	return func(r *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if !isNodeWrite(r) || most == 0 || rand.IntN(2) == 0 {
			return false
		}
		most--
		return true
	}
}

// refuse returns the refusal of some writes.
func refuse(code int32, seconds int32) func(r *http.Request) *metav1.Status {
	some := often(20)
	return func(r *http.Request) *metav1.Status {
		if !some(r) {
			return nil
		}
		s := apitest.Refusal(code, "refused by the test")
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: seconds}
		return s
	}
}

// Whatever the server answers, every Node gets its podCIDRs, and no two the same.
func TestEveryNodeGetsItsPodCIDRsWhateverFails(t *testing.T) {
	for name, fault := range map[string]func(c cluster){
		"409": func(c cluster) { c.Refuse = refuse(http.StatusConflict, 0) },
		"422": func(c cluster) { c.Refuse = refuse(http.StatusUnprocessableEntity, 0) },
		"429": func(c cluster) { c.Refuse = refuse(http.StatusTooManyRequests, 1) },
		"500": func(c cluster) { c.Refuse = refuse(http.StatusInternalServerError, 0) },
		"503": func(c cluster) { c.Refuse = refuse(http.StatusServiceUnavailable, 1) },
		// The server does what it is asked, and no client learns of it.
		"lost answers": func(c cluster) { c.Lose = often(20) },
		"slow": func(c cluster) {
			some := often(20)
			c.Hold = func(r *http.Request) <-chan struct{} {
				if !some(r) {
					return nil
				}
				late := make(chan struct{})
				time.AfterFunc(300*time.Millisecond, func() { close(late) })
				return late
			}
		},
		"no streamed lists": func(c cluster) { c.NoWatchList = true },
		"no ServiceCIDRs":   func(c cluster) { delete(c.Serves, "apis/networking.k8s.io/v1/servicecidrs") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.seed(20)
			c.Do(func() { fault(c) })
			c.start()
			c.awaitAll()
			c.create(20, 10)
			c.awaitAll()
		})
	}
}

// A watch that breaks, also for longer than the server's history, misses nothing.
func TestBrokenWatchesMissNothing(t *testing.T) {
	c := newCluster(t)
	c.seed(5)
	c.start()
	c.awaitAll()
	for i, cut := range []func(){c.Cut, c.Disconnect, func() { c.Do(func() { c.Forget(); c.End() }) }} {
		cut()
		c.create(5+i, 1)
		c.awaitAll()
	}
}

// A full range leaves the last Nodes without podCIDRs, and names the numbers and the
// fix. The first Node that goes makes room.
func TestAFullRangeNamesTheNumbers(t *testing.T) {
	c := newCluster(t)
	c.seed(5)
	r := c.start("--cluster-cidr=10.64.0.0/22")
	r.await("1 Node waits for podCIDRs")
	c.wantDistinct()
	waiting := ""
	c.Do(func() {
		for name, n := range c.Nodes {
			if len(n.Spec.PodCIDRs) == 0 {
				waiting = name
			}
		}
	})
	text := c.wantEvent(waiting, "CIDRNotAvailable")
	for _, part := range []string{"4 of 4 used, 0 free", "use a larger --cluster-cidr"} {
		if !strings.Contains(text, part) {
			t.Errorf("the event lacks %q: %s", part, text)
		}
	}
}

// Garbage in Nodes ends nothing, and takes nothing from others.
func TestGarbageInNodesEndsNothing(t *testing.T) {
	c := newCluster(t)
	c.seed(3)
	c.Do(func() {
		for name, cidrs := range map[string][]string{
			"outside": {"192.0.2.0/24"}, "garbage": {"x"}, "twin": {"10.64.0.0/24"}, "other-twin": {"10.64.0.0/24"},
		} {
			n := large(9)
			n.Name, n.Spec.PodCIDRs, n.Spec.PodCIDR = name, cidrs, cidrs[0]
			c.Change("ADDED", n)
		}
	})
	c.start()
	for _, name := range []string{"outside", "garbage", "twin"} {
		c.wantEvent(name, "CIDRInvalid")
	}
	for i := range 3 {
		c.wantNode(i)
	}
}
