package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/etcdtest"
	"github.com/tulle-net/tulle/pkg/test/logtest"
)

// asProgram is the variable that makes this test's binary the program.
const asProgram = "TEST_RUNS_TULLE_CONTROLLER"

var log logtest.Log

func TestMain(m *testing.M) {
	etcdtest.Main()
	if os.Getenv(asProgram) != "" {
		hurry()
		main()
		return
	}
	log.Keep()
	// Parallel tests mostly wait: for processes that start, for leases that end, and between
	// retries. So more of them run at once than there are processors. -parallel says otherwise.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// patience is the time limit of a wait before the test fails.
const patience = 2 * time.Minute

// cluster is an API server whose Nodes get no podCIDRs by themselves.
type cluster struct {
	*apitest.Server
	t testing.TB
}

func newCluster(t testing.TB) cluster {
	f := apitest.New(t)
	f.Gives = nil
	return cluster{f, t}
}

// basic are the flags of most tests, without an API server.
var basic = []string{"--allocate-node-cidrs", "--cluster-cidr=10.64.0.0/14", "--healthz-port=0"}

// flags returns flags with which the program uses the cluster. A later one replaces an
// earlier.
func (c cluster) flags(more ...string) []string {
	return append(append([]string{"--master=" + c.URL}, basic...), more...)
}

// settingsOf returns the settings of a command line.
func settingsOf(t testing.TB, args ...string) settings {
	t.Helper()
	var s settings
	given, err := s.program().Read(args, nil)
	if err == nil {
		err = given.Apply()
	}
	if err == nil {
		err = s.check(given)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// running is a program in this process.
type running struct {
	*process
	t      testing.TB
	cancel context.CancelFunc
	ended  chan struct{}
}

// start runs the program with more flags in this process until the test ends.
func (c cluster) start(more ...string) *running {
	c.t.Helper()
	p, err := settingsOf(c.t, c.flags(more...)...).connect()
	if err != nil {
		c.t.Fatal(err)
	}
	return c.run(p)
}

// run runs a program in this process until the test ends.
func (c cluster) run(p *process) *running {
	ctx, cancel := context.WithCancel(context.Background())
	r := &running{p, c.t, cancel, make(chan struct{})}
	go func() {
		defer close(r.ended)
		defer p.client.Close()
		p.run(ctx)
	}()
	c.t.Cleanup(r.stop)
	return r
}

// stop ends it, and waits for that.
func (r *running) stop() {
	r.cancel()
	<-r.ended
}

// await waits until the program's verdict has a text, in the short reading and in the full
// one.
func (r *running) await(text string) {
	r.t.Helper()
	for _, from := range []func(context.Context) reading{r.glance, r.read} {
		kerneltest.Eventually(r.t, patience, func() error {
			if v := from(context.Background()).verdict(); !strings.Contains(v, text) {
				return errors.New(v)
			}
			return nil
		})
	}
}

// launch runs the program as a process of its own.
func (c cluster) launch(more ...string) *kerneltest.Process {
	c.t.Helper()
	self, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	p := kerneltest.Launch(c.t, "", []string{asProgram + "=1", "GORACE=atexit_sleep_ms=0"}, append([]string{self}, c.flags(more...)...)...)
	c.t.Cleanup(func() {
		p.End(syscall.SIGKILL)
		if c.t.Failed() {
			c.t.Logf("process %d wrote:\n%s", p.PID(), p.Said())
		}
	})
	return p
}

// create creates Nodes from node-FROM on, each as large as a real one.
func (c cluster) create(from, n int) {
	c.t.Helper()
	client := c.Client()
	defer client.CloseIdleConnections()
	for i := from; i < from+n; i++ {
		c.post(client, large(i))
	}
}

// large returns a Node as large as a real one, without podCIDRs.
func large(i int) *corev1.Node {
	n := apitest.LargeNode(i)
	n.UID, n.ResourceVersion = types.UID(fmt.Sprintf("uid-of-node-%d", i)), ""
	n.Spec.PodCIDR, n.Spec.PodCIDRs, n.Annotations = "", nil, nil
	return n
}

func (c cluster) post(client *http.Client, n *corev1.Node) {
	c.t.Helper()
	text, err := json.Marshal(n)
	if err != nil {
		c.t.Fatal(err)
	}
	r, err := client.Post(c.URL+"/api/v1/nodes", "application/json", strings.NewReader(string(text)))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Body.Close()
	if r.StatusCode != http.StatusCreated {
		c.t.Fatalf("create %s: %d", n.Name, r.StatusCode)
	}
}

// seed adds Nodes before anybody watches.
func (c cluster) seed(n int) {
	c.Do(func() {
		for i := range n {
			c.Change("ADDED", large(i))
		}
	})
}

// awaitAll waits until every Node has podCIDRs, and checks them.
func (c cluster) awaitAll() {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() error {
		without := 0
		c.Do(func() {
			for _, n := range c.Nodes {
				if len(n.Spec.PodCIDRs) == 0 && n.DeletionTimestamp == nil {
					without++
				}
			}
		})
		if without > 0 {
			return fmt.Errorf("%d Nodes have no podCIDRs", without)
		}
		return nil
	})
	c.wantDistinct()
}

// wantDistinct fails if two Nodes have overlapping podCIDRs.
func (c cluster) wantDistinct() {
	c.t.Helper()
	owners := make(map[netip.Prefix]string)
	c.Do(func() {
		for name, n := range c.Nodes {
			for _, text := range n.Spec.PodCIDRs {
				p, err := netip.ParsePrefix(text)
				if err != nil {
					c.t.Errorf("%s: %v", name, err)
				}
				if other, taken := owners[p]; taken {
					c.t.Errorf("%s and %s have %s", name, other, p)
				}
				owners[p] = name
			}
		}
	})
}

// nth returns the i-th /24 of the cluster's range.
func nth(i int) string { return fmt.Sprintf("10.%d.%d.0/24", 64+i>>8, i&255) }

var errNone = errors.New("it has no podCIDRs")

// wantEvent waits for an event about a Node.
func (c cluster) wantEvent(node, reason string) (text string) {
	c.t.Helper()
	kerneltest.Eventually(c.t, patience, func() error {
		r, err := http.Get(c.URL + "/api/v1/namespaces/default/events")
		if err != nil {
			return err
		}
		defer r.Body.Close()
		var all struct {
			Items []struct {
				InvolvedObject  struct{ Name string }
				Reason, Message string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&all); err != nil {
			return err
		}
		for _, e := range all.Items {
			if e.InvolvedObject.Name == node && e.Reason == reason {
				text = e.Message
				return nil
			}
		}
		return fmt.Errorf("%d events, none of %s about %s", len(all.Items), reason, node)
	})
	return text
}

// wantNode waits until node-I has podCIDRs, outside those of twins.
func (c cluster) wantNode(i int) {
	c.t.Helper()
	name := fmt.Sprintf("node-%d", i)
	kerneltest.Eventually(c.t, patience, func() error {
		switch cidrs := c.Node(name).Spec.PodCIDRs; {
		case len(cidrs) == 0:
			return errNone
		case cidrs[0] == nth(0):
			c.t.Errorf("%s has %q, which another Node says", name, cidrs)
		}
		return nil
	})
}
