//go:build kubelet

package kubelettest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tulle-net/tulle/pkg/clustertest"
	"github.com/tulle-net/tulle/subnet"
)

// TestLife has tulle's DaemonSet live through what clusters do to it.
func TestLife(t *testing.T) {
	k := newKubernetes(t, 2, "10.244.0.0/16")
	one, two := k.nodes[0], k.nodes[1]
	k.awaitNodes("Ready", "False")
	k.apply(k.loadTulle())
	k.awaitNodes("Ready", "True")
	k.awaitTulle()
	for _, n := range k.nodes {
		all, err := k.conditions(n)
		if err != nil {
			t.Fatal(err)
		}
		if c := all["NetworkUnavailable"]; c.Status != "False" {
			t.Errorf("%s: %+v", n.Name, c)
		}
		t.Logf("%s", k.status(t, n))
	}
	from, to := k.addPod("one", one), k.addPod("two", two)
	k.Reach(from.Pod, to.Pod)

	t.Run("rollout", func(t *testing.T) {
		pings := k.bothWays(from, to)
		k.kubectl("rollout restart -n " + tulleNamespace + " daemonset/" + tulleName)
		k.awaitTulle()
		wantNoneLost(t, pings)
	})
	t.Run("crash", func(t *testing.T) {
		pings := k.bothWays(from, to)
		before := k.tulled(one)
		id := containerID(before, tulleContainer)
		run(t, one.command("kill", "-9", one.process(id)))
		k.eventually(func() error {
			now := k.tulled(one)
			if len(now.Status.ContainerStatuses) != 1 || containerID(now, tulleContainer) == id || !now.Status.ContainerStatuses[0].Ready {
				return fmt.Errorf("tulled does not run again: %+v", now.Status.ContainerStatuses)
			}
			return nil
		})
		k.awaitTulle()
		wantNoneLost(t, pings)
	})
	t.Run("reboot", func(t *testing.T) {
		subnet := to.Addr
		two.reboot()
		again := k.findPodAfter(to)
		if again.Addr == subnet {
			t.Logf("the same address: %v", again.Addr)
		}
		k.awaitNodes("Ready", "True")
		k.awaitTulle()
		k.Reach(from.Pod, again.Pod)
		k.Reach(k.addPod("three", two).Pod, from.Pod)
	})
	for _, n := range k.nodes {
		t.Logf("%s", k.status(t, n))
	}
	if events := k.kubectl("get events -A --field-selector type=Warning"); strings.Contains(events, "Unhealthy") {
		t.Errorf("probes failed:\n%s", events)
	}
	t.Log(k.kubectl("get events -A"))
}

func (k *kubernetes) bothWays(a, b *pod) []*clustertest.Stream {
	k.t.Helper()
	return []*clustertest.Stream{k.Ping(a.Pod, b.Pod, subnet.IPv4), k.Ping(b.Pod, a.Pod, subnet.IPv4)}
}

func wantNoneLost(t *testing.T, pings []*clustertest.Stream) {
	t.Helper()
	for _, p := range pings {
		r := p.Stop()
		t.Log(r)
		if r.Lost > 0 {
			t.Error("pings were lost")
		}
	}
}

// findPodAfter waits until a pod that ran runs anew.
func (k *kubernetes) findPodAfter(p *pod) *pod {
	k.t.Helper()
	k.eventually(func() error {
		var object podObject
		if err := k.tryGet("pod "+p.name, &object); err != nil {
			return err
		}
		if id := containerID(object, "pod"); id == "" || id == p.container {
			return fmt.Errorf("%s still is what it was", p.name)
		}
		return nil
	})
	return k.findPod(p.name)
}
