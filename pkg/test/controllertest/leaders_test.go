//go:build kube

package controllertest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

var kills = flag.Int("kills", 12, "how often TestKillsLoseNoBlock kills the controller")

// quick are the shortest times that a leader election allows.
var quick = []string{"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s", "--leader-elect-retry-period=1s"}

// tight is a range of 128 blocks.
var tight = []string{"--cluster-cidr=10.5.0.0/21", "--node-cidr-mask-size=28"}

const tightBlocks = 128

// fill creates Nodes until every block of tight has an owner. It fails the test if a
// block has leaked.
func (l *lab) fill() {
	l.t.Helper()
	var names []string
	for i := len(l.names); i < tightBlocks; i++ {
		names = append(names, fmt.Sprintf("fill-%d", i))
	}
	l.addAtOnce(names...)
	l.served(2 * rest)
}

// forward forwards a request to the API server.
func (l *lab) forward(r *http.Request) (*http.Response, error) {
	to, err := http.NewRequest(r.Method, l.URL+r.URL.RequestURI(), r.Body)
	if err != nil {
		return nil, err
	}
	to.Header = r.Header.Clone()
	return l.Client().Transport.RoundTrip(to)
}

// TestKillsLoseNoBlock kills the controller repeatedly while Nodes are created and
// deleted. No block ever has two owners, and at the end every block can be assigned.
func TestKillsLoseNoBlock(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var p *kerneltest.Process
	for i := range *kills {
		p = l.tulle(append(tight, "--leader-elect=false")...)
		var names []string
		for j := range 8 {
			names = append(names, fmt.Sprintf("node-%d-%d", i, j))
		}
		l.addAtOnce(names...)
		if i%3 == 0 {
			l.served(patience)
			l.remove(names[:4]...)
		}
		// The kill may come during the start, the fence or the writes.
		enough, limit := rand.IntN(len(names)+1), time.NewTimer(time.Duration(rand.Int64N(int64(time.Second))))
		kerneltest.Eventually(t, patience, func() error {
			select {
			case <-limit.C:
				return nil
			default:
			}
			served := 0
			for _, name := range names {
				if len(l.view.all()[name].cidrs) > 0 {
					served++
				}
			}
			if served < enough {
				return fmt.Errorf("%d of %d Nodes have podCIDRs", served, enough)
			}
			return nil
		})
		p.End(syscall.SIGKILL)
	}
	l.tulle(append(tight, "--leader-elect=false")...)
	l.fill()
}

// TestLeaderDies runs two replicas, and kills the leader.
func TestLeaderDies(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	flags := append(tight, quick...)
	one := l.tulle(flags...)
	l.add("a")
	l.served(patience)
	two := l.tulle(flags...)
	l.waitsFor(two, "Starting tulle-controller")
	one.End(syscall.SIGKILL)
	began := time.Now()
	l.add("b")
	l.served(patience)
	t.Logf("killed: the next leader assigns podCIDRs after %v", time.Since(began).Round(10*time.Millisecond))

	three := l.tulle(flags...)
	l.waitsFor(three, "Starting tulle-controller")
	stop(t, two)
	began = time.Now()
	l.add("c")
	l.served(patience)
	t.Logf("stopped: the next leader assigns podCIDRs after %v", time.Since(began).Round(10*time.Millisecond))
	stop(t, three)
	if said := three.Said(); strings.Contains(said, "forbidden") {
		t.Errorf("it lacks a permission:\n%s", said)
	}
}

// TestPausedLeaderDoesNoHarm pauses a leader between its decision and its writes.
// Meanwhile another replica leads, and gives the same blocks to other Nodes. Then the
// first one continues. The API server must not apply its late writes.
func TestPausedLeaderDoesNoHarm(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.audit()
	flags := append(tight, quick...)
	one := l.tulleAs(a.kubeconfig, flags...)
	l.add("a")
	l.served(patience)
	two := l.tulle(flags...)
	l.waitsFor(two, "Starting tulle-controller")

	// The proxy holds the leader's writes back, as a network may.
	held, release := make(chan struct{}, 1000), make(chan struct{})
	a.Answer(func(r *http.Request) http.HandlerFunc {
		if !writesNode(r) {
			return nil
		}
		return func(w http.ResponseWriter, r *http.Request) {
			held <- struct{}{}
			<-release
			answer, err := l.forward(r.WithContext(t.Context()))
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			defer answer.Body.Close()
			w.WriteHeader(answer.StatusCode)
		}
	})
	var names []string
	for i := range 20 {
		names = append(names, fmt.Sprintf("node-%d", i))
	}
	l.addAtOnce(names...)
	kerneltest.Eventually(t, patience, func() error {
		if n := len(held); n < len(names)/2 {
			return fmt.Errorf("%d writes are held:\n%s", n, one.Said())
		}
		return nil
	})
	one.Freeze()
	// The second leader gives the same blocks to other Nodes, because the Nodes that
	// had waited longest are gone.
	l.remove(names[:10]...)
	l.addAtOnce("later-0", "later-1", "later-2", "later-3", "later-4")
	l.served(patience)
	close(release)
	one.Thaw()
	l.add("last")
	l.served(patience)
	stop(t, two)
	l.fill()
	stop(t, one)
}
