package service

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// The end of a Service closes no Node to the balancer of another one.
func TestEndOfAServiceLeavesSharedRules(t *testing.T) {
	inLab(t, func(l *lab) {
		port := func(n int) func(map[string]any) {
			return func(d map[string]any) {
				d["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"] = int64(n)
			}
		}
		l.Begin()
		l.add("web", port(30080), annotate("healthcheck-port", "10256"))
		l.add("db", port(30081), annotate("healthcheck-port", "10256"))
		l.Pass(time.Minute)
		all := l.cloud.All()
		for i := range all.Balancers {
			all.Balancers[i].Security = nil // as if they were made without
		}
		l.cloud.Put(all)
		l.Pass(15 * time.Minute)
		before := len(l.cloud.Changes())
		l.delete("web")
		l.Pass(time.Minute)
		closed := 0
		for _, c := range l.cloud.Changes()[before:] {
			for _, r := range c.Security.Rules {
				if closed++; c.Verb != cloud.RevokeIngress || r.From != 30080 {
					t.Errorf("%s %+v", c.Verb, r)
				}
			}
		}
		if l.API.Object(path("web")) != nil || closed != 1 {
			t.Errorf("%v, %d rules", l.API.Object(path("web")), closed)
		}
	})
}
