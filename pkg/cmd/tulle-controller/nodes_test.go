package main

import (
	"testing"
)

// In a cluster whose Nodes all have podCIDRs, valid or not, no Node is written.
func TestASettledClusterIsLeftAlone(t *testing.T) {
	c := newCluster(t)
	c.Do(func() {
		for i := range 100 {
			n := large(i)
			n.Spec.PodCIDRs = []string{nth(i)}
			n.Spec.PodCIDR = n.Spec.PodCIDRs[0]
			c.Change("ADDED", n)
		}
	})
	for range 2 {
		r := c.start()
		r.await("every Node has its podCIDRs")
		r.stop()
	}
	if n := c.Asked("PATCH"); n > 0 {
		t.Errorf("%d patches", n)
	}
	c.start()
	c.create(100, 1)
	c.awaitAll()
	if n := c.Asked("PATCH"); n != 1 {
		t.Errorf("%d patches for one new Node", n)
	}
}

func TestEveryNodeGetsItsPodCIDRs(t *testing.T) {
	for name, args := range map[string][]string{
		"elected": nil, "alone": {"--leader-elect=false"},
		"dual-stack": {"--cluster-cidr=fd00:10::/48,10.64.0.0/14", "--service-cluster-ip-range=10.65.0.0/16"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			c.seed(50)
			c.start(args...)
			c.awaitAll()
			c.create(50, 30)
			c.awaitAll()
			if n := c.Asked("PATCH"); n < 80 || n > 160 {
				t.Errorf("%d patches of 80 Nodes, 50 of which may have to be fenced off", n)
			}
			// It reads twice only if a second passes before it leads.
			if n := c.Asked("GET /api/v1/nodes?"); n > 2 {
				t.Errorf("%d lists and watches of Nodes", n)
			}
		})
	}
}
