package cloudbalancer

import "testing"

// While the labels of the Nodes are invalid, the targets stay as they are.
func TestInvalidNodeLabelsMoveNoTargets(t *testing.T) {
	l := newLab(t)
	l.balance(service("web"))
	for _, labels := range []string{"role=web,role=db", "a b=c"} {
		w, problems := l.options.Read(service("web", annotate(aNodeLabels, labels)))
		if len(problems) == 0 || !problems[0].Fatal {
			t.Fatalf("%+v", problems)
		}
		s := l.setting
		s.Targets = s.Targets[:1]
		if step := Follow(w, l.account.Holding(testCluster, w.Ref, nil), s); len(step.Changes) > 0 || step.Unavailable {
			t.Errorf("%s: %+v", labels, step)
		}
	}
}
