package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/test/bubbletest"
)

// Five thousand Nodes get a block each, with one PATCH a Node, while the server ends all
// watches again and again. It runs in a bubble, because a busy machine would need longer for
// a PATCH than its time limit. The server of the test needs most of the seconds that it takes.
func TestFiveThousandNodesCostOnePatchEach(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, wantOnePatchEach)
}

func wantOnePatchEach(t *testing.T) {
	const nodes, atOnce = 5000, 500
	c := newBubble(t)
	r := c.runInBubble("--cluster-cidr=10.0.0.0/11")
	defer r.stop()
	pass(5 * time.Second)
	for from := 0; from < nodes; from += atOnce {
		c.Do(func() {
			for i := range atOnce {
				// What a Node has beside its name costs the server of the test most.
				name := fmt.Sprint("node-", from+i)
				c.Change("ADDED", &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}})
			}
		})
		c.Cut()
	}
	pass(time.Minute)
	c.wantServed()
	if n := c.Asked("PATCH"); n != nodes {
		t.Errorf("%d patches of %d Nodes", n, nodes)
	}
	// One before it leads, and one in the term.
	lists := 0
	for _, r := range c.Requests() {
		if strings.Contains(r, "/api/v1/nodes?") && strings.Contains(r, "sendInitialEvents=true") {
			lists++
		}
	}
	if lists < 1 || lists > 2 {
		t.Errorf("%d full lists of Nodes", lists)
	}
	if v := r.read(t.Context()).verdict(); !strings.Contains(v, "every Node has its podCIDRs") {
		t.Error(v)
	}
}

// Of two replicas, either is killed or stopped at any moment, while Nodes come and go.
// The other goes on, and a stopped one that continues does no harm.
func TestReplicasDieAndHangAtAnyMoment(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	const nodes, replaced = 40, 8
	c.seed(nodes)
	// The Lease lasts as long as it does by default: with a shorter one, replicas on a busy
	// machine lose it again and again.
	args := []string{"--cluster-cidr=10.64.0.0/18"}
	replicas := []*kerneltest.Process{c.launch(args...), c.launch(args...)}
	for round := range 4 {
		enough := c.Asked("PATCH") + rand.IntN(replaced)
		c.replace(nodes+round*replaced, replaced)
		kerneltest.Eventually(t, patience, func() error {
			if n := c.Asked("PATCH"); n < enough {
				return fmt.Errorf("%d patches, waiting for %d", n, enough)
			}
			return nil
		})
		i := rand.IntN(len(replicas))
		p := replicas[i]
		if round%2 == 0 {
			p.End(syscall.SIGKILL)
			c.awaitAll()
			replicas[i] = c.launch(args...)
			continue
		}
		p.Freeze()
		kerneltest.AwaitStopped(t, p.PID())
		c.awaitAll()
		p.Thaw()
		c.wantDistinct()
	}
	c.replace(nodes+100, replaced)
	c.awaitAll()
}
