package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tulle-net/tulle/pkg/kernel/kerneltest"
)

// slowWay leads to an API server. It delivers the first write of a Node only when the test
// releases it, even if the client has gone by then.
type slowWay struct {
	to      string
	client  *http.Client
	first   atomic.Bool
	arrived chan struct{}
	release chan struct{}
	answer  chan int // to the late write
}

// behind returns a way to the cluster, and flags with which a program uses it.
func (c cluster) behind() (*slowWay, string) {
	w := &slowWay{
		to: c.URL, client: c.Client(), arrived: make(chan struct{}), release: make(chan struct{}), answer: make(chan int, 1),
	}
	server := httptest.NewServer(w)
	c.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return w, "--master=" + server.URL
}

func (w *slowWay) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	ctx := r.Context()
	late := r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/nodes/") && !w.first.Swap(true)
	if late {
		close(w.arrived)
		<-w.release
		ctx = context.WithoutCancel(ctx)
	}
	on, err := http.NewRequestWithContext(ctx, r.Method, w.to+r.URL.String(), bytes.NewReader(body))
	if err != nil {
		return
	}
	on.Header = r.Header
	answer, err := w.client.Do(on)
	if err != nil {
		if late {
			w.answer <- 0
		}
		return
	}
	defer answer.Body.Close()
	if late {
		w.answer <- answer.StatusCode
	}
	for name, values := range answer.Header {
		out.Header()[name] = values
	}
	out.WriteHeader(answer.StatusCode)
	flush := http.NewResponseController(out)
	for text := make([]byte, 32<<10); ; {
		n, err := answer.Body.Read(text)
		if _, late := out.Write(text[:n]); err != nil || late != nil || flush.Flush() != nil {
			return
		}
	}
}

// A leader hangs for longer than its Lease after it has decided to give the last block
// to a Node. The next leader gives that block to an older Node. The write of the first
// one arrives after that, and fails: the next leader has changed the Node.
func TestALateWriteOfAStoppedLeaderFails(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(p *kerneltest.Process){
		"stopped": func(p *kerneltest.Process) {
			p.Freeze()
			kerneltest.AwaitStopped(t, p.PID())
		},
		"killed": func(p *kerneltest.Process) { p.End(syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			young := large(5)
			young.CreationTimestamp = metav1.NewTime(time.Unix(1_800_000_000, 0))
			c.Do(func() { c.Change("ADDED", young) })
			way, through := c.behind()
			args := append([]string{"--cluster-cidr=10.64.0.0/24"}, short...)
			first := c.launch(append(args, through)...)
			<-way.arrived
			stop(first)
			c.Do(func() { c.Change("ADDED", large(0)) }) // older, and wants the only block
			c.launch(args...)
			kerneltest.Eventually(t, patience, func() error {
				if len(c.Node("node-0").Spec.PodCIDRs) == 0 {
					return errNone
				}
				return nil
			})
			close(way.release)
			if code := <-way.answer; code != http.StatusConflict {
				t.Errorf("the late write is answered %d", code)
			}
			if name == "stopped" {
				first.Thaw()
				c.wantEvent("node-5", "CIDRNotAvailable")
			}
			c.wantDistinct()
			if cidrs := c.Node("node-5").Spec.PodCIDRs; len(cidrs) > 0 {
				t.Errorf("node-5 has %q, too", cidrs)
			}
		})
	}
}
