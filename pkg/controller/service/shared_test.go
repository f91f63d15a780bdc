package service

import (
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/cloud"
	"github.com/tulle-net/tulle/pkg/cloudbalancer"
)

// The end of a Service closes no Node to the balancer of another one.
func TestEndOfAServiceLeavesSharedRules(t *testing.T) {
	inLab(t, func(l *lab) {
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
				if c.Verb == cloud.DescribeIngress {
					continue
				}
				if closed++; c.Verb != cloud.RevokeIngress || r.From != 30080 {
					t.Errorf("%s %+v", c.Verb, r)
				}
			}
		}
		if l.API.Object(path("web")) != nil || closed != 1 {
			t.Errorf("%v, %d rules", l.API.Object(path("web")), closed)
		}
		l.delete("db")
		l.Pass(time.Minute)
		l.wantOnlySecurity("sg-nodes")
	})
}

// wantOnlySecurity fails unless a security group of Nodes has no rules.
func (l *lab) wantOnlySecurity(id string) {
	l.Helper()
	for _, g := range l.cloud.All().Security {
		if g.ID == id && len(g.Rules) > 0 {
			l.Errorf("%s has the rules %+v", id, g.Rules)
		}
	}
}

// A Service that inherits a rule keeps its finalizer until it is known whether it did,
// whether the cloud answers late or not at all.
func TestHeirOfARuleWaitsForIt(t *testing.T) {
	for _, lost := range []bool{false, true} {
		inLab(t, func(l *lab) {
			l.Begin()
			l.add("web", annotate("security-groups", "sg-mine"))
			l.add("db", annotate("security-groups", "sg-mine"))
			l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{{ID: "sg-mine", Name: "mine", Network: "net-1"}}})
			l.Pass(time.Minute)
			held := make(chan struct{})
			l.cloud.Do(func() {
				l.cloud.Hold = func(c cloud.BalancerChange) <-chan struct{} {
					if c.Verb == cloud.DescribeIngress {
						return held
					}
					return nil
				}
				if lost {
					l.cloud.Lose = func(c cloud.BalancerChange) error {
						if c.Verb == cloud.DescribeIngress {
							return &cloud.Error{Kind: cloud.Unavailable, Action: "describe", Text: "no answer"}
						}
						return nil
					}
				}
			})
			first, second := "web", "db"
			for _, g := range l.cloud.All().Security {
				for _, r := range g.Rules {
					if r.Group == "sg-mine" && r.Description == "kubernetes.io/rule/nlb/client="+cloudbalancer.BalancerName(uidOf("db")) {
						first, second = "db", "web"
					}
				}
			}
			l.delete(first)
			l.Pass(5 * time.Second)
			l.delete(second)
			l.Pass(10 * time.Second)
			if !l.finalized(second) {
				t.Error("the heir is gone before its rule")
			}
			close(held)
			l.Pass(2 * time.Minute)
			l.wantOnlySecurity("sg-nodes")
			if l.API.Object(path("web")) != nil || l.API.Object(path("db")) != nil {
				t.Error("a Service is still there")
			}
		})
	}
}

// port returns a function that sets the port of Nodes.
func port(n int) func(map[string]any) {
	return func(d map[string]any) {
		d["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"] = int64(n)
	}
}

// Once no Node has a security group, the rule that Services shared in it goes: none passes
// it on to another one that does not need it there.
func TestSharedRuleLeavesAGroupWithoutNodes(t *testing.T) {
	inLab(t, func(l *lab) {
		l.Begin()
		l.add("web", port(30080), annotate("security-groups", "sg-mine"), annotate("healthcheck-port", "10256"))
		l.add("db", port(30081), annotate("security-groups", "sg-mine"), annotate("healthcheck-port", "10256"))
		l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{{ID: "sg-mine", Name: "mine", Network: "net-1"}}})
		l.Pass(time.Minute)
		l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{
			{ID: "sg-new", Name: "new", Network: "net-1", Tags: map[string]string{"kubernetes.io/cluster/prod": "owned"}},
		}})
		for i := 1; i <= 2; i++ {
			l.fleet.Change(nameOf(i), func(i *cloud.Instance) { i.Groups = []string{"sg-new"} })
		}
		before := len(l.cloud.Changes())
		l.cloud.Do(func() {
			n := 0
			l.cloud.Hold = func(cloud.BalancerChange) <-chan struct{} {
				if n++; n > 20 { // too many: the rest gets no answer, so that the test ends
					return make(chan struct{})
				}
				return nil
			}
		})
		l.Pass(30 * time.Minute)
		l.wantOnlySecurity("sg-nodes")
		if all := l.verbs(before); all[cloud.DescribeIngress] > 1 {
			t.Errorf("%v", all)
		}
	})
}
