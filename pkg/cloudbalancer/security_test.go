package cloudbalancer

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// rule.
func TestSecurityGroupsAreSetWhenTheyLackNothing(t *testing.T) {
	l := newLab(t)
	l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{{ID: "sg-mine", Name: "mine", Network: "net-1"}}})
	l.balance(service("web", annotate(aSecurity, "sg-mine")))
	w := l.want(service("web"))
	for {
		step := l.step(func(h Holding) Step { return Next(w, h, l.setting) }, w.Ref)
		if step.Done {
			return
		}
		allows, sets := false, false
		for _, c := range step.Changes {
			allows, sets = allows || c.Verb == cloud.AllowIngress, sets || c.Verb == cloud.SetSecurity
		}
		if allows && sets {
			t.Fatalf("%v in one step", summaries(step.Changes))
		}
		l.make(step.Changes)
	}
}
