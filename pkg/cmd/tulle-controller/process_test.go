package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// short makes leaders change fast, and leaves writes a second.
var short = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"}

func TestStopsWithinTwoSecondsAndReleasesTheLease(t *testing.T) {
	c := newCluster(t)
	c.seed(20)
	p := c.launch()
	c.awaitAll()
	began := time.Now()
	state := p.End(syscall.SIGTERM)
	if took := time.Since(began); !state.Success() || took > 2*time.Second {
		t.Errorf("%v after %s: %s", state, took, p.Said())
	}
	lease := c.Object("apis/coordination.k8s.io/v1/namespaces/kube-system/leases/tulle-controller")
	if holder := lease["spec"].(map[string]any)["holderIdentity"]; holder != "" && holder != nil {
		t.Errorf("%v holds the Lease", holder)
	}
	// The next one neither waits nor fences.
	before := c.Asked("PATCH")
	c.launch()
	c.create(20, 1)
	c.awaitAll()
	if n := c.Asked("PATCH") - before; n != 1 {
		t.Errorf("%d patches for one new Node", n)
	}
}

var kills = flag.Int("kills", 25, "how often TestKillsLoseAndDoubleNothing kills the program")

// However often the program is killed while Nodes come and go, no block goes to two
// Nodes, and none is lost.
func TestKillsLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const nodes = 40
	c.seed(nodes)
	// As many blocks as Nodes, and some that rest.
	args := append([]string{"--cluster-cidr=10.64.0.0/18", "--leader-elect=false"}, short...)
	next := nodes
	for range *kills {
		// Each Node without podCIDRs is fenced off, and gets some. A late write of the
		// program that was killed may be one of them.
		wanted := c.Asked("PATCH") + 1 + rand.IntN(2*c.waiting()-1)
		p := c.launch(args...)
		kerneltest.Eventually(t, patience, func() error {
			if n := c.Asked("PATCH"); n < wanted && c.waiting() > 0 {
				return fmt.Errorf("%d patches, waiting for %d; it wrote %s", n, wanted, p.Said())
			}
			return nil
		})
		p.End(syscall.SIGKILL)
		c.wantDistinct()
		c.replace(next, 8)
		next += 8
	}
	c.launch(args...)
	c.awaitAll()
}

// waiting counts the Nodes without podCIDRs.
func (c cluster) waiting() (n int) {
	c.Do(func() {
		for _, node := range c.Nodes {
			if len(node.Spec.PodCIDRs) == 0 {
				n++
			}
		}
	})
	return n
}

// replace deletes some Nodes, and adds as many others.
func (c cluster) replace(from, n int) {
	c.Do(func() {
		for _, node := range c.Nodes {
			if n--; n < 0 {
				break
			}
			c.Change("DELETED", node)
			c.Change("ADDED", large(from))
			from++
		}
	})
}

func TestOneOfTwoReplicasWrites(t *testing.T) {
	c := newCluster(t)
	c.seed(20)
	a, b := c.start(), c.start()
	c.awaitAll()
	leader, other := a, b
	if !leads(a) {
		leader, other = b, a
	}
	other.await("standing by for ")
	leader.stop()
	other.await("leading; every Node has its podCIDRs")
	c.create(20, 5)
	c.awaitAll()
	if n := c.Asked("PATCH"); n != 25 {
		t.Errorf("%d patches of 25 Nodes", n)
	}
}

func leads(r *running) bool { return strings.HasPrefix(r.read(r.t.Context()).verdict(), "leading") }
