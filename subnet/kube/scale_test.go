//go:build kube

package kube

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
	"github.com/tulle-net/tulle/pkg/kube"
	"github.com/tulle-net/tulle/pkg/kube/apitest"
	"github.com/tulle-net/tulle/pkg/test/kubetest"
	"github.com/tulle-net/tulle/subnet"
)

var scale = flag.Int("nodes", 200, "how many Nodes of 17 kB TestServerScale lists")

// scaleVariable holds the kubeconfig for the process that is measured.
const scaleVariable = "TULLE_KUBE_SCALE"

// TestServerScale measures what a store with many Nodes and a heartbeat cost,
// metadata-only and whole. It measures in a process of its own.
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
				n := apitest.LargeNode(i)
				n.UID, n.ResourceVersion = "", ""
				published := n.Annotations
				n.Annotations = nil
				c.Do(http.MethodPost, "/api/v1/nodes?fieldManager=kubelet", n, nil)
				status := "/api/v1/nodes/" + n.Name + "/status?fieldManager="
				c.Do(http.MethodPatch, status+"kubelet", map[string]any{"status": n.Status}, nil)
				c.Do(http.MethodPatch, status+"tulled", map[string]any{"metadata": map[string]any{"annotations": published}}, nil)
			}
		})
	}
	for i := range *scale {
		work <- i
	}
	close(work)
	nodes.Wait()
	kubeconfig := c.ServiceAccount("kube-system", "tulle", rules...)
	for _, metadataOnly := range []bool{false, true} {
		for _, streams := range []bool{true, false} {
			self := exec.Command(os.Args[0], "-test.run", "^TestServerScale$", "-test.v", "-nodes", strconv.Itoa(*scale))
			self.Env = append(os.Environ(), scaleVariable+"="+kubeconfig, fmt.Sprintf("TULLE_KUBE_PLAIN=%t", !streams), fmt.Sprintf("TULLE_KUBE_WHOLE=%t", !metadataOnly))
			said, err := self.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			for line := range strings.Lines(string(said)) {
				if strings.Contains(line, "leases in") || strings.Contains(line, "a heartbeat") {
					t.Logf("metadata-only %t, streaming %t: %s", metadataOnly, streams, strings.TrimSpace(line))
				}
			}
		}
	}
}

// meter counts the bytes of answers.
type meter struct {
	http.RoundTripper
	plain bool // without streamed lists
	bytes atomic.Int64
}

func (m *meter) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.plain && apitest.AsksForStream(r) {
		return &http.Response{StatusCode: http.StatusUnprocessableEntity, Body: http.NoBody, Request: r}, nil
	}
	a, err := m.RoundTripper.RoundTrip(r)
	if err == nil {
		a.Body = metered{a.Body, m}
	}
	return a, err
}

type metered struct {
	io.ReadCloser
	meter *meter
}

func (m metered) Read(to []byte) (int, error) {
	n, err := m.ReadCloser.Read(to)
	m.meter.bytes.Add(int64(n))
	return n, err
}

func measure(t *testing.T, kubeconfig string) {
	o := Options{Kubeconfig: kubeconfig, NodeName: "node-1", Prefix: prefix}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read := &meter{plain: os.Getenv("TULLE_KUBE_PLAIN") == "true"}
	s.client.Wrap(func(to http.RoundTripper) http.RoundTripper {
		read.RoundTripper = to
		return read
	})
	before, began := memory(t, "VmRSS"), time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	s.others.refused = os.Getenv("TULLE_KUBE_WHOLE") == "true"
	_ = s.Watch(ctx, func(u subnet.Update) { n = len(u.Leases); cancel() })
	took, start := time.Since(began).Round(time.Millisecond), read.bytes.Load()
	t.Logf("%d leases in %v, %d bytes, %d a Node; RSS %s before, %s after, %s at the most", n, took, start, start/int64(n), before, memory(t, "VmRSS"), memory(t, "VmHWM"))
	if n != *scale {
		t.Errorf("%d leases of %d Nodes", n, *scale)
	}

	kubelet, err := kube.NewClient(kube.Options{Kubeconfig: kubeconfig, Name: "kubelet"})
	if err != nil {
		t.Fatal(err)
	}
	defer kubelet.Close()
	start = read.bytes.Load()
	const beats = 100
	var last int64
	clock := time.Now().Add(rand.N(100000 * time.Hour)) // unlike what other processes wrote
	for i := range beats {
		beat := []byte(fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","lastHeartbeatTime":%q}]}}`, clock.UTC().Format(time.RFC3339)))
		node := fmt.Sprintf("node-%d", 2+i%(*scale-2))
		var n kube.Node
		if err := kube.Patch(t.Context(), kubelet, kube.Path(kube.Nodes, node, "status"), kube.StrategicMergePatch, beat, kube.WholeNode, &n); err != nil {
			t.Fatal(err)
		}
		last = n.Revision
	}
	kerneltest.Eventually(t, 10*time.Second, func() error {
		if at := s.Status().Revision; at < last {
			return fmt.Errorf("at %d, not %d", at, last)
		}
		return nil
	})
	t.Logf("a heartbeat is %d bytes", (read.bytes.Load()-start)/beats)
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
