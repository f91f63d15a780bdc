package cloudbalancer

import "testing"

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
