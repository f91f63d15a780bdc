package cloudbalancer

import (
	"slices"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// A rule of a prefix list is not ours, whatever its description: it could not be revoked.
func TestRuleOfAPrefixListStays(t *testing.T) {
	l := newLab(t)
	w := l.balance(service("web"))
	rule := cloud.Rule{Protocol: "tcp", From: 1, To: 1, Description: clientRule + w.Balancer}
	for _, g := range l.cloud.All().Security {
		if g.ID == l.setting.NodeGroups[0] {
			g.Rules = append(g.Rules, rule)
			l.cloud.Put(cloud.Balancing{Security: []cloud.SecurityGroup{g}})
		}
	}
	l.balance(service("web"))
	l.remove(w.Ref)
	for _, g := range l.cloud.All().Security {
		if g.ID == l.setting.NodeGroups[0] && (len(g.Rules) != 1 || g.Rules[0] != rule) {
			t.Errorf("%+v", g.Rules)
		}
	}
}

// A rule that the balancer of another Service needs stays, whatever its description: for
// the cloud, rules for the same traffic are one.
func TestSharedRuleOfNodesStays(t *testing.T) {
	l := newLab(t)
	web, db := service("web", annotate(aCheckPort, "10256")), service("db", annotate(aCheckPort, "10256"))
	db.Ports = []Port{{"db", "TCP", 80, 30081}}
	for _, s := range []Service{web, db} {
		l.balance(s)
	}
	all := l.cloud.All()
	for i := range all.Balancers {
		all.Balancers[i].Security = nil // as if they were made without
	}
	l.cloud.Put(all)
	l.read()
	w, other := l.balance(web), l.balance(db)
	for {
		h := l.account.Holding(testCluster, w.Ref, l.setting.NodeGroups)
		h.Shared = func(string) []cloud.Rule { return l.account.Shared([]Want{other}, l.setting.Subnets) }
		step := Remove(testCluster, w.Ref, h)
		if step.Done {
			break
		}
		l.make(step.Changes)
	}
	if step := l.step(func(h Holding) Step { return Next(other, h, l.setting) }, other.Ref); !step.Done {
		t.Errorf("%+v", step.Changes)
	}
	for _, g := range l.cloud.All().Security {
		if slices.ContainsFunc(g.Rules, func(r cloud.Rule) bool { return r.From == 30080 }) {
			t.Errorf("left: %+v", g.Rules)
		}
	}
}
