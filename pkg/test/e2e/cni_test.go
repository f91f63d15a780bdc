package e2e

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/test/clustertest"
)

// TestCNIPodsReachOneAnother creates pods with the standard plugins and the config that tulled writes.
// They reach one another under their own addresses. A port of the host leads to a pod
// from another host and from that pod itself. A deleted pod leaves nothing behind.
func TestCNIPodsReachOneAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1, dualConfig)
	for _, h := range w.Hosts {
		w.start(h, "--ip-masq")
	}
	one, other := w.Hosts[0], w.Hosts[1]
	r := w.newRuntime(one)
	pods := []*pod{
		r.add("web", portMapping{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}),
		r.add("beside"),
		w.newRuntime(other).add("away"),
	}
	web := pods[0]
	for _, p := range pods {
		mirror(t, p.NS.Path, 80)
	}
	for _, from := range pods {
		for _, to := range pods {
			if from == to {
				continue
			}
			w.Reach(&from.Pod, &to.Pod)
			for f, a := range to.Addr {
				w.seen(from.NS.Path, netip.AddrPortFrom(a, 80), from.Addr[f])
			}
		}
	}
	for f := range web.Addr {
		at := netip.AddrPortFrom(one.Addr[f], 8080)
		w.seen(other.NS.Path, at, other.Addr[f])
		// The answer must come back through the host.
		w.eventually(func() error { _, err := look(web.NS.Path, at); return err })
	}
	for _, p := range pods {
		had := strings.Join(p.left(), "")
		for _, what := range []string{"on the bridge", "of host-local", "in the pod"} {
			if !strings.Contains(had, what) {
				t.Errorf("%s has no state %s:\n%s", p, what, had)
			}
		}
		if p == web && (!strings.Contains(had, "iptables-save") || !strings.Contains(had, "ip6tables-save")) {
			t.Errorf("%s has no rules:\n%s", p, had)
		}
	}
	w.gone(pods...)

	// A later pod works in the same way.
	again := r.add("again", web.ports...)
	mirror(t, again.NS.Path, 80)
	w.Reach(&again.Pod, &clustertest.Pod{Host: one, NS: one.NS, Addr: one.Addr, MTU: again.MTU})
	for f := range again.Addr {
		w.seen(other.NS.Path, netip.AddrPortFrom(one.Addr[f], 8080), other.Addr[f])
	}
	w.gone(again)
}

// gone deletes pods, twice, as runtimes do, and checks that nothing of them remains.
func (w *world) gone(pods ...*pod) {
	w.t.Helper()
	for range 2 {
		for _, p := range pods {
			p.do("DEL")
		}
	}
	for _, p := range pods {
		if left := p.left(); len(left) > 0 {
			w.t.Errorf("of %s remains:\n%s", p, strings.Join(left, "\n"))
		}
	}
}
