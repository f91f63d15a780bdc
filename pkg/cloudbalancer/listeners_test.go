package cloudbalancer

import (
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/cloud"
)

// off by it.
func TestALPNNone(t *testing.T) {
	const arn = "arn:aws:acm:eu-west-1:123456789012:certificate/1"
	for _, before := range []string{"None", "HTTP2Preferred"} {
		l := newLab(t)
		l.balance(service("web", annotate(aCertificate, arn, aALPN, before)))
		l.balance(service("web", annotate(aCertificate, arn, aALPN, "None")))
		b := l.cloud.All().Balancers[0]
		if got := b.Listeners[0].ALPN; got != "" {
			t.Errorf("after %s: %q", before, got)
		}
		// AWS says None; the cloud returns that as "".
		c := l.want(service("web", annotate(aCertificate, arn, aALPN, "None")))
		if step := l.step(func(h Holding) Step { return Next(c, h, l.setting) }, c.Ref); !step.Done {
			t.Errorf("%+v", step)
		}
	}
}

// A Service that needs more listeners than the account may have gets none of them. A balancer
// that it has keeps its listeners, and its targets follow the Nodes.
func TestTooManyListenersMakeNothing(t *testing.T) {
	ports := func(n int) func(*Service) {
		return func(s *Service) {
			s.Ports = nil
			for i := range n {
				s.Ports = append(s.Ports, Port{"", "TCP", 1000 + i, 31000 + i})
			}
		}
	}
	l := newLab(t)
	l.setting.MostListeners = 3
	want := func(n int) {
		t.Helper()
		w := l.want(service("web", ports(4)))
		step := l.step(func(h Holding) Step { return Next(w, h, l.setting) }, w.Ref)
		if len(step.Problems) != 1 || !step.Problems[0].Fatal || !strings.Contains(step.Problems[0].Text, "L-57A373D6") || len(step.Changes) != n || step.Done {
			t.Errorf("%+v", step)
		}
		for _, c := range step.Changes {
			if c.Verb != cloud.Register {
				t.Errorf("%s", c.Summary)
			}
		}
	}
	want(0)
	l.balance(service("web", ports(3)))
	l.nodes(3)
	want(3)
}
