package main

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// outage is how long the API server fails.
const outage = time.Minute

// The API server fails for a minute, in each way, and may still make the writes that it
// does not answer. Soon after, every Node has podCIDRs, and no two Nodes have the same.
func TestAMinuteWithoutTheAPIServer(t *testing.T) {
	t.Parallel()
	refused := func(*http.Request) *metav1.Status {
		return apitest.Refusal(http.StatusServiceUnavailable, "the API server is gone")
	}
	for name, c := range map[string]struct {
		begin func(c cluster)
		soon  time.Duration // until all Nodes have podCIDRs after it
	}{
		"gone": {func(c cluster) {
			c.Refuse = refused
			c.End()
		}, 20 * time.Second},
		"answers are lost": {func(c cluster) {
			c.Lose = func(*http.Request) bool { return true }
			c.End()
		}, 20 * time.Second},
		"slow": {func(c cluster) {
			c.Hold = func(*http.Request) <-chan struct{} {
				late := make(chan struct{})
				time.AfterFunc(3*time.Second, func() { close(late) })
				return late
			}
		}, 20 * time.Second},
		"history is lost": {func(c cluster) {
			c.Refuse = refused
			c.Forget()
			c.End()
		}, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				cl := newBubble(t)
				cl.seed(20)
				defer cl.runInBubble().stop()
				pass(5 * time.Second)
				cl.wantServed()
				cl.Do(func() { c.begin(cl) })
				cl.replace(20, 5)
				pass(outage / 2)
				cl.replace(30, 5)
				pass(outage / 2)
				cl.Do(func() { cl.Refuse, cl.Lose, cl.Hold = nil, nil, nil })
				cl.replace(40, 5)
				pass(c.soon)
				cl.wantServed()
			})
		})
	}
}

// newBubble returns a cluster in the bubble of testing/synctest that runs the test. While
// something works there, no time passes.
func newBubble(t testing.TB) cluster {
	f := apitest.InProcess(t)
	f.Gives = nil
	return cluster{f, t}
}

// runInBubble runs the program with more flags in the same bubble, until it is stopped.
func (c cluster) runInBubble(more ...string) *running {
	c.t.Helper()
	p, err := settingsOf(c.t, c.flags(more...)...).connect()
	if err != nil {
		c.t.Fatal(err)
	}
	p.client.Wrap(func(http.RoundTripper) http.RoundTripper { return c.Transport() })
	ctx, cancel := context.WithCancel(c.t.Context())
	r := &running{p, c.t, cancel, make(chan struct{})}
	go func() {
		defer close(r.ended)
		p.run(ctx)
	}()
	return r
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantServed fails unless every Node has podCIDRs of its own.
func (c cluster) wantServed() {
	c.t.Helper()
	c.Do(func() {
		for name, n := range c.Nodes {
			if len(n.Spec.PodCIDRs) == 0 {
				c.t.Errorf("%s has no podCIDRs", name)
			}
		}
	})
	c.wantDistinct()
}
