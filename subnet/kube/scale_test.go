//go:build kube

package kube

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

var scale = flag.Int("nodes", 200, "how many Nodes of 17 kB TestServerScale lists")

// scaleVariable holds the kubeconfig of a process that is to be measured.
const scaleVariable = "TULLE_KUBE_SCALE"

// TestServerScale measures what a store of many Nodes takes, in a process that
// does nothing else.
func TestServerScale(t *testing.T) {
	if kubeconfig, ok := os.LookupEnv(scaleVariable); ok {
		measure(t, kubeconfig)
		return
	}
	c := kubetest.Start(t, kubetest.Options{})
	var nodes sync.WaitGroup
	work := make(chan int)
	for range 8 {
		nodes.Go(func() {
			for i := range work {
				n := largeNode(i)
				n.UID, n.ResourceVersion = "", ""
				c.Do(http.MethodPost, "/api/v1/nodes", n, nil)
				c.Do(http.MethodPatch, "/api/v1/nodes/"+n.Name+"/status", map[string]any{"status": n.Status}, nil)
			}
		})
	}
	for i := range *scale {
		work <- i
	}
	close(work)
	nodes.Wait()
	for _, streams := range []bool{true, false} {
		kubeconfig := c.ServiceAccount("kube-system", fmt.Sprintf("tulle-%t", streams), rules...)
		self := exec.Command(os.Args[0], "-test.run", "^TestServerScale$", "-test.v", "-nodes", strconv.Itoa(*scale))
		self.Env = append(os.Environ(), scaleVariable+"="+kubeconfig, fmt.Sprintf("TULLE_KUBE_PLAIN=%t", !streams))
		said, err := self.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		for line := range strings.Lines(string(said)) {
			if strings.Contains(line, "leases in") {
				t.Logf("streaming %t: %s", streams, strings.TrimSpace(line))
			}
		}
	}
}

func measure(t *testing.T, kubeconfig string) {
	s, err := Open(Options{Kubeconfig: kubeconfig, NodeName: "node-1", Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before, began := memory(t, "VmRSS"), time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	if os.Getenv("TULLE_KUBE_PLAIN") == "true" {
		s.start.Do(func() {
			s.running.Go(func() { (&follower{Store: s, plain: true}).run(s.context) })
		})
	}
	_ = s.Watch(ctx, func(u subnet.Update) { n = len(u.Leases); cancel() })
	t.Logf("%d leases in %v; RSS %s before, %s after, %s at the most", n, time.Since(began).Round(time.Millisecond), before, memory(t, "VmRSS"), memory(t, "VmHWM"))
	if n != *scale {
		t.Errorf("%d leases of %d Nodes", n, *scale)
	}
}

func memory(t *testing.T, what string) string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, what+":"); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}
