package cloudbalancer

import (
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
