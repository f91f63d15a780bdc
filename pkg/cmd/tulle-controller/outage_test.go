package main

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kube/apitest"
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
			synctest.Test(t, func(t *testing.T) {
				f := apitest.InProcess(t)
				f.Gives = nil
				cl := cluster{f, t}
				cl.seed(20)
				p, err := settingsOf(t, cl.flags()...).connect()
				if err != nil {
					t.Fatal(err)
				}
				p.client.Wrap(func(http.RoundTripper) http.RoundTripper { return f.Transport() })
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					p.run(ctx)
				}()
				defer func() {
					cancel()
					<-ended
				}()
				pass := func(d time.Duration) {
					<-time.After(d)
					synctest.Wait()
				}
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
