package cloudbalancer

import (
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// While the balancer is there, perhaps because the cloud refuses its deletion, its Nodes
// stay open to it.
func TestRemoveClosesNodesOnlyAfterTheBalancer(t *testing.T) {
	l := newLab(t)
	w := l.balance(service("web"))
	step := Remove(testCluster, w.Ref, l.account.Holding(testCluster, w.Ref, nil))
	if len(step.Changes) != 1 || step.Changes[0].Verb != cloud.DeleteBalancer {
		t.Errorf("%v, want only the balancer's deletion", summaries(step.Changes))
	}
}
