package main

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/tulle-net/tulle/pkg/controller/lifecycle"
)

// A deletion that is held back until a person decides is shown, and is nothing to write: a
// check by the exit code of plan does not fail for as long as the Node stays.
func TestPlanWithOnlyHeldDeletionsIsFine(t *testing.T) {
	s := newSite(t, 4, 1)
	s.Do(func() {
		n := s.Nodes[large(1).Name]
		n.Annotations = map[string]string{lifecycle.Mark: n.Spec.ProviderID}
	})
	s.aws.Terminate(s.instances[1].ID)
	plan := func(code int, more ...string) string {
		t.Helper()
		var out strings.Builder
		args := append([]string{"plan", "--controllers=" + lifecycle.Name, "--cloud-provider=aws", "--cluster-name=" + siteName}, more...)
		err := run(s.flags(args...), nil, &out)
		if got := exit(err, &out); got != code {
			t.Errorf("%q ended with %d:\n%s", args, got, out.String())
		}
		return out.String()
	}
	if text := plan(exitFine); !strings.Contains(text, "0 to write; 1 held back until a person decides") || !strings.Contains(text, "held back: a kubelet worked under this Node") {
		t.Error(text)
	}
	var a planAnswer
	if err := json.Unmarshal([]byte(plan(exitFine, "--output=json")), &a); err != nil || len(a.Writes) != 1 || !a.Writes[0].Held {
		t.Errorf("%v, %+v", err, a)
	}
	s.aws.Stop(s.instances[2].ID)
	s.Do(func() {
		for i, c := range s.Nodes[large(2).Name].Status.Conditions {
			if c.Type == corev1.NodeReady {
				s.Nodes[large(2).Name].Status.Conditions[i].Status = corev1.ConditionUnknown
			}
		}
	})
	if text := plan(exitPending); !strings.Contains(text, "1 to write; 1 held back") {
		t.Error(text)
	}
}
